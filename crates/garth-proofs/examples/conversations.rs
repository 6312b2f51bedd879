//! Rate at which search finds the turn that answers a question, in generated conversations:
//!
//! ```sh
//! cargo run --profile prove -p garth-proofs --example conversations
//! ```
#![allow(clippy::print_stdout, reason = "its purpose is to print figures")]

use std::collections::BTreeMap;
use std::ops::Range;

use futures::executor::block_on;
use garth_agent::recall::{Key, Recall, Recaller};
use garth_agent::session::{Append, Create, Draft, Resolved, Sessions};
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Op, SearchQuery};
use garth_engine::{Env, FileSystem, TreePath};
use garth_testkit::data::conversation::{Conversations, Told};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Number of hits that count.
const HITS: usize = 10;
/// Turns of one long session.
const TURNS: usize = 10_000;
/// Turns of one commit. If a session grows turn by turn, each turn is a passage.
const GROWING: [(&str, usize); 2] = [("written at once", usize::MAX), ("turn by turn", 1)];

fn main() -> Result<()> {
    let set = Conversations::made();
    for (how, turns) in GROWING {
        let folder = tempfile::tempdir()?;
        let fs = SqliteFs::open(folder.path(), Env::system(), garth_agent::registry())?;
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
    long(&set)
}

/// Prints how often one session of many turns returns the answering turn, and how long it takes.
fn long(set: &Conversations) -> Result<()> {
    let (folder, env) = (tempfile::tempdir()?, Env::system());
    let fs = SqliteFs::open(folder.path(), env.clone(), garth_agent::registry())?;
    let sessions = Sessions::new(&*fs, "ann", "coder")?.env(env.clone());
    block_on(sessions.create(&Create::new("long")))?;
    let session = set.in_one(TURNS);
    for turns in session.turns.chunks(100) {
        let drafts = turns.iter().map(|turn| Draft::parse(turn)).collect::<garth_engine::Result<Vec<_>>>()?;
        block_on(sessions.append("long", &Append::messages(drafts)))?;
    }
    let directory = sessions.directory("long")?;
    let (recaller, key) = (Recaller::new(&*fs, "default").env(env.clone()), Key::random(&env)?);
    let mut right = [0; 2];
    let mut spent = [Vec::new(), Vec::new()];
    for question in &set.questions {
        let id = format!("msg-{:03}-{:03}", question.session, question.turn);
        let Resolved::Lines { bytes, .. } = block_on(sessions.resolve("long", &id.parse()?))? else {
            return Err("a turn is a line".into());
        };
        let query = SearchQuery::new(&question.text).within(directory.clone()).per_file(HITS).limit(HITS);
        let start = env.instant();
        let hits = block_on(fs.search(&query.neighbours(true)))?.hits;
        spent[0].push(env.instant() - start);
        right[0] += usize::from(hits.iter().any(|hit| has(&hit.bytes, &bytes)));
        let mut asked = Recall::new(&question.text);
        asked.within.push(directory.clone());
        let start = env.instant();
        let items = block_on(recaller.recall(&asked, &key))?.items;
        spent[1].push(env.instant() - start);
        right[1] += usize::from(items.iter().take(HITS).any(|item| has(&item.bytes, &bytes)));
    }
    for (how, (right, mut spent)) in ["search", "recall"].into_iter().zip(right.into_iter().zip(spent)) {
        spent.sort_unstable();
        println!(
            "one session of {} turns, {how}: evidence R@{HITS} {:.3} of {} questions, median {:?}, p99 {:?}",
            session.turns.len(),
            right as f64 / set.questions.len() as f64,
            set.questions.len(),
            spent[spent.len() / 2],
            spent[spent.len() * 99 / 100],
        );
    }
    Ok(())
}

/// Returns true if a piece contains a complete turn.
fn has(piece: &Range<u64>, turn: &Range<u64>) -> bool {
    // The line feed after a turn is in no piece.
    piece.start <= turn.start && turn.end <= piece.end + 1
}

fn path(name: &str) -> Result<TreePath> {
    Ok(TreePath::parse(&format!("/{name}"))?)
}

/// Prints how often the complete turn is in one of the first hits.
fn measure(how: &str, set: &Conversations, fs: &dyn FileSystem, neighbours: bool) -> Result<()> {
    let mut found: BTreeMap<Told, (usize, usize)> = BTreeMap::new();
    for question in &set.questions {
        let query = SearchQuery::new(&question.text).per_file(HITS).limit(HITS).neighbours(neighbours);
        let (file, turn) = (path(&set.sessions[question.session].name)?, set.bytes_of(question));
        let hits = block_on(fs.search(&query))?.hits;
        let has = |hit: &garth_engine::model::Hit| {
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
