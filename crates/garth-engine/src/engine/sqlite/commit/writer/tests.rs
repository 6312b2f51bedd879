//! The writer, with a queue that the test controls: it is marked busy, so no thread takes from it, and each
//! test decides which commits wait together.

use bytes::Bytes;
use futures::FutureExt as _;
use tempfile::TempDir;

use super::*;
use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::commit::group::MAX_GROUP_COMMITS;
use crate::env::Env;
use crate::fs::FileSystem as _;
use crate::model::{At, Body, FindQuery, Op, Precondition, SearchQuery, SetAttrs};
use crate::path::TreePath;
use crate::rule::sample::{FIRST_WORD, WORDS};

const MIB: usize = 1 << 20;

struct ControlledWriter {
    fs: Arc<SqliteFs>,
    folder: TempDir,
}

impl ControlledWriter {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        // As if a thread were running the writer: none is submitted, and the test takes the groups.
        lock(&fs.inner.writer.queue).busy = true;
        Self { fs, folder }
    }

    fn writer(&self) -> &Arc<Writer> {
        &self.fs.inner.writer
    }

    fn commit(&self, batch: Batch) -> oneshot::Receiver<Result<Commit>> {
        self.commit_by(&self.fs, batch)
    }

    /// Commits a batch through another handle.
    fn commit_by(&self, handle: &SqliteFs, batch: Batch) -> oneshot::Receiver<Result<Commit>> {
        let (answer, wait) = oneshot::channel();
        let asked = BatchRequest { batch, reach: Arc::clone(&handle.reach) };
        self.writer().enqueue(Job::Commit(Box::new(asked), answer)).unwrap();
        wait
    }

    fn task(
        &self,
        task: impl FnOnce(&Connection) -> DbResult<()> + Send + 'static,
    ) -> oneshot::Receiver<Result<()>> {
        let (answer, wait) = oneshot::channel();
        self.writer().enqueue(Job::Task { durable: false, task: Box::new(task), answer }).unwrap();
        wait
    }

    fn run_next(&self) {
        let group = self.writer().next_group().expect("something waits");
        self.writer().run_group(group);
    }

    #[cfg(debug_assertions)]
    fn run_next_if_any(&self) {
        if let Some(group) = self.writer().next_group() {
            self.writer().run_group(group);
        }
        lock(&self.writer().queue).busy = true;
    }

    /// Runs a task on the writer's connection.
    fn run_now(&self, task: impl FnOnce(&Connection) -> DbResult<()> + Send + 'static) {
        let mut answer = self.task(task);
        self.run_next();
        told(&mut answer).unwrap();
    }

    /// Returns the sizes of the groups that the queue is divided into; 0 is a task.
    fn groups(&self) -> Vec<usize> {
        let groups = std::iter::from_fn(|| self.writer().next_group());
        let size = |group| match group {
            Group::Commits(commits) => commits.len(),
            Group::Task { .. } | Group::Chore => 0,
        };
        groups.map(size).collect()
    }

    /// Counts the transactions in the WAL, which no checkpoint has copied. The last frame of each holds the
    /// size of the database.
    fn transactions(&self) -> usize {
        let wal = std::fs::read(self.folder.path().join("tree.db-wal")).unwrap();
        let number = |at: usize| u32::from_be_bytes(wal[at..at + 4].try_into().unwrap());
        // A frame is a header of 24 bytes and a page, whose size is in the header of the WAL.
        let frame = 24 + number(8) as usize;
        (32..wal.len()).step_by(frame).filter(|at| number(at + 4) > 0).count()
    }

    fn content(&self, at: &str) -> Result<Bytes> {
        futures::executor::block_on(self.fs.read(&address(at), crate::model::ByteRange::ALL))
    }
}

fn address(at: &str) -> At {
    At::Path(TreePath::parse(at).unwrap())
}

fn write(at: &str, body: impl Into<Body>) -> Batch {
    Batch::new([Op::write(address(at), body)])
}

/// Returns the result, which has been sent.
fn told<T>(answer: &mut oneshot::Receiver<Result<T>>) -> Result<T> {
    answer.try_recv().unwrap().expect("an answer was given")
}

fn kind<T: fmt::Debug>(answer: &mut oneshot::Receiver<Result<T>>) -> ErrorKind {
    told(answer).unwrap_err().kind()
}

/// Records its number when it is woken.
struct WakeRecorder(usize, Arc<std::sync::Mutex<Vec<usize>>>);

