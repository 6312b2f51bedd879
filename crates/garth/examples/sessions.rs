//! Keeps a conversation, and builds the part of it that fits the context window of a model.
//!
//! ```sh
//! cargo run -p garth --example sessions
//! ```

#![allow(clippy::print_stdout)] // that is what an example does

use garth::session::{Append, Create, Draft, Format, PackOptions, Select};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let data = garth::open(folder.path())?;
    let chat = data.agent("coder").user("alice").open().await?;
    let sessions = chat.sessions();

    // A session belongs to the agent and to whom it talks with. What is appended is never changed.
    sessions.create(&Create::new("parser").title("Where things are")).await?;
    for turn in 1..=40 {
        let said = [
            Draft::user(format!("Question {turn}: where is module {turn}?")),
            Draft::assistant(format!("Module {turn} is in `src/module_{turn}.rs`.")),
        ];
        sessions.append("parser", &Append::messages(said)).await?;
    }
    for line in sessions.lines("parser", &Select::messages(1..=2)).await?.items {
        println!("line {}: {} bytes", line.number, line.text.len());
    }

    // A pack is what a model gets: the latest messages that fit the budget.
    let pack = sessions.pack("parser", &PackOptions::default().budget(500)).await?;
    println!("pack: {} tokens, from message {}", pack.pack.tokens, pack.pack.window.from);

    // The same as the body of a request to a provider.
    let body: serde_json::Value = serde_json::from_str(&pack.list(Format::OpenAi))?;
    let last = body["messages"].as_array().and_then(|messages| messages.last()).ok_or("an empty pack")?;
    println!("last: {}", last["content"]);
    Ok(())
}
