//! Gives an agent a tree of files that its tools can use and cannot leave.
//!
//! ```sh
//! cargo run -p garth --example agent_trees
//! ```

#![allow(clippy::print_stdout)] // that is what an example does

use futures::TryStreamExt;
use garth::fs::{Follow, resolve};
use garth::{FileSystem, FileSystemExt};

/// Reads a file that a model names. A tool needs nothing but the tree of its chat.
async fn read_file(files: &dyn FileSystem, path: &str) -> garth::Result<String> {
    let path = resolve(files, path, Follow::Yes).await?;
    files.read_to_string(&path).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let data = garth::open(folder.path())?;
    let chat = data.agent("scout").user("ann").chat("trip").open().await?;
    let files = chat.files();

    // `/` is the chat, `/.agent` is the agent, `/.user` is what the agent keeps for this user.
    files.write("/plan.md", "1. Pack.\n").await?;
    files.write("/.user/likes.md", "Trains.\n").await?;
    let mut names: Vec<_> = files.read_dir("/").map_ok(|item| item.name.to_string()).try_collect().await?;
    names.sort();
    println!("in /: {}", names.join(" "));

    // Paths that lead out of the tree do not exist, whatever a model makes up.
    print!("plan: {}", read_file(files, "/notes/../plan.md").await.or(read_file(files, "/plan.md").await)?);
    match read_file(files, "/../../etc/passwd").await {
        Ok(text) => println!("escaped: {text}"),
        Err(error) => println!("outside: {}", error.kind()),
    }

    // Everything is in one account, where an administrator sees it under other paths.
    let account = data.dir().account("default").await?;
    print!("account: {}", account.read_to_string("/users/ann/agents/scout/likes.md").await?);
    Ok(())
}
