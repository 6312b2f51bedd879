//! Search quality on the Cranfield collection, measured through the interfaces of users:
//!
//! ```sh
//! cargo run --profile prove -p garth-testkit --example cranfield -- files COLLECTION FOLDER # a file each
//! garth import FOLDER /cranfield
//! cargo run --profile prove -p garth-testkit --example cranfield -- measure COLLECTION DATA /cranfield
//! ```
#![allow(clippy::print_stdout, reason = "its purpose is to print figures")]

use std::fs;
use std::path::Path;

use futures::executor::block_on;
use garth_engine::model::SearchQuery;
use garth_engine::{DataDir, Env, TreePath};
use garth_testkit::data::cranfield::Cranfield;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["files", collection, folder] => files(&Cranfield::load(Path::new(collection))?, Path::new(folder)),
        ["measure", collection, data, path] => {
            measure(&Cranfield::load(Path::new(collection))?, Path::new(data), path)
        }
        _ => Err("usage: cranfield files COLLECTION FOLDER | cranfield measure COLLECTION DATA PATH".into()),
    }
}

/// Writes title, author and abstract of each document to a file named after its number.
fn files(collection: &Cranfield, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for document in &collection.documents {
        let text = format!("# {}{}\n{}", document.title, document.author, document.text);
        fs::write(folder.join(format!("{:04}.md", document.id)), text)?;
    }
    println!("{} files", collection.documents.len());
    Ok(())
}

fn measure(collection: &Cranfield, data: &Path, path: &str) -> Result<()> {
    let fs = block_on(
        DataDir::open(data, Env::system(), garth_engine::rule::sample::registry())?.account("default"),
    )?;
    let within = TreePath::parse(path)?;
    for neighbours in [false, true] {
        let quality = collection.evaluate(|text| {
            let query = SearchQuery::new(text).within(within.clone()).limit(100).neighbours(neighbours);
            let hits = block_on(fs.search(&query))?.hits;
            let number = |path: &TreePath| path.name()?.split('.').next()?.parse().ok();
            Ok::<_, garth_engine::Error>(hits.iter().filter_map(|hit| number(&hit.path)).collect())
        })?;
        let (ndcg, recall) = (quality.ndcg_at_10, quality.recall_at_100);
        println!("neighbours {neighbours}: nDCG@10 {ndcg:.4}  recall@100 {recall:.4}");
    }
    Ok(())
}
