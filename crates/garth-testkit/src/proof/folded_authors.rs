//! Author, class and audience of live bytes while retention removes the past: every state that stays readable
//! has the bytes of before, each by the author of before.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{At, Author, Batch, ByteRange, Kind, MAX_PAGE, Moment, Op, Seq, WalkPage};
use garth_engine::rule::retention::Retention;
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem};

use super::{About, Broken, Proof, Proven, Report, Setting, account, at, hold, run};
use crate::data::random::Random;
use crate::fs::planted::{Bug, Planted};
use crate::subject::START;

/// Commits between two collections.
const ROUND: u64 = 40;
/// One state in this many is recorded, on average.
const RECORDED: u64 = 4;
/// Limit on the offsets of random changes, in bytes. Files are cut and replaced about as often as they grow.
const OFFSETS: u64 = 20_000;
/// Limit on the lengths of random ranges, in bytes.
const LENGTHS: u64 = 8_000;

const COUNTS: [&str; 6] =
    ["commits", "refused", "commits folded", "states compared", "states gone", "runs of folded commits"];

/// Random changes of files by many authors, with collections in between. The size is the number of commits.
#[derive(Clone, Copy, Debug, Default)]
pub struct FoldedAuthors {
    /// Bug of the filesystem through which blame is read: a negative control.
    pub bug: Option<Bug>,
}

impl Proof for FoldedAuthors {
    fn about(&self) -> About {
        About {
            name: "folded-authors",
            claim: "Bytes keep author, class and audience after their commits have left the log.",
            full: 50_000,
            ci: 480,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        run(sweep(setting.folder, setting.size, setting.seed, self.bug))
    }
}

/// Content of a file, and the length and author of each run of its bytes; `None` for a hole.
struct Written {
    content: Bytes,
    runs: Vec<(u64, Option<Author>)>,
}

/// Files of a state, by path.
type State = BTreeMap<String, Written>;

/// Tree under random changes, and its states that are recorded.
struct Sweep {
    fs: Arc<SqliteFs>,
    /// View of this tree, with the bug if there is one.
    seen: Arc<dyn FileSystem>,
    random: Random,
    /// States by commit. None is before the oldest readable one.
    recorded: BTreeMap<u64, State>,
    oldest: u64,
    report: Report,
}

/// Makes `commits` random commits and compares the recorded states after each collection.
///
/// # Errors
/// A readable state with other bytes or authors than it had; a state that should be gone.
async fn sweep(folder: &Path, commits: u64, seed: u64, bug: Option<Bug>) -> Proven<Report> {
    let (env, clock) = Env::manual(START);
    let fs = account(&folder.join("account"), env)?;
    let plain: Arc<dyn FileSystem> = fs.clone();
    let seen: Arc<dyn FileSystem> = match bug {
        Some(bug) => Arc::new(Planted::new(plain, bug)),
        None => plain,
    };
    let (random, recorded, report) = (Random::new(seed), BTreeMap::new(), Report::of(COUNTS));
    let mut sweep = Sweep { fs, seen, random, recorded, oldest: 0, report };
    for number in 1..=commits {
        clock.advance(Duration::from_secs(1));
        sweep.commit().await?;
        let is_round = number % ROUND == 0;
        if is_round || sweep.random.one_in(RECORDED) {
            sweep.record().await?;
        }
        if is_round {
            sweep.fold().await.map_err(|error| Broken::because(format!("seed {seed}: {error}")))?;
        }
    }
    Ok(sweep.report)
}

impl Sweep {
    async fn commit(&mut self) -> Proven<()> {
        let head = self.fs.head().await?.seq.0;
        let mut ops = vec![op(&mut self.random, self.oldest, head)?];
        if self.random.one_in(3) {
            ops.push(op(&mut self.random, self.oldest, head)?);
        }
        let batch = Batch::new(ops).author(author(&mut self.random));
        let what = match self.fs.commit(batch).await {
            Ok(_) => "commits",
            // A file that is missing, a name that is taken, overlapping ranges of one file.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::InvalidArgument
                ) =>
            {
                "refused"
            }
            Err(error) => return Err(error.into()),
        };
        self.report.add(what, 1);
        Ok(())
    }

    async fn record(&mut self) -> Proven<()> {
        let head = self.fs.head().await?.seq.0;
        let (state, _) = written(&*self.seen).await?;
        self.recorded.insert(head, state);
        Ok(())
    }

    /// Removes the past before one of the recorded states, and compares those that stay readable.
    async fn fold(&mut self) -> Proven<()> {
        let seqs: Vec<u64> = self.recorded.keys().copied().collect();
        let (oldest, head) = (self.random.pick(&seqs), self.fs.head().await?.seq.0);
        self.oldest = oldest;
        let retention = Retention { commits: Some(head - oldest), ..Retention::default() };
        self.fs.set_retention(retention).await?;
        let collected = self.fs.gc(Duration::ZERO).await?;
        hold(collected.oldest == oldest, || format!("{oldest} should be the oldest state: {collected:?}"))?;
        self.report.add("commits folded", collected.folded);
        let findings = self.fs.fsck().await?.findings;
        hold(findings.is_empty(), || format!("fsck finds {findings:?}"))?;
        for (seq, before) in &self.recorded {
            let then = self.seen.as_of(&Moment::Seq(Seq(*seq))).await;
            if *seq < oldest {
                let is_gone = then.is_err_and(|error| error.is(ErrorKind::Gone));
                hold(is_gone, || format!("state {seq} before {oldest} is not gone"))?;
                self.report.add("states gone", 1);
                continue;
            }
            let (now, folded) = written(&*then?).await?;
            same(*seq, before, &now)?;
            self.report.add("states compared", 1);
            self.report.add("runs of folded commits", folded);
        }
        self.recorded.retain(|seq, _| *seq >= oldest);
        Ok(())
    }
}

