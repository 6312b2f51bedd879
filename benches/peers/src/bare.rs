//! Server to compare `POST /v1/get` with: axum alone. It parses the same request and returns the same JSON
//! from a map in memory, without key, tree or version.

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

/// Response of `get`, field by field.
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
    // Parsed because garth parses it too.
    #[allow(dead_code)]
    agent_id: String,
    path: String,
}

/// Reads responses from standard input, one per line, prints the address as one line of JSON and serves until
/// it is killed.
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
