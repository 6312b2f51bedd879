//! Calls that hold the turns of an account: recalls that wait for an embedding service.

use std::sync::mpsc;
use std::time::Duration;

use async_trait::async_trait;
use garth_agent::models::{Embedder, Embeddings, ServiceError};
use garth_testkit::proof::{Broken, Proven, hold};
use serde_json::json;
use tokio::sync::watch;

use crate::served::{Connection, Request};

/// Longest wait for a call to begin.
const PATIENCE: Duration = Duration::from_secs(60);
/// Memories of each account. A recall asks the service to compare two or more.
const MEMORIES: [&str; 3] = ["alpha", "beta", "gamma"];

/// Gate of an embedding service: requests wait while it is closed.
pub(super) struct Gate {
    is_open: watch::Sender<bool>,
    /// Word of each request that has begun.
    begun: mpsc::Receiver<()>,
}

/// Embedding service behind a gate.
#[derive(Debug)]
pub(super) struct GatedEmbedder {
    is_open: watch::Receiver<bool>,
    begun: mpsc::Sender<()>,
}

impl Gate {
    /// Returns a closed gate and its service.
    pub(super) fn new() -> (Self, GatedEmbedder) {
        let ((is_open, opened), (sender, begun)) = (watch::channel(false), mpsc::channel());
        (Self { is_open, begun }, GatedEmbedder { is_open: opened, begun: sender })
    }
}

#[async_trait]
impl Embedder for GatedEmbedder {
    fn model(&self) -> &str {
        "gated"
    }

    async fn embed(&self, texts: &[String]) -> Result<Embeddings, ServiceError> {
        self.begun.send(()).map_err(|_| ServiceError::Unreachable)?;
        let mut is_open = self.is_open.clone();
        is_open.wait_for(|is_open| *is_open).await.map_err(|_| ServiceError::Unreachable)?;
        Ok(Embeddings { vectors: texts.iter().map(|_| vec![1.0, 0.0]).collect(), tokens: None })
    }
}

/// Stores what the calls of an account recall.
///
/// # Errors
/// A refusal.
pub(super) fn fill(address: &str, account: &str, key: &str) -> Proven<()> {
    let mut connection = Connection::open(address)?;
    for name in MEMORIES {
        let uri = format!("ctx://{account}/users/ann/memories/events/{name}");
        let body = json!({"uri": uri, "content": format!("The ferry note about {name}.")});
        connection.ok(&Request::post("memories/put", &body).key(key))?;
    }
    Ok(())
}

/// Calls that hold turns. They end when this is dropped.
pub(super) struct HeldTurns<'a> {
    gate: &'a Gate,
    connections: Vec<Connection>,
}

impl<'a> HeldTurns<'a> {
    /// Begins calls of an account, and returns when each has its turn. `number` tells their questions from
    /// those of earlier calls, whose vectors the server has.
    ///
    /// # Errors
    /// A call that gets no turn.
    pub(super) fn begin(
        gate: &'a Gate,
        address: &str,
        key: &str,
        (number, calls): (u64, usize),
    ) -> Proven<Self> {
        gate.is_open.send_replace(false);
        let mut held = Self { gate, connections: Vec::new() };
        for call in 0..calls {
            let question = format!("which ferry note of day {number} and hour {call}");
            let request = Request::post("recall", &json!({"question": question})).key(key);
            let mut connection = Connection::open(address)?;
            connection.send(&request.bytes())?;
            held.connections.push(connection);
            let begun = gate.begun.recv_timeout(PATIENCE);
            begun.map_err(|_| Broken::because("a recall did not begin although turns are free"))?;
        }
        Ok(held)
    }

    /// Ends the calls.
    ///
    /// # Errors
    /// A call that fails.
    pub(super) fn end(mut self) -> Proven<()> {
        self.gate.is_open.send_replace(true);
        for connection in &mut self.connections {
            let answer = connection.answer()?;
            hold(answer.is_ok(), || format!("a call that held a turn is answered {}", answer.shown()))?;
        }
        Ok(())
    }
}

impl Drop for HeldTurns<'_> {
    fn drop(&mut self) {
        self.gate.is_open.send_replace(true);
    }
}
