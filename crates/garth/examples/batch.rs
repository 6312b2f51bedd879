//! Changes several files in one commit: all of it or nothing, and only if nobody else was faster.
//!
//! ```sh
//! cargo run -p garth --example batch
//! ```

#![allow(clippy::print_stdout)] // that is what an example does

use garth::model::{Author, Batch, Op, Precondition};
use garth::{ErrorKind, FileSystemExt, TreePath};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let data = garth::open(folder.path())?;
    data.dir().create_account("acme").await?;
    let fs = data.dir().account("acme").await?;

    let todo = TreePath::parse("/jobs/todo/report.md")?;
    let done = TreePath::parse("/jobs/done/report.md")?;
    let log = TreePath::parse("/jobs/log.md")?;
    fs.commit(Batch::new([Op::write(&todo, "Write the report.\n").with_parents()])).await?;
    let seen = fs.entry(&todo).await?;

    // The job moves, and the log says so, if the job is still the version that was read.
    let finish = || {
        let ops = [Op::rename(&todo, &done).no_replace().with_parents(), Op::append(&log, "report: done\n")];
        Batch::new(ops)
            .require(&todo, Precondition::Version(seen.version))
            .author(Author::agent("scout").with_session("s-1"))
            .message("finish the report")
    };
    let commit = fs.commit(finish()).await?;
    println!("commit {} did {} things", commit.seq, commit.outcomes.len());

    // A second worker with the same plan is refused, and nothing of its batch is applied.
    match fs.commit(finish()).await {
        Err(error) if error.is(ErrorKind::Conflict) => println!("refused: {}", error.kind()),
        other => println!("not refused: {other:?}"),
    }
    print!("{}", fs.read_to_string(&log).await?);
    Ok(())
}