impl std::task::Wake for WakeRecorder {
    fn wake(self: Arc<Self>) {
        lock(&self.1).push(self.0);
    }
}

#[test]
fn losers_get_their_results_first() {
    let held = ControlledWriter::new();
    let new = |at: &str| Batch::new([Op::write(address(at), "x").create_new()]);
    let mut waits = ["/a", "/a", "/b", "/a"].map(|at| held.commit(new(at)));
    let woken = Arc::default();
    for (number, wait) in waits.iter_mut().enumerate() {
        let waker = Arc::new(WakeRecorder(number, Arc::clone(&woken))).into();
        let mut context = std::task::Context::from_waker(&waker);
        assert!(std::future::Future::poll(std::pin::Pin::new(wait), &mut context).is_pending());
    }
    held.run_next();
    // Commits 0 and 2 win; 1 and 3 find the file that 0 has created.
    assert_eq!(*lock(&woken), [1, 3, 0, 2]);
}

#[test]
fn waiting_commits_share_a_transaction_in_order() {
    let held = ControlledWriter::new();
    held.run_now(head::touch);
    let before = held.transactions();
    let mut answers: Vec<_> = (0..10).map(|n| held.commit(write("/a", n.to_string()))).collect();
    held.run_next();
    assert_eq!(held.transactions(), before + 1);
    for (n, answer) in answers.iter_mut().enumerate() {
        assert_eq!(told(answer).unwrap().seq, Seq(n as u64 + 1));
    }
    assert_eq!(held.content("/a").unwrap(), "9");
    assert!(held.writer().next_group().is_none(), "nothing waits");
    assert!(!lock(&held.writer().queue).busy, "the next commit asks for a thread again");
}

#[test]
fn new_files_of_a_group_have_the_keys_of_its_end() {
    let held = ControlledWriter::new();
    let new = |at: &str| {
        let attrs = SetAttrs::new().tags(["new"]);
        Batch::new([Op::write(address(at), "first second\n").with_parents().with_attrs(attrs)])
    };
    let batches = [
        new("/a/arrives"),
        new("/a/removed"),
        new("/kv/leaves"),
        new("/words/stays"),
        Batch::new([Op::rename(address("/a"), address("/words/a"))]),
        Batch::new([Op::remove(address("/words/a/removed"))]),
        Batch::new([Op::rename(address("/kv/leaves"), address("/left"))]),
        write("/words/stays", "third\n"),
    ];
    let mut answers = batches.map(|batch| held.commit(batch));
    held.run_next();
    for answer in &mut answers {
        told(answer).unwrap();
    }
    let found = |query: FindQuery| {
        let items = futures::executor::block_on(held.fs.find(&query)).unwrap().items;
        let mut paths: Vec<String> = items.iter().map(|item| item.path.to_string()).collect();
        paths.sort_unstable();
        paths
    };
    assert_eq!(found(FindQuery::tag("new")), ["/left", "/words/a/arrives", "/words/stays"]);
    assert_eq!(found(FindQuery::new(WORDS).equal("second")), ["/words/a/arrives"]);
    assert_eq!(found(FindQuery::new(WORDS).equal("third")), ["/words/stays"]);
    assert_eq!(found(FindQuery::new(FIRST_WORD).equal("first")), [""; 0]);
    assert_eq!(held.fs.check().unwrap().findings, []);
}

#[test]
fn index_follows_files_that_are_hidden_and_shown() {
    let held = ControlledWriter::new();
    let run = |batches: Vec<Batch>| {
        let mut answers: Vec<_> = batches.into_iter().map(|batch| held.commit(batch)).collect();
        held.run_next();
        for answer in &mut answers {
            told(answer).unwrap();
        }
        assert_eq!(held.fs.check().unwrap().findings, []);
        ["alpha", "beta", "gamma"].map(|word| {
            let found = futures::executor::block_on(held.fs.search(&SearchQuery::new(word))).unwrap();
            found.hits.iter().map(|hit| hit.path.to_string()).collect::<Vec<_>>()
        })
    };
    let put = |at: &str, text: &str, searchable: bool| {
        let attrs = SetAttrs::new().searchable(searchable);
        Batch::new([Op::write(address(at), text.to_owned()).with_attrs(attrs)])
    };
    let set = |at: &str, searchable: bool| {
        Batch::new([Op::set_attrs(address(at), SetAttrs::new().searchable(searchable))])
    };
    let none = || Vec::<String>::new();
    let one = |path: &str| vec![path.to_owned()];
    let found = run(vec![put("/a", "alpha", false), put("/b", "alpha", true)]);
    assert_eq!(found, [one("/b"), none(), none()]);
    let found = run(vec![write("/a", "beta"), write("/b", "beta"), set("/b", false)]);
    assert_eq!(found, [none(), none(), none()]);
    let found = run(vec![write("/a", "gamma"), write("/b", "gamma"), set("/a", true)]);
    assert_eq!(found, [none(), none(), one("/a")]);
    let found = run(vec![set("/a", false), write("/a", "beta"), set("/a", true), set("/b", true)]);
    assert_eq!(found, [none(), one("/a"), one("/b")]);
}

