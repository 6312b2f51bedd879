//! Quotas: counting, limits, and agreement of both engines, a scan and the counters.

use std::sync::Arc;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::env::ManualClock;
use garth_engine::model::quota::{Limits, MAX_COUNTED, MAX_QUOTAS, Quota};
use garth_engine::model::{At, Batch, Commit, Op, SetAttrs, Special, Timestamp};
use garth_engine::view::Scope;
use garth_engine::{AccountStore, Env, Error, ErrorKind, FileSystem, TreePath};

use super::stores::{self, Kept};

fn p(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

fn at(path: &str) -> At {
    p(path).into()
}

const START: Timestamp = Timestamp(1_767_225_600_000_000_000);

/// Both engines side by side: every call goes to both, and both must return the same.
struct Both {
    memory: MemoryFs,
    stored: Arc<dyn AccountStore>,
    clocks: [ManualClock; 2],
    _kept: Kept,
}

impl Both {
    fn new() -> Self {
        let [(one, clock), (other, beside)] = [Env::manual(START), Env::manual(START)];
        let (stored, kept) = stores::account(other, &beside);
        Self {
            memory: MemoryFs::new(one, garth_engine::rule::sample::registry()),
            stored,
            clocks: [clock, beside],
            _kept: kept,
        }
    }

    async fn set(&self, path: &str, limits: Limits) -> Quota {
        let set = self.stored.set_quota(&p(path), limits).await.unwrap();
        assert_eq!(self.memory.set_quota(&p(path), limits).unwrap(), set);
        set
    }

    async fn try_run(&self, ops: Vec<Op>) -> Result<Commit, Error> {
        let asked = format!("{ops:?}");
        // A rejected batch must not change the counters.
        let before = self.stored.quotas().await.unwrap();
        let memory = self.memory.commit(Batch::new(ops.clone())).await;
        let stored = self.stored.commit(Batch::new(ops)).await;
        match (&memory, &stored) {
            (Ok(memory), Ok(stored)) => {
                assert_eq!((memory.seq, &memory.outcomes), (stored.seq, &stored.outcomes), "{asked}");
            }
            (Err(memory), Err(stored)) => {
                assert_eq!(
                    (memory.kind(), memory.path()),
                    (stored.kind(), stored.path()),
                    "{asked}: {stored}"
                );
                if memory.is(ErrorKind::QuotaExceeded) {
                    assert_eq!(memory.message(), stored.message(), "{asked}");
                }
                assert_eq!(self.stored.quotas().await.unwrap(), before, "{asked}");
            }
            _ => panic!("{asked}\nmemory: {memory:?}\nstored: {stored:?}"),
        }
        assert_eq!(self.stored.quotas().await.unwrap(), self.memory.quotas().unwrap(), "{asked}");
        stored
    }

    async fn run(&self, ops: impl IntoIterator<Item = Op>) -> Commit {
        self.try_run(ops.into_iter().collect()).await.unwrap()
    }

    /// Returns the error of operations that exceed a quota, after checking that they changed nothing.
    async fn refusal(&self, ops: impl IntoIterator<Item = Op>) -> Error {
        let before = self.stored.head().await.unwrap();
        let error = self.try_run(ops.into_iter().collect()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{error}");
        assert_eq!(self.stored.head().await.unwrap(), before);
        error
    }

    /// Returns the bytes and entries below a path that has a quota.
    async fn used(&self, path: &str) -> (u64, u64) {
        let quotas = self.stored.quotas().await.unwrap();
        let used = quotas.iter().find(|quota| quota.path == p(path)).unwrap().used;
        (used.bytes, used.entries)
    }

    async fn sound(&self) {
        assert_eq!(self.stored.fsck().await.unwrap().findings, []);
    }

    fn later(&self, seconds: i64) {
        self.clocks.iter().for_each(|clock| clock.set(START.plus_seconds(seconds)));
    }
}

fn bytes(bytes: u64) -> Limits {
    Limits::default().bytes(bytes)
}

fn entries(entries: u64) -> Limits {
    Limits::default().entries(entries)
}

/// Returns limits that count but reject nothing.
fn counts() -> Limits {
    bytes(MAX_COUNTED)
}

fn write(path: &str, size: usize) -> Op {
    Op::write(at(path), vec![b'x'; size]).with_parents()
}

fn expiring(path: &str, size: usize, seconds: i64) -> Op {
    write(path, size).with_attrs(SetAttrs::new().expires_at(START.plus_seconds(seconds)))
}

#[tokio::test]
async fn quota_counts_and_limits_every_growth() {
    let both = Both::new();
    both.run([write("/q/f", 90), write("/other/big", 50), write("/other/d/x", 20)]).await;
    let set = both.set("/q", bytes(100).entries(3)).await;
    assert_eq!((set.used.bytes, set.used.entries), (90, 1), "it holds from the commit that sets it");
    let grows: Vec<Vec<Op>> = vec![
        vec![write("/q/g", 11)],
        vec![write("/q/f", 101)],
        vec![Op::append(at("/q/f"), vec![b'x'; 11])],
        vec![Op::patch(at("/q/f"), 95, vec![b'x'; 6])],
        vec![Op::truncate(at("/q/f"), 101)],
        vec![Op::copy_range(at("/other/big"), 0, 11, at("/q/f"), 90)],
        vec![Op::copy(at("/other/big"), at("/q/g"))],
        vec![Op::copy_tree(at("/other"), at("/q/g"))],
        vec![Op::link(at("/other/big"), at("/q/g"))],
        vec![Op::rename(at("/other/big"), at("/q/g"))],
        vec![Op::rename(at("/other/d"), at("/q/d"))],
        vec![Op::rename(at("/other"), at("/q/d"))],
        vec![write("/q/a/b/c", 1)],
        ["a", "b", "c"].map(|name| Op::mkdir(at(&format!("/q/{name}")))).into(),
        ["a", "b", "c"].map(|name| Op::symlink(at(&format!("/q/{name}")), "there")).into(),
        ["a", "b", "c"].map(|name| Op::mknod(at(&format!("/q/{name}")), Special::Fifo)).into(),
        ["a", "b", "c"].map(|name| Op::link(at("/q/f"), at(&format!("/q/{name}")))).into(),
    ];
    for ops in grows {
        let error = both.refusal(ops).await;
        assert_eq!(error.path(), Some(&p("/q")));
    }
    let error = both.refusal([write("/q/g", 11)]).await;
    for number in ["100 bytes", "11 more", "90 are used"] {
        assert!(error.to_string().contains(number), "{error}");
    }
    both.run([write("/q/g", 10), Op::symlink(at("/q/s"), "a target counts as a name only")]).await;
    assert_eq!(both.used("/q").await, (100, 3));
    // Over the limit in between, within it at the end.
    both.run([write("/q/more", 70), Op::remove(at("/q/f")), Op::truncate(at("/q/more"), 90)]).await;
    assert_eq!(both.used("/q").await, (100, 3));
    both.run([Op::punch(at("/q/more"), 0, 50)]).await;
    assert_eq!(both.used("/q").await.0, 100, "a hole has a size");
    both.sound().await;
}

#[tokio::test]
async fn node_counts_once_per_quota() {
    let both = Both::new();
    for path in ["/", "/a", "/a/in", "/b"] {
        both.set(path, counts()).await;
    }
    both.run([write("/a/f", 10), Op::link(at("/a/f"), at("/a/g")), Op::mkdir(at("/b"))]).await;
    assert_eq!((both.used("/").await, both.used("/a").await), ((10, 4), (10, 2)));
    both.run([Op::mkdir(at("/a/in")), Op::link(at("/a/f"), at("/a/in/h")), Op::link(at("/a/f"), at("/b/h"))])
        .await;
    assert_eq!([both.used("/").await, both.used("/a").await], [(10, 7), (10, 4)]);
    assert_eq!([both.used("/a/in").await, both.used("/b").await], [(10, 1), (10, 1)]);
    both.run([Op::append(at("/b/h"), "12345")]).await;
    for path in ["/", "/a", "/a/in", "/b"] {
        assert_eq!(both.used(path).await.0, 15, "{path}");
    }
    // Written under a name that is removed, kept under one elsewhere.
    both.run([Op::append(at("/b/h"), "1"), Op::remove(at("/b/h"))]).await;
    assert_eq!(
        [both.used("/a").await, both.used("/a/in").await, both.used("/b").await],
        [(16, 4), (16, 1), (0, 0)]
    );
    // Written, and its other name removed with the directory around it.
    both.run([Op::link(at("/a/f"), at("/t/f")).with_parents()]).await;
    both.run([Op::truncate(at("/t/f"), 7), Op::remove_tree(at("/t"))]).await;
    assert_eq!([both.used("/").await, both.used("/a").await], [(7, 6), (7, 4)]);
    both.run([Op::truncate(at("/a/f"), 16)]).await;
    both.run([Op::remove(at("/a/f")), Op::remove(at("/a/g"))]).await;
    assert_eq!(both.used("/a").await, (16, 2));
    both.run([Op::remove_tree(at("/a/in"))]).await;
    assert_eq!(
        [both.used("/a").await, both.used("/a/in").await, both.used("/").await],
        [(0, 0), (0, 0), (0, 2)]
    );
    both.sound().await;
}

#[tokio::test]
async fn moved_trees_carry_their_usage() {
    let both = Both::new();
    for path in ["/", "/a", "/a/t/in", "/b", "/b/t/in"] {
        both.set(path, counts()).await;
    }
    let names = (0..9).map(|n| write(&format!("/a/t/in/{n}"), 10));
    both.run(names.chain([
        write("/a/t/one", 5),
        Op::mkdir(at("/b")),
        Op::link(at("/a/t/one"), at("/a/two")),
    ]))
    .await;
    let total = both.used("/").await;
    both.run([Op::rename(at("/a/t"), at("/b/t"))]).await;
    assert_eq!([both.used("/a").await, both.used("/b").await], [(5, 1), (95, 12)]);
    assert_eq!([both.used("/a/t/in").await, both.used("/b/t/in").await], [(0, 0), (90, 9)]);
    assert_eq!(both.used("/").await, total);
    // Moved within, changed in between, and back again.
    both.run([
        Op::rename(at("/b/t"), at("/b/u")),
        write("/b/u/in/0", 11),
        Op::remove(at("/b/u/in/1")),
        Op::rename(at("/b/u/in/2"), at("/a/2")),
        Op::rename(at("/b/u"), at("/a/t")),
        Op::append(at("/a/t/in/3"), "123"),
    ])
    .await;
    assert_eq!([both.used("/a").await, both.used("/b").await], [(89, 12), (0, 0)]);
    assert_eq!(both.used("/a/t/in").await, (74, 7));
    // Nodes of a moved tree are written in the same batch.
    both.run([
        Op::rename(at("/a/t"), at("/t")),
        Op::append(at("/t/in/4"), "1"),
        Op::rename(at("/t"), at("/b/t")),
        Op::truncate(at("/b/t/in/4"), 5),
    ])
    .await;
    assert_eq!(both.used("/b/t/in").await, (69, 7));
    both.run([Op::rename(at("/b/t"), at("/a/t"))]).await;
    both.run([Op::rename(at("/a/t"), at("/b/t")), Op::truncate(at("/b/t/in/5"), 0)]).await;
    assert_eq!(both.used("/b/t/in").await, (59, 7));
    both.run([Op::rename(at("/b/t"), at("/a/t"))]).await;
    // The old tree removed, and another created in its place, in one batch.
    both.run([Op::remove_tree(at("/a/t")), write("/a/t/in/x", 3), Op::copy_tree(at("/a/t"), at("/b/t"))])
        .await;
    assert_eq!([both.used("/a/t/in").await, both.used("/b/t/in").await], [(3, 1), (3, 1)]);
    both.run([write("/x/y/z", 100), Op::exchange(at("/x"), at("/a"))]).await;
    assert_eq!([both.used("/a").await, both.used("/a/t/in").await], [(100, 2), (0, 0)]);
    both.run([Op::rename(at("/b"), at("/c")), Op::exchange(at("/a"), at("/x"))]).await;
    assert_eq!(
        [both.used("/a/t/in").await, both.used("/b").await, both.used("/b/t/in").await],
        [(3, 1), (0, 0), (0, 0)]
    );
    both.sound().await;
}

#[tokio::test]
async fn each_of_nested_quotas_holds() {
    let both = Both::new();
    both.set("/", entries(6)).await;
    both.set("/a", bytes(100)).await;
    both.set("/a/b", bytes(50)).await;
    both.run([write("/a/b/f", 50)]).await;
    assert_eq!(both.refusal([write("/a/b/g", 1)]).await.path(), Some(&p("/a/b")));
    both.run([write("/a/g", 50)]).await;
    assert_eq!(both.refusal([write("/a/h", 1)]).await.path(), Some(&p("/a")));
    assert_eq!(both.refusal([write("/a/b/f", 51)]).await.path(), Some(&p("/a")), "the first of two");
    both.run([write("/f", 1000), write("/g", 1000)]).await;
    let error = both.refusal([write("/h", 1)]).await;
    assert_eq!(
        error.to_string(),
        "/: the quota of 6 entries does not allow 1 more: 6 are used; remove \
        something below it, or have the quota raised"
    );
    both.sound().await;
}

#[tokio::test]
async fn quota_keeps_existing_excess_but_blocks_growth() {
    let both = Both::new();
    both.run([write("/q/f", 100), write("/q/g", 100)]).await;
    both.set("/q", bytes(50).entries(1)).await;
    both.refusal([write("/q/f", 101)]).await;
    both.refusal([write("/q/h", 0)]).await;
    both.run([write("/q/f", 100), Op::set_attrs(at("/q/g"), SetAttrs::new().mode(0o600))]).await;
    both.run([Op::rename(at("/q/g"), at("/q/h"))]).await;
    both.run([Op::truncate(at("/q/f"), 99)]).await;
    both.refusal([write("/q/f", 100)]).await;
    both.run([Op::remove(at("/q/h"))]).await;
    assert_eq!(both.used("/q").await, (99, 1));
    both.set("/q", bytes(200).entries(2)).await;
    both.run([write("/q/h", 101)]).await;
    both.stored.remove_quota(&p("/q")).await.unwrap();
    both.memory.remove_quota(&p("/q")).unwrap();
    both.run([write("/q/i", 1000)]).await;
    let gone = both.stored.remove_quota(&p("/q")).await.unwrap_err();
    assert_eq!((gone.kind(), gone.path()), (ErrorKind::NotFound, Some(&p("/q"))));
}

#[tokio::test]
async fn expired_entries_end_until_quota_fits() {
    let both = Both::new();
    both.set("/q", bytes(100).entries(6)).await;
    both.run([expiring("/q/late", 30, 30), expiring("/q/early", 30, 10), expiring("/q/d/mid", 30, 20)]).await;
    both.run([expiring("/elsewhere", 30, 5), write("/q/stays", 10)]).await;
    // One second before the first expiry.
    both.later(9);
    both.refusal([write("/q/new", 20)]).await;
    both.later(100);
    assert_eq!(both.used("/q").await, (100, 5), "it counts until its end is recorded");
    both.refusal([write("/q/new", 91)]).await;
    both.run([write("/q/new", 40)]).await;
    assert_eq!(both.used("/q").await, (80, 4), "two have gone, and no more");
    for fs in [&both.memory as &dyn FileSystem, &*both.stored] {
        let ended: Vec<String> = changes(fs).await;
        assert_eq!(ended, ["/q/early", "/q/d/mid"]);
    }
    both.run([write("/q/1", 0), write("/q/2", 0)]).await;
    both.run([write("/q/3", 0)]).await;
    assert_eq!(both.used("/q").await, (50, 6));
    both.refusal([write("/q/4", 0)]).await;
    // Created and due in the same batch.
    both.run([expiring("/q/5", 5, 50)]).await;
    assert_eq!(both.used("/q").await, (50, 6));
    both.sound().await;
}

/// Returns the names whose expiry the log records.
async fn changes(fs: &dyn FileSystem) -> Vec<String> {
    let mut ended = Vec::new();
    let query = garth_engine::model::ChangesQuery::since(garth_engine::model::Seq(0)).limit(1000);
    for commit in fs.changes(&query).await.unwrap().commits {
        let expired =
            commit.changes.iter().filter(|change| change.kind == garth_engine::model::ChangeKind::Expired);
        ended.extend(expired.flat_map(|change| change.paths.iter().map(ToString::to_string)));
    }
    ended
}

#[tokio::test]
async fn moved_expired_entries_free_target_quota() {
    let both = Both::new();
    both.set("/q", entries(3)).await;
    both.set("/", counts()).await;
    both.run([expiring("/t/a", 1, 10), expiring("/t/b", 1, 20), write("/t/c", 1), Op::mkdir(at("/q"))]).await;
    both.run([Op::link(at("/t/a"), at("/outside"))]).await;
    both.refusal([Op::rename(at("/t"), at("/q/t"))]).await;
    both.later(15);
    both.run([Op::rename(at("/t"), at("/q/t"))]).await;
    assert_eq!([both.used("/q").await, both.used("/").await], [(2, 3), (2, 4)], "also its name elsewhere");
    both.later(25);
    both.run([write("/q/new", 1)]).await;
    assert_eq!(both.used("/q").await, (2, 3));
    both.sound().await;
}

#[tokio::test]
async fn quota_handles_numbers_near_the_maximum() {
    let both = Both::new();
    let most = 1_u64 << 43;
    both.set("/", entries(MAX_COUNTED)).await;
    both.run([Op::write(at("/f"), ""), Op::truncate(at("/f"), most)]).await;
    both.run([Op::link(at("/f"), at("/g")), Op::copy(at("/f"), at("/h"))]).await;
    assert_eq!(both.used("/").await, (2 * most, 3));
    for limits in [bytes(u64::MAX), entries(MAX_COUNTED + 1), Limits::default()] {
        let refused = both.stored.set_quota(&p("/q"), limits).await.unwrap_err();
        assert!(refused.is(ErrorKind::InvalidArgument), "{refused}");
        assert!(both.memory.set_quota(&p("/q"), limits).unwrap_err().is(ErrorKind::InvalidArgument));
    }
    both.sound().await;
}

#[tokio::test]
async fn tree_has_a_bounded_number_of_quotas() {
    let both = Both::new();
    both.run([write("/0/f", 7)]).await;
    for number in 0..MAX_QUOTAS {
        both.set(&format!("/{number}"), entries(1)).await;
    }
    for refused in [
        both.stored.set_quota(&p("/more"), entries(1)).await.unwrap_err(),
        both.memory.set_quota(&p("/more"), entries(1)).unwrap_err(),
    ] {
        assert!(refused.is(ErrorKind::TooLarge), "{refused}");
    }
    both.set("/0", entries(2)).await;
    both.run([write("/0/g", 7)]).await;
    assert_eq!(both.refusal([write("/0/h", 7)]).await.path(), Some(&p("/0")));
}

#[tokio::test]
async fn quota_errors_reveal_only_visible_paths() {
    let both = Both::new();
    both.run([write("/chats/one/f", 10), write("/chats/two/secret", 77)]).await;
    both.set("/chats", bytes(100)).await;
    let scope = Scope::open(&*both.stored, &p("/chats/one")).await.unwrap();
    let error = scope.commit(Batch::new([write("/g", 14)])).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::QuotaExceeded, None));
    // Neither the limit nor the usage of a quota above the view may appear.
    assert!(!error.to_string().contains(|letter: char| letter.is_ascii_digit()), "{error}");
    assert!(!error.to_string().contains("chats"), "{error}");
    both.set("/chats/one", bytes(20)).await;
    let error = scope.commit(Batch::new([write("/g", 11)])).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::QuotaExceeded, Some(&p("/"))));
    assert!(error.to_string().contains("20 bytes"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_fill_quota_exactly() {
    let (handles, _kept) = stores::two_handles();
    handles[0].commit(Batch::new([Op::mkdir(at("/q"))])).await.unwrap();
    // A prime number, so that appends of seven bytes leave a rest for those of one byte.
    let (most, piece) = (9_973, 7);
    handles[0].set_quota(&p("/q"), bytes(most)).await.unwrap();
    let writers = (0..32).map(|writer| {
        let fs = Arc::clone(&handles[writer % 2]);
        tokio::spawn(async move {
            let path = at(&format!("/q/{writer}"));
            let mut written = 0;
            for piece in [piece, 1] {
                loop {
                    match fs.commit(Batch::new([Op::append(path.clone(), vec![b'x'; piece])])).await {
                        Ok(_) => written += piece as u64,
                        Err(error) if error.is(ErrorKind::QuotaExceeded) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            written
        })
    });
    let mut written = 0;
    for writer in writers.collect::<Vec<_>>() {
        written += writer.await.unwrap();
    }
    assert_eq!(written, most);
    let quotas = handles[1].quotas().await.unwrap();
    assert_eq!(quotas[0].used.bytes, most);
    // A limit set by one handle holds for the next commit of the other.
    handles[1].set_quota(&p("/q"), bytes(most + 1)).await.unwrap();
    handles[0].commit(Batch::new([Op::append(at("/q/0"), "x")])).await.unwrap();
    let error = handles[1].commit(Batch::new([Op::append(at("/q/0"), "x")])).await.unwrap_err();
    assert!(error.is(ErrorKind::QuotaExceeded), "{error}");
    assert_eq!(handles[1].fsck().await.unwrap().findings, []);
}
