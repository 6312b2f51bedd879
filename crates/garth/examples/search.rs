//! Finds text below a directory and by tag; a file is found as soon as its commit is there.
//!
//! ```sh
//! cargo run -p garth --example search
//! ```

#![allow(clippy::print_stdout)] // that is what an example does

use garth::TreePath;
use garth::model::{Batch, Op, SearchQuery, SetAttrs};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let data = garth::open(folder.path())?;
    data.dir().create_account("acme").await?;
    let fs = data.dir().account("acme").await?;

    let notes = [
        ("/notes/alice.md", "Alice takes her coffee black, never after noon.", "person"),
        ("/notes/bob.md", "Bob drinks tea.\nHe meets Alice for coffee on Fridays.", "person"),
        ("/recipes/cake.md", "A cake with coffee and walnuts.", "recipe"),
    ];
    let ops = notes.map(|(path, text, tag)| {
        let attrs = SetAttrs::new().tags([tag]).content_type("text/markdown");
        Ok(Op::write(TreePath::parse(path)?, text).with_parents().with_attrs(attrs))
    });
    fs.commit(Batch::new(ops.into_iter().collect::<garth::Result<Vec<_>>>()?)).await?;

    let below = SearchQuery::new("black coffee").within(TreePath::parse("/notes")?).limit(5);
    for hit in fs.search(&below).await?.hits {
        println!("{}, from line {}: {}", hit.path, hit.lines.start, hit.snippet.replace('\n', " "));
    }
    for hit in fs.search(&SearchQuery::new("coffee").tag("recipe")).await?.hits {
        println!("recipe: {}", hit.path);
    }
    Ok(())
}