#[test]
fn task_has_its_own_transaction() {
    let held = ControlledWriter::new();
    let _commits: Vec<_> = ["/a", "/b"].map(|at| held.commit(write(at, "x"))).into();
    let _task = held.task(|_| Ok(()));
    let _last = held.commit(write("/c", "x"));
    assert_eq!(held.groups(), [2, 0, 1]);
}

#[test]
fn group_size_is_bounded() {
    let held = ControlledWriter::new();
    let _many: Vec<_> = (0..=MAX_GROUP_COMMITS).map(|_| held.commit(write("/a", "x"))).collect();
    assert_eq!(held.groups(), [MAX_GROUP_COMMITS, 1]);

    lock(&held.writer().queue).busy = true;
    // The limit is 16 MiB. From the third on, each would exceed it together with those before.
    let _heavy: Vec<_> = [6, 6, 6, 16, 1].map(|size| held.commit(write("/a", vec![0; size * MIB]))).into();
    assert_eq!(held.groups(), [2, 1, 1, 1]);
}

#[test]
fn batch_that_hashes_content_runs_alone() {
    let held = ControlledWriter::new();
    // A batch hashes content for a condition or a check, negated or not.
    let hash = || Precondition::Sha256([0; 32]);
    let batches = [
        write("/a", "x"),
        write("/a", "x").require(address("/a"), hash().negated()),
        write("/a", "x").require(address("/a"), Precondition::Exists),
        Batch::new([Op::check(address("/a"), hash())]),
        Batch::new([Op::check(address("/a"), hash())]),
        write("/a", "x"),
    ];
    let _waiting = batches.map(|batch| held.commit(batch));
    assert_eq!(held.groups(), [1, 1, 1, 1, 1, 1]);
}

#[test]
fn refused_batch_does_not_affect_its_group() {
    let held = ControlledWriter::new();
    let mut first = held.commit(write("/a", "x"));
    let mut refused = held.commit(Batch::new([Op::write(address("/b"), "x"), Op::remove(address("/none"))]));
    let mut last = held.commit(write("/c", "x"));
    held.run_next();
    assert_eq!(told(&mut first).unwrap().seq, Seq(1));
    assert_eq!(kind(&mut refused), ErrorKind::NotFound);
    assert_eq!(told(&mut last).unwrap().seq, Seq(2), "what is refused takes no sequence number");
    assert!(held.content("/b").unwrap_err().is(ErrorKind::NotFound));
}

#[test]
fn damage_fails_only_the_commit_that_meets_it() {
    let held = ControlledWriter::new();
    let mut made = held.commit(write("/damaged", "text"));
    held.run_next();
    told(&mut made).unwrap();
    held.run_now(|conn| {
        conn.execute("UPDATE chunk SET data = x'00'", [])?;
        Ok(())
    });
    let mut first = held.commit(write("/a", "x"));
    let mut damaged = held.commit(Batch::new([Op::append(address("/damaged"), "more")]));
    let mut last = held.commit(write("/c", "x"));
    held.run_next();
    assert_eq!((told(&mut first).unwrap().seq, told(&mut last).unwrap().seq), (Seq(2), Seq(3)));
    assert_eq!(kind(&mut damaged), ErrorKind::Corrupt);
    let mut next = held.commit(write("/d", "x"));
    held.run_next();
    assert_eq!(told(&mut next).unwrap().seq, Seq(4), "the account stays open for writing");
}

