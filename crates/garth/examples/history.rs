//! Lists the versions of a file, follows what changed in the whole tree, and brings back what was removed.
//!
//! ```sh
//! cargo run -p garth --example history
//! ```

#![allow(clippy::print_stdout)] // that is what an example does

use garth::model::{Author, Batch, ChangesQuery, HistoryPage, Moment, Op, Seq};
use garth::{FileSystemExt, TreePath};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let data = garth::open(folder.path())?;
    data.dir().create_account("acme").await?;
    let fs = data.dir().account("acme").await?;

    let plan = TreePath::parse("/plan.md")?;
    for (agent, text) in [("scout", "1. look around\n"), ("writer", "1. look around\n2. write it down\n")] {
        let batch = Batch::from(Op::write(&plan, text)).author(Author::agent(agent)).message("plan");
        fs.commit(batch).await?;
    }
    let kept = fs.commit(Batch::from(Op::snapshot("kept"))).await?;
    fs.remove(&plan).await?;

    for version in fs.history(&plan.clone().into(), &HistoryPage::default()).await?.items {
        let agent = version.commit.author.agent.unwrap_or("nobody".to_owned());
        let size = version.entry.map_or("removed".to_owned(), |entry| format!("{} bytes", entry.size));
        println!("{}: {size} by {agent}", version.commit.seq);
    }

    for commit in fs.changes(&ChangesQuery::since(Seq(0))).await?.commits {
        for change in commit.changes {
            let path = change.path().map(|path| path.to_string()).unwrap_or_default();
            println!("{} {:?} {path}", commit.commit.seq, change.kind);
        }
    }

    // A copy may take its source from the past: that is how a file is restored.
    fs.commit(Batch::from(Op::copy(&plan, &plan).as_of(kept.seq))).await?;
    let snapshot = fs.as_of(&Moment::Snapshot("kept".to_owned())).await?;
    assert_eq!(fs.read_file(&plan).await?, snapshot.read_file(&plan).await?);
    print!("{}", fs.read_to_string(&plan).await?);
    Ok(())
}
