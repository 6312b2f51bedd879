//! Memories with names, versions and relations, and recall within a budget of tokens.
//!
//! ```sh
//! cargo run -p garth --example memories
//! ```

#![allow(clippy::print_stdout)] // that is what an example does

use garth::Recall;
use garth::memory::{Level, Put, Uri};
use garth::model::HistoryPage;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let data = garth::open(folder.path())?;
    let chat = data.user("alice").open().await?;
    let memories = chat.memories();

    // A URI says whose a memory is, its category and its name. Putting it again makes a version.
    let coffee: Uri = "ctx://default/users/alice/memories/preferences/coffee".parse()?;
    let black = Put::new("Alice takes her coffee black. She has two cups a day.\n").tags(["drinks"]);
    memories.put(&coffee, &black).await?;
    memories.put(&coffee, &Put::new("Alice has given up coffee. She drinks green tea.\n")).await?;
    let trip: Uri = "ctx://default/users/alice/memories/events/trip-to-lisbon".parse()?;
    memories.put(&trip, &Put::new("Alice was in Lisbon in May. She liked the trams.\n")).await?;

    // The first sentence is the abstract of a memory, unless one is given.
    println!("now: {}", memories.get(&coffee, Level::Abstract).await?.text);
    for version in memories.log(&coffee, &HistoryPage::default()).await?.items {
        println!("version {}", version.meta.map_or(0, |meta| meta.version));
    }

    // The best of what is known, within a budget, with the source of each piece.
    let known = chat.recall(Recall::new("What does Alice drink?").budget(300).tag("drinks")).await?;
    for piece in &known.items {
        println!("{}: {}", piece.source, piece.text.trim());
    }
    println!("in {} tokens or fewer: {}", 300, known.tokens <= 300);
    Ok(())
}