#[test]
fn commit_without_space_fails_alone() {
    let held = ControlledWriter::new();
    held.run_now(|conn| {
        let pages: u64 = conn.query_row("PRAGMA page_count", [], |row| row.get(0))?;
        // Room for the small commit, but not for a MiB.
        conn.query_row(&format!("PRAGMA max_page_count = {}", pages + 20), [], |_| Ok(()))?;
        Ok(())
    });
    let mut large = held.commit(write("/large", vec![7; MIB]));
    let mut small = held.commit(write("/small", "x"));
    held.run_next();
    assert_eq!(kind(&mut large), ErrorKind::NoSpace);
    assert_eq!(told(&mut small).unwrap().seq, Seq(1));
}

#[test]
fn rolled_back_failure_keeps_account_writable() {
    let held = ControlledWriter::new();
    for kind in [ErrorKind::Io, ErrorKind::NoSpace, ErrorKind::Unavailable, ErrorKind::Corrupt] {
        let mut failed = held.task(move |conn| {
            conn.execute("UPDATE head SET time = 0, seq = 77", [])?;
            Err(Error::new(kind, "as the test asks").into())
        });
        held.run_next();
        assert_eq!(self::kind(&mut failed), kind);
    }
    let mut next = held.commit(write("/a", "x"));
    held.run_next();
    assert_eq!(told(&mut next).unwrap().seq, Seq(1));
}

#[test]
fn failed_sync_stops_writes_until_reopened() {
    let held = ControlledWriter::new();
    // The error that SQLite returns when an fsync fails.
    let fsync = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
    let mut failed = held.task(move |_| Err(rusqlite::Error::SqliteFailure(fsync, None).into()));
    let mut waiting = held.commit(write("/a", "x"));
    held.run_next();
    assert_eq!(kind(&mut failed), ErrorKind::Io);
    held.run_next();
    assert_eq!(kind(&mut waiting), ErrorKind::Poisoned, "what waited behind it is not tried");
    let later = futures::executor::block_on(held.fs.commit(write("/a", "x")));
    assert!(later.unwrap_err().is(ErrorKind::Poisoned));
    let again = SqliteFs::open(held.folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
    assert_eq!(futures::executor::block_on(again.commit(write("/a", "x"))).unwrap().seq, Seq(1));
}

#[cfg(debug_assertions)]
#[test]
fn commits_are_acknowledged_after_their_group_commits() {
    use crate::runtime::failpoint::Failure;
    let held = ControlledWriter::new();
    for (failure, next) in [(Failure::Io, None), (Failure::Sync, Some(ErrorKind::Poisoned))] {
        held.fs.runtime().failpoints().arm("before-commit", failure, 0);
        let mut answers = ["/a", "/b"].map(|at| held.commit(write(at, "x")));
        held.run_next();
        for answer in &mut answers {
            assert_eq!(kind(answer), ErrorKind::Io);
        }
        assert!(held.content("/a").unwrap_err().is(ErrorKind::NotFound));
        let asked = BatchRequest { batch: write("/c", "x"), reach: Arc::clone(&held.fs.reach) };
        let touched = held.writer().enqueue(Job::Commit(Box::new(asked), oneshot::channel().0));
        assert_eq!(touched.err().map(|error| error.kind()), next, "{failure:?}");
        held.run_next_if_any();
    }
}

#[cfg(debug_assertions)]
#[test]
fn rolled_back_group_leaves_no_judgement() {
    use crate::model::{Confinement, Gate, Owner, Within};
    use crate::path::Name;
    use crate::rule::sample::STATUS;
    use crate::runtime::failpoint::Failure;
    let held = ControlledWriter::new();
    let gate = Gate {
        dir: TreePath::parse("/nodes").unwrap(),
        file: Name::parse(".status").unwrap(),
        projection: STATUS,
        keys: vec!["ACTIVE".to_owned()],
        since: Seq(0),
    };
    let to = Confinement::new(Within::everything(), Owner::new("view").unwrap()).gated(vec![gate]);
    let reach = Arc::new(held.fs.reach.confined(&to).unwrap());
    let view = SqliteFs { reach, ..SqliteFs::clone(&held.fs) };
    let entry =
        |status: &str| Batch::new([Op::write(address("/nodes/a/.status"), status.to_owned()).with_parents()]);
    let log = || view.reach.confine(write("/nodes/a/log", "x")).unwrap();
    // The entry is judged in the group that creates it.
    held.fs.runtime().failpoints().arm("before-commit", Failure::Io, 0);
    let mut answers = [held.commit(entry("ACTIVE")), held.commit_by(&view, log())];
    held.run_next();
    for answer in &mut answers {
        assert_eq!(kind(answer), ErrorKind::Io);
    }
    // Its inode and commit get other content.
    let mut made = held.commit(entry("PRIVATE"));
    held.run_next();
    told(&mut made).unwrap();
    let mut refused = held.commit_by(&view, log());
    held.run_next();
    assert_eq!(kind(&mut refused), ErrorKind::AccessDenied);
    assert!(futures::executor::block_on(view.stat(&address("/nodes/a"))).is_err());
}

#[cfg(debug_assertions)]
#[test]
fn panic_in_a_group_affects_only_its_callers() {
    use crate::runtime::failpoint::Failure;
    let held = ControlledWriter::new();
    held.fs.runtime().failpoints().arm("apply", Failure::Panic, 0);
    let mut answer = held.commit(write("/a", "x"));
    assert!(Arc::clone(held.writer()).run().is_some());
    assert!(answer.try_recv().is_err(), "canceled");
    let mut next = held.commit(write("/b", "x"));
    held.run_next();
    assert_eq!(told(&mut next).unwrap().seq, Seq(1), "what the group had written is rolled back");
    assert!(held.content("/a").unwrap_err().is(ErrorKind::NotFound));
}

#[cfg(debug_assertions)]
#[test]
fn failed_checkpoint_stops_writes_until_wal_is_copied() {
    use crate::runtime::failpoint::{CHECKPOINT, Failure};
    let held = ControlledWriter::new();
    held.run_now(head::touch);
    held.fs.runtime().failpoints().arm(CHECKPOINT, Failure::Sync, 0);
    // Longer than the threshold of a RESTART, which therefore follows the commit.
    let content: Vec<u8> = (0..18 * MIB).map(|n| (n ^ (n / MIB)) as u8).collect();
    let mut long = held.commit(write("/long", content));
    held.run_next();
    assert_eq!(told(&mut long).unwrap().seq, Seq(1), "it was committed before");
    let later = futures::executor::block_on(held.fs.commit(write("/later", "x")));
    assert!(later.unwrap_err().is(ErrorKind::Poisoned));
    let last = crate::model::ByteRange { offset: 17 * MIB as u64, length: u64::MAX };
    let last = futures::executor::block_on(held.fs.read(&address("/long"), last)).unwrap();
    assert_eq!(last.len(), MIB, "what is there can be read");
    let ControlledWriter { fs, folder } = held;
    drop(fs);
    assert!(folder.path().join("tree.db-wal").exists(), "closing it copies nothing");

    let again = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
    let pages = || {
        again
            .inner
            .pool
            .with(|conn| Ok(conn.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get::<_, i64>(1))?))
    };
    let left = pages().unwrap();
    assert!(left > 8192, "{left}");
    assert_eq!(futures::executor::block_on(again.commit(write("/later", "x"))).unwrap().seq, Seq(2));
    // The first commit of the new instance copied the WAL before it, so the WAL starts over.
    assert!(pages().unwrap() < 100, "the commit is the first in a log that began anew");
}

