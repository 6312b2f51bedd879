//! Opens a data folder, writes a file twice, reads it as it was, and finds it by its text.
//!
//! ```sh
//! cargo run -p garth --example quickstart
//! ```

#![allow(clippy::print_stdout)] // that is what an example does

use garth::FileSystemExt;
use garth::model::SearchQuery;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A program names a folder of its own here; this one goes when the example ends.
    let folder = tempfile::tempdir()?;
    let data = garth::open(folder.path())?;
    data.dir().create_account("acme").await?;
    let fs = data.dir().account("acme").await?;

    fs.mkdir_all("/notes").await?;
    let first = fs.write("/notes/alice.md", "Alice takes her coffee black.\n").await?;
    fs.write("/notes/alice.md", "Alice has given up coffee.\n").await?;
    print!("now:    {}", fs.read_to_string("/notes/alice.md").await?);

    // Any past state is a read-only file system of its own.
    let past = fs.as_of(&first.seq.into()).await?;
    print!("before: {}", past.read_to_string("/notes/alice.md").await?);

    for hit in fs.search(&SearchQuery::new("who drinks coffee")).await?.hits {
        println!("found:  {}", hit.path);
    }
    Ok(())
}
