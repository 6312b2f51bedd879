//! How often search finds the turn that answers a question, in conversations of our own:
//!
//! ```sh
//! cargo run --release -p garth-testkit --example conversations
//! ```
#![allow(clippy::print_stdout, reason = "its purpose is to print figures")]

use std::collections::BTreeMap;

use futures::executor::block_on;
use garth::engine::sqlite::SqliteFs;
use garth::model::{Batch, Op, SearchQuery};
use garth::{Env, FileSystem, TreePath};
use garth_testkit::conversation::{Conversations, Told};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Hits that are looked at.
const HITS: usize = 10;
/// Turns of one commit, where a session grows turn by turn: each is a passage then.
const GROWING: [(&str, usize); 2] = [("written at once", usize::MAX), ("turn by turn", 1)];

fn main() -> Result<()> {
    let set = Conversations::made();
    for (how, turns) in GROWING {
        let folder = tempfile::tempdir()?;
        let fs = SqliteFs::open(folder.path(), Env::system())?;
        for session in &set.sessions {
            let path = path(&session.name)?;
            for some in session.turns.chunks(turns.min(session.turns.len())) {
                block_on(fs.commit(Batch::new([Op::append(path.clone(), some.concat())])))?;
            }
        }
        for neighbours in [false, true] {
            measure(&format!("{how}, neighbours {neighbours}"), &set, &*fs, neighbours)?;
        }
    }
    Ok(())
}

fn path(name: &str) -> Result<TreePath> {
    Ok(TreePath::parse(&format!("/{name}"))?)
}

/// Prints how often the turn is wholly in one of the first hits.
fn measure(how: &str, set: &Conversations, fs: &dyn FileSystem, neighbours: bool) -> Result<()> {
    let mut found: BTreeMap<Told, (usize, usize)> = BTreeMap::new();
    for question in &set.questions {
        let query = SearchQuery::new(&question.text).per_file(HITS).limit(HITS).neighbours(neighbours);
        let (file, turn) = (path(&set.sessions[question.session].name)?, set.bytes_of(question));
        let hits = block_on(fs.search(&query))?.hits;
        let has = |hit: &garth::model::Hit| {
            hit.path == file && hit.bytes.start <= turn.start && turn.end <= hit.bytes.end
        };
        let (all, right) = found.entry(question.told).or_default();
        *all += 1;
        *right += usize::from(hits.iter().any(has));
    }
    let share = |all: usize, right: usize| right as f64 / all as f64;
    let (all, right) = found.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    println!("{how}: evidence R@{HITS} {:.3} of {all} questions", share(all, right));
    for (told, (all, right)) in found {
        println!("  {told:?}: {:.3} of {all}", share(all, right));
    }
    Ok(())
}