#[test]
fn callers_that_settle_share_a_sync() {
    let controlled = ControlledWriter::new();
    let writer = controlled.writer();
    let mut visible = controlled.commit(write("/a", "1").visible());
    controlled.run_next();
    assert_eq!(told(&mut visible).unwrap().seq, Seq(1));
    assert_eq!(writer.known_durable().unwrap(), Seq(0));
    let mut callers: Vec<_> = (0..10).map(|_| Box::pin(writer.settle(Seq(1)))).collect();
    for caller in &mut callers {
        assert!(caller.as_mut().now_or_never().is_none());
    }
    assert_eq!(lock(&writer.queue).jobs.len(), 1, "one of them syncs");
    controlled.run_next();
    for caller in &mut callers {
        caller.as_mut().now_or_never().unwrap().unwrap();
    }
    assert!(lock(&writer.queue).jobs.is_empty());
    assert_eq!(writer.known_durable().unwrap(), Seq(1));
}

#[test]
fn durable_commit_covers_earlier_ones_without_a_sync() {
    let controlled = ControlledWriter::new();
    for (number, batch) in [(1, write("/a", "1").visible()), (2, write("/a", "2"))] {
        let mut commit = controlled.commit(batch);
        controlled.run_next();
        assert_eq!(told(&mut commit).unwrap().seq, Seq(number));
    }
    let writer = controlled.writer();
    assert_eq!(writer.known_durable().unwrap(), Seq(2));
    writer.settle(Seq(2)).now_or_never().unwrap().unwrap();
    assert!(lock(&writer.queue).jobs.is_empty());
}
