//! Builds the system prompt of an agent from the files of its workspace.
//!
//! ```sh
//! cargo run -p garth --example prompts
//! ```

#![allow(clippy::print_stdout)] // that is what an example does

use garth::FileSystemExt;
use garth::workspace::Init;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let data = garth::open(folder.path())?;

    // Without a user, the owner of the agent speaks, and may write its workspace.
    let chat = data.agent("concierge").open().await?;
    chat.workspace().init(&Init::default().without_bootstrap()).await?;
    chat.files().write("/.agent/SOUL.md", "You are the concierge of a small hotel. You are brief.\n").await?;
    chat.workspace().add_daily(None, "The lift is out of order until noon.").await?;

    let prompt = chat.prompt().await?;
    println!("knows its soul: {}", prompt.text.contains("concierge of a small hotel"));
    println!("knows the day:  {}", prompt.text.contains("out of order until noon"));

    // The prompt says which file each part comes from, and why a part was left out.
    for part in prompt.parts.iter().filter(|part| part.included) {
        println!("part: {} ({} tokens)", part.name, part.tokens);
    }

    // A guest talks to the same agent: what the owner's session remembers is not in the guest's prompt.
    let guest = data.agent("concierge").user("alice").open().await?.prompt().await?;
    println!("guest sees the day: {}", guest.text.contains("out of order until noon"));
    Ok(())
}
