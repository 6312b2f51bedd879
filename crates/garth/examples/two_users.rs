//! Two users of one agent: each has memories of their own, and neither sees those of the other.
//!
//! ```sh
//! cargo run -p garth --example two_users
//! ```

#![allow(clippy::print_stdout)] // that is what an example does

use garth::FileSystemExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A program names a folder of its own here; this one is removed when the example ends.
    let folder = tempfile::tempdir()?;
    let data = garth::open(folder.path())?;

    // A request names whom a call is for. Nothing is read or written before the first call.
    let concierge = data.agent("concierge");
    let (alice, bob) = (concierge.clone().user("alice"), concierge.user("bob"));

    alice.remember("Takes her coffee black.").await?;
    bob.remember("Drinks tea.\n\nAllergic to nuts.").await?;

    for (name, user) in [("alice", &alice), ("bob", &bob)] {
        for known in user.recall("coffee, tea and nuts").await?.items {
            println!("{name}: {}", known.text.replace('\n', " ").trim());
        }
    }

    // What one user remembers does not exist for the other: nothing is found, by text or by path.
    println!("bob knows of coffee: {}", bob.recall("who takes coffee").await?.fits);
    let chat = bob.open().await?;
    let seen = chat.files().exists("/ctx/users/alice").await?;
    println!("bob sees the files of alice: {seen}");
    Ok(())
}
