//! `get` of one account while calls of another compute: the slowest latency for each family of such calls.

use std::path::Path;

use anyhow::Result;
use garth_agent::session::{Append, Create, Draft, Sessions};
use garth_engine::TreePath;
use garth_engine::datadir::Scope;
use garth_engine::model::Op;
use serde_json::json;
use tokio::task::JoinSet;

use super::client::{open, paced};
use super::server::{Server, Target};
use super::{GET, fill, runtime, still_at_work};
use crate::figures::Figures;
use crate::options::Options;

/// Gets per second, and callers of the other account.
const RATE: f64 = 500.0;
const CALLERS: usize = 2;

/// Size of the long message, of fewer tokens than a pack may have, and of each workspace file that goes into
/// prompts, in bytes.
const MESSAGE: usize = 3_000_000;
const FILE: usize = 1_000_000;

/// Returns the families: the name of the figure, the route and the body of the repeated call.
fn families() -> [(&'static str, &'static str, String); 5] {
    let of = |mut fields: serde_json::Value| {
        (fields["agent"], fields["user"]) = (json!("coder"), json!("ann"));
        fields.to_string()
    };
    let said =
        |number| json!({"role": "user", "content": format!("Line {number}: {}", words(200))}).to_string();
    let transcript: String = (0..3_000).map(|number| said(number) + "\n").collect();
    let import = of(json!({"name": "second", "format": "openai", "mode": "whole", "transcript": transcript}));
    [
        ("skills", "/v1/agents/coder/skills/list", "{}".to_owned()),
        ("pack", "/v1/context/pack", of(json!({"name": "work", "budget": 1_000_000, "dry": true}))),
        (
            "recall",
            "/v1/recall",
            json!({"question": "word1 word2 word3 word4", "budget": 20_000}).to_string(),
        ),
        ("import", "/v1/sessions/import", import),
        ("prompt", "/v1/agents/coder/prompt", json!({"dry": true}).to_string()),
    ]
}

/// Measures gets alone and concurrently with each family.
pub(crate) fn beside_computing(options: &Options) -> Result<Figures> {
    let requests = options.size.of(5_000, 100);
    let (data, runtime) = (options.folder()?, runtime()?);
    let key = runtime.block_on(prepare(data.path()))?;
    let garth = Server::garth(options.garth()?, data.path())?;
    let busy = Target { key, ..garth.target.clone() };
    runtime.block_on(fill(&garth.target))?;
    let mut figures = Figures::default();
    for run in 1..=options.runs {
        eprintln!("  {run}/{}", options.runs);
        figures.latencies("alone", runtime.block_on(paced(&garth.target, GET, requests, RATE))?);
        for (name, route, body) in families() {
            let latencies = runtime.block_on(async {
                let mut calls = JoinSet::new();
                for mut connection in open(&busy, CALLERS).await? {
                    let body = body.clone();
                    calls.spawn(async move {
                        loop {
                            connection.post(route, body.as_bytes()).await?;
                        }
                    });
                }
                let latencies = paced(&garth.target, GET, requests, RATE).await?;
                still_at_work::<()>(calls).await?;
                anyhow::Ok(latencies)
            })?;
            figures.latencies(name, latencies);
        }
    }
    Ok(figures)
}

fn words(bytes: usize) -> String {
    let mut text: String = (0..bytes / 6).map(|number| format!("word{} ", number % 977)).collect();
    text.truncate(bytes);
    text
}

/// Creates an account with much data of every kind. Returns one of its keys.
async fn prepare(folder: &Path) -> Result<String> {
    let data = garth::builder().open(folder)?;
    // A server makes the account whose key it prints only in a folder without accounts.
    data.create_account("default").await?;
    data.create_account("busy").await?;
    let tree = data.account("busy").await?;
    for skill in 0..100 {
        let values = "[1, 2, 3], ".repeat(480);
        let text = format!("---\nname: s{skill}\nmetadata: {{x: [{values}]}}\n---\nWhat it does.\n");
        let path = TreePath::parse(&format!("/agents/coder/skills/s{skill}/SKILL.md"))?;
        tree.commit(Op::write(path, text).with_parents().into()).await?;
    }
    for name in ["AGENTS.md", "MEMORY.md", "SOUL.md"] {
        let path = TreePath::parse(&format!("/agents/coder/{name}"))?;
        tree.commit(Op::write(path, words(FILE)).with_parents().into()).await?;
    }
    let sessions = Sessions::new(&*tree, "ann", "coder")?;
    for name in ["work", "second"] {
        sessions.create(&Create::new(name)).await?;
    }
    sessions.append("work", &Append::messages([Draft::user(words(MESSAGE))])).await?;
    Ok(data.control().create_key("busy", "bench", &[Scope::Admin]).await?.1.reveal().to_owned())
}