/// Compares a state with itself before the collection.
fn same(seq: u64, before: &State, now: &State) -> Proven<()> {
    hold(before.keys().eq(now.keys()), || format!("state {seq} has other files than before"))?;
    for ((path, due), found) in before.iter().zip(now.values()) {
        hold(found.content == due.content, || format!("{path} at {seq} has other bytes than before"))?;
        hold(found.runs == due.runs, || {
            format!("{path} at {seq} was written by {:?}, and is now by {:?}", due.runs, found.runs)
        })?;
    }
    Ok(())
}

/// Returns the files of a state, and the number of runs whose commit is no longer in the log.
async fn written(fs: &dyn FileSystem) -> Proven<(State, u64)> {
    let walk = fs.walk(&at("/")?, &WalkPage::default().limit(MAX_PAGE)).await?;
    hold(!walk.more, || "the tree has more entries than a page".to_owned())?;
    let (mut state, mut folded) = (State::new(), 0);
    for item in walk.items.into_iter().filter(|item| item.kind == Kind::File) {
        let path = item.path.to_string();
        let place = At::Path(item.path);
        let content = fs.read(&place, ByteRange::ALL).await?;
        let blame = fs.blame(&place, ByteRange::ALL, MAX_PAGE).await?;
        hold(blame.next.is_none(), || format!("{path} has more runs than a page"))?;
        let mut runs: Vec<(u64, Option<Author>)> = Vec::new();
        for run in &blame.runs {
            let commit = blame.commits.iter().find(|commit| Some(commit.seq) == run.commit);
            hold(commit.is_some() == run.commit.is_some(), || format!("{path}: {run:?} has no commit"))?;
            folded += u64::from(commit.is_some_and(|commit| commit.folded));
            let author = commit.map(|commit| commit.author.clone());
            match runs.last_mut() {
                // Several commits of one author.
                Some((length, last)) if *last == author => *length += run.range.length,
                _ => runs.push((run.range.length, author)),
            }
        }
        state.insert(path, Written { content, runs });
    }
    Ok((state, folded))
}

/// Returns one of 36 authors, which differ in class and audience as well.
fn author(random: &mut Random) -> Author {
    let author = match random.below(4) {
        0 => Author::key("k1"),
        1 => Author::agent("scout").with_user("ann"),
        2 => Author::agent("clerk").with_user("bob").with_session("s1"),
        _ => Author::default(),
    };
    let author = match random.below(3) {
        0 => author.with_class("main"),
        1 => author.with_class("group"),
        _ => author,
    };
    match random.below(3) {
        0 => author.with_audience("team"),
        1 => author.with_audience("family"),
        _ => author,
    }
}

fn file(random: &mut Random) -> Proven<At> {
    let dir = random.pick(&["d0", "d0", "d1", "d1", "c"]);
    at(&format!("/{dir}/f{}", random.below(7)))
}

/// Returns text of 16 bytes to 80 KB, which is longer than a chunk of content.
fn text(random: &mut Random) -> String {
    let times = match random.below(20) {
        0 => 5_000,
        1..=5 => random.below(400) as usize,
        _ => 1 + random.below(4) as usize,
    };
    format!("{:016x}", random.next()).repeat(times)
}

/// Returns a random change. Copies of the past are of a state from `oldest` to `head`.
fn op(random: &mut Random, oldest: u64, head: u64) -> Proven<Op> {
    let (from, to) = (file(random)?, file(random)?);
    Ok(match random.below(25) {
        0..=5 => Op::append(to, text(random)).with_parents(),
        6..=8 => Op::patch(to, random.below(OFFSETS), text(random)),
        9..=11 => Op::write(to, text(random)).with_parents(),
        12 | 13 => Op::truncate(to, random.below(OFFSETS)),
        14 => Op::punch(to, random.below(OFFSETS), random.below(LENGTHS)),
        15 => {
            let (offset, length) = (random.below(OFFSETS), random.below(LENGTHS));
            Op::copy_range(from, offset, length, to, random.below(OFFSETS))
        }
        16 | 17 => Op::copy(from, to).replace(),
        18 | 19 => {
            let seq = oldest + random.below(head - oldest + 1);
            Op::copy(from, to).replace().as_of(Seq(seq))
        }
        20 => Op::rename(from, to),
        21 => Op::link(from, to),
        22 => Op::remove_file(to),
        23 => Op::exchange(at("/d0")?, at("/d1")?),
        _ if random.one_in(2) => Op::remove_tree(at("/c")?),
        _ => Op::copy_tree(at("/d0")?, at("/c")?),
    })
}
