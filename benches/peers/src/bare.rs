//! What `POST /v1/get` is measured against: axum with nothing behind it. It parses the same request and
//! writes the same JSON from a map in memory, with no key, no tree and no version.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The answer of `get`, field for field.
#[derive(Serialize, Deserialize)]
struct Answer {
    found: bool,
    path: String,
    value: Box<RawValue>,
    version_id: String,
    created_at: String,
    expires_at: Option<String>,
    tags: Vec<String>,
}

#[derive(Deserialize)]
struct Request {
    #[allow(dead_code)] // parsed, as garth parses it
    agent_id: String,
    path: String,
}

/// Reads answers from standard input, one a line, prints the address as one line of
/// JSON and serves until killed.
#[tokio::main(worker_threads = 2)]
pub(crate) async fn serve() -> Result<()> {
    let mut answers = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let answer: Answer = serde_json::from_str(&line?).context("each line is an answer of get")?;
        answers.insert(answer.path.clone(), answer);
    }
    let app = Router::new().route("/v1/get", post(get)).with_state(Arc::new(answers));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{{\"url\":\"http://{}\"}}", listener.local_addr()?);
    std::io::stdout().flush()?;
    Ok(axum::serve(listener, app).await?)
}

async fn get(State(answers): State<Arc<HashMap<String, Answer>>>, body: Bytes) -> Response {
    let Ok(request) = serde_json::from_slice::<Request>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let answer = answers.get(&request.path).map(serde_json::to_vec);
    let Some(Ok(json)) = answer else { return StatusCode::NOT_FOUND.into_response() };
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}
