//! Every call of the contract and each operation of a commit, with their number of steps.

use std::collections::BTreeMap;

use futures::executor::block_on;

use super::account::{Account, BEHIND_THE_HOLE, START, STARTED, at, path};
use crate::fs::FileSystem;
use crate::model::{
    At, Batch, Body, ByteRange, ChangesQuery, CommitId, Confinement, FindQuery, HistoryPage, Idempotency,
    Moment, NamesPage, Op, Owner, Page, Precondition, SearchQuery, Seq, SetAttrs, SnapshotsPage, Special,
    Timestamp, VersionId, WalkPage, Within,
};
use crate::path::Name;
use crate::sqlite::steps;

/// A thousand bytes in the middle of `/big`.
const FEW_BYTES: ByteRange = ByteRange { offset: 150_000, length: 1000 };

/// Steps by the name of the call.
#[derive(Default)]
pub(super) struct Costs(pub(super) BTreeMap<&'static str, u64>);

impl Costs {
    /// Returns the cost of every call. Reads come first, because a write changes what they return.
    pub(super) fn of(account: &Account) -> Self {
        let mut costs = Self::default();
        let fs = &*account.fs;
        let then = block_on(fs.as_of(&Moment::Seq(START))).expect("a past");
        let to = Confinement::new(Within::new([path("/d")]), Owner::new("view").expect("a label"));
        let inside = block_on(fs.confined(&to)).expect("a view");
        costs.look_ups(fs);
        costs.handles(fs);
        costs.log(fs);
        costs.past(&*then);
        costs.confined(&*inside);
        costs.operations(account);
        costs.batches(account);
        costs.uploads(account);
        costs
    }

    /// Counts the steps of one call, which is made several times with different numbers.
    fn call<T>(&mut self, name: &'static str, call: impl Fn(u32) -> crate::Result<T>) {
        let taken = steps::of_call(|n| {
            if let Err(error) = call(n) {
                panic!("{name}: {error}");
            }
        });
        assert!(self.0.insert(name, taken).is_none(), "{name} is there twice");
    }

    fn look_ups(&mut self, fs: &dyn FileSystem) {
        let ino = block_on(fs.stat(&at("/other"))).expect("an entry").ino;
        let (page, walk) =
            (Page::default().limit(10).with_entries(), WalkPage::default().limit(10).with_entries());
        let names = NamesPage::default().limit(10);
        let several =
            [(at("/d/f"), ByteRange::ALL), (At::Node(ino), ByteRange::ALL), (at("/big"), FEW_BYTES)];
        let rare = SearchQuery::new("quokka").limit(5);
        self.call("head", |_| block_on(fs.head()));
        self.call("stat", |_| block_on(fs.stat(&at("/d/f"))));
        let (gone, there) = (at("/d/none"), at("/d/f"));
        self.call("stat_first", |_| block_on(fs.view_base().stat_first([&gone, &there])).1);
        self.call("stat of a node", |_| block_on(fs.stat(&At::Node(ino))));
        self.call("stat of a child", |_| {
            let dir = block_on(fs.stat(&at("/d")))?.ino;
            block_on(fs.stat(&At::Child(dir, Name::parse("f")?)))
        });
        self.call("names", |_| block_on(fs.names(&at("/hard"), &names)));
        self.call("list", |_| block_on(fs.list(&at("/d/sub"), &page)));
        self.call("walk", |_| block_on(fs.walk(&at("/d/sub"), &walk)));
        self.call("fetch", |_| block_on(fs.fetch(&at("/other"), ByteRange::ALL)));
        self.call("fetch of a range", |_| block_on(fs.fetch(&at("/big"), FEW_BYTES)));
        self.call("fetch_many", |_| block_on(fs.fetch_many(&several)));
        self.call("blame", |_| block_on(fs.blame(&at("/d/f"), ByteRange::ALL, 10)));
        self.call("blame of a range", |_| block_on(fs.blame(&at("/big"), FEW_BYTES, 10)));
        self.call("find", |_| block_on(fs.find(&FindQuery::tag("rare").limit(5))));
        self.call("find of none", |_| block_on(fs.find(&FindQuery::metadata("k", "none"))));
        let sentence = SearchQuery::new("quokka animal forest").limit(5);
        self.call("search by meaning", |_| block_on(fs.search(&sentence)));
        self.call("search", |_| block_on(fs.search(&rare)));
        self.call("search in a subtree", |_| block_on(fs.search(&rare.clone().within(path("/d/rare")))));
    }

    fn handles(&mut self, fs: &dyn FileSystem) {
        let ino = block_on(fs.stat(&at("/other"))).expect("an entry").ino;
        let version = VersionId { seq: Seq(2), ino };
        let [other, big, holes] =
            ["/other", "/big", "/holes"].map(|name| block_on(fs.open(&at(name))).expect("a file"));
        self.call("hold", |_| block_on(fs.hold(&at("/d/f"))));
        self.call("open", |_| block_on(fs.open(&at("/other"))));
        self.call("open_version", |_| block_on(fs.open_version(version)));
        self.call("stat of a handle", |_| block_on(other.stat()));
        self.call("read_at", |_| block_on(other.read_at(0, 100)));
        self.call("next_data", |_| block_on(holes.next_data(100)));
        self.call("next_hole", |_| block_on(holes.next_hole(0)));
        self.call("next_data of many extents", |_| block_on(big.next_data(150_000)));
        self.call("next_hole of many extents", |_| block_on(big.next_hole(150_000)));
        let past = block_on(fs.open_version(VersionId { seq: Seq(2), ino: holes.ino() })).expect("a version");
        self.call("next_data of a version", |_| block_on(past.next_data(100)));
        self.call("next_hole of a version", |_| block_on(past.next_hole(BEHIND_THE_HOLE)));
    }

    /// Reads of the log, and of states that it names.
    fn log(&mut self, fs: &dyn FileSystem) {
        let ino = block_on(fs.stat(&at("/other"))).expect("an entry").ino;
        let last = block_on(fs.head()).expect("a head").seq;
        let newest = HistoryPage::default().limit(5);
        let oldest = newest.clone().before_commit(START);
        let snapshots = SnapshotsPage::default().limit(10);
        // The last change of the second commit, and that of the third.
        let early = ChangesQuery::since(Seq(2)).limit(1);
        let late = ChangesQuery::since(Seq(last.0 - 1)).limit(10);
        self.call("history", |_| block_on(fs.history(&at("/d/f"), &newest)));
        self.call("history of a node", |_| block_on(fs.history(&At::Node(ino), &newest)));
        // From a commit before the data was added.
        self.call("history from a version", |_| block_on(fs.history(&at("/d/f"), &oldest)));
        self.call("as_of", |_| block_on(fs.as_of(&Moment::Seq(START))));
        self.call("as_of a time", |_| block_on(fs.as_of(&Moment::Time(Timestamp(1)))));
        self.call("as_of a snapshot", |_| block_on(fs.as_of(&Moment::Snapshot("kept".into()))));
        self.call("snapshots", |_| block_on(fs.snapshots(&snapshots)));
        self.call("changes", |_| block_on(fs.changes(&early)));
        self.call("changes of a subtree", |_| block_on(fs.changes(&early.clone().within(path("/d")))));
        self.call("the last changes", |_| block_on(fs.changes(&late)));
        self.call("wait that need not", |_| block_on(fs.wait(START)));
        self.call("committed", |_| block_on(fs.committed(STARTED)));
        self.call("committed that is not", |_| block_on(fs.committed(CommitId(1))));
        self.call("sync", |_| block_on(fs.sync()));
    }

    fn past(&mut self, then: &dyn FileSystem) {
        let (page, walk) =
            (Page::default().limit(10).with_entries(), WalkPage::default().limit(10).with_entries());
        let names = NamesPage::default().limit(10);
        let ino = block_on(then.stat(&at("/other"))).expect("an entry").ino;
        let several = [(at("/d/f"), ByteRange::ALL), (at("/big"), FEW_BYTES)];
        let since = ChangesQuery::since(Seq(2)).limit(1);
        self.call("past stat", |_| block_on(then.stat(&at("/d/f"))));
        self.call("past stat of a node", |_| block_on(then.stat(&At::Node(ino))));
        self.call("past names", |_| block_on(then.names(&at("/hard"), &names)));
        self.call("past list", |_| block_on(then.list(&at("/d"), &page)));
        self.call("past walk", |_| block_on(then.walk(&at("/d"), &walk)));
        self.call("past fetch", |_| block_on(then.fetch(&at("/d/f"), ByteRange::ALL)));
        self.call("past fetch of a range", |_| block_on(then.fetch(&at("/big"), FEW_BYTES)));
        self.call("past fetch_many", |_| block_on(then.fetch_many(&several)));
        self.call("past open", |_| block_on(then.open(&at("/d/f"))));
        let big = block_on(then.open(&at("/big"))).expect("a file");
        self.call("past next_data", |_| block_on(big.next_data(150_000)));
        self.call("past next_hole", |_| block_on(big.next_hole(150_000)));
        self.call("past blame", |_| block_on(then.blame(&at("/d/f"), ByteRange::ALL, 10)));
        self.call("past history", |_| block_on(then.history(&at("/d/f"), &HistoryPage::default().limit(5))));
        self.call("past changes", |_| block_on(then.changes(&since)));
        self.call("past snapshots", |_| block_on(then.snapshots(&SnapshotsPage::default().limit(10))));
        self.call("past committed", |_| block_on(then.committed(STARTED)));
    }

    /// Calls through a handle to `/d`.
    fn confined(&mut self, inside: &dyn FileSystem) {
        let (page, walk) =
            (Page::default().limit(10).with_entries(), WalkPage::default().limit(10).with_entries());
        let rare = block_on(inside.stat(&at("/d/rare"))).expect("an entry");
        let (node, newest) = (At::Node(rare.ino), HistoryPage::default().limit(5));
        let then = block_on(inside.as_of(&Moment::Seq(START))).expect("a past");
        let since = ChangesQuery::since(Seq(2)).limit(1);
        self.call("confined stat", |_| block_on(inside.stat(&at("/d/f"))));
        self.call("confined stat of a node", |_| block_on(inside.stat(&node)));
        self.call("confined names", |_| block_on(inside.names(&node, &NamesPage::default().limit(10))));
        self.call("confined list", |_| block_on(inside.list(&at("/d/sub"), &page)));
        self.call("confined walk", |_| block_on(inside.walk(&at("/d/sub"), &walk)));
        self.call("confined fetch", |_| block_on(inside.fetch(&at("/d/f"), ByteRange::ALL)));
        self.call("confined history", |_| block_on(inside.history(&at("/d/f"), &newest)));
        self.call("confined history of a node", |_| block_on(inside.history(&node, &newest)));
        self.call("confined open_version", |_| block_on(inside.open_version(rare.version)));
        self.call("confined blame", |_| block_on(inside.blame(&at("/d/f"), ByteRange::ALL, 10)));
        self.call("confined changes", |_| block_on(inside.changes(&since)));
        self.call("confined snapshots", |_| block_on(inside.snapshots(&SnapshotsPage::default().limit(10))));
        self.call("confined past stat", |_| block_on(then.stat(&at("/d/f"))));
        self.call("confined past history", |_| block_on(then.history(&at("/d/f"), &newest)));
        self.call("confined search", |_| block_on(inside.search(&SearchQuery::new("quokka").limit(5))));
        self.call("confined find", |_| block_on(inside.find(&FindQuery::tag("rare").limit(5))));
        self.call("confined write", |n| {
            let op = Op::write(path(&format!("/d/inside-{n}")), "new\n");
            block_on(inside.commit(Batch::from(op).visible()))
        });
    }

    /// Each operation is on files of its own, so that one does not change the cost of another.
    fn operations(&mut self, account: &Account) {
        let mut op = |name, op: &dyn Fn(u32) -> Op| self.call(name, |n| account.batch(op(n).into()));
        op("write", &|n| Op::write(path(&format!("/d/new-{n}")), "new\n"));
        op("write over", &|n| Op::write(path("/d/f"), format!("{n}\n")));
        op("append", &|n| Op::append(path("/big"), format!("{n}\n")));
        op("patch", &|n| Op::patch(path("/big"), 150_000, format!("{n}\n")));
        op("punch", &|n| Op::punch(path("/big"), 100_000 + u64::from(n) * 1000, 500));
        op("copy a range", &|n| {
            Op::copy_range(path("/big"), 50_000, 1000, path("/moving"), u64::from(n) * 1000)
        });
        op("truncate", &|n| Op::truncate(path("/other"), n.into()));
        op("mkdir", &|n| Op::mkdir(path(&format!("/d/dir-{n}"))));
        op("mknod", &|n| Op::mknod(path(&format!("/d/fifo-{n}")), Special::Fifo));
        op("symlink", &|n| Op::symlink(path(&format!("/d/symlink-{n}")), "f"));
        op("link", &|n| Op::link(path("/other"), path(&format!("/d/link-{n}"))));
        op("rename", &|n| Op::rename(path(&format!("/d/link-{n}")), path(&format!("/d/moved-{n}"))));
        op("exchange", &|_| Op::exchange(path("/d/moved-1"), path("/d/new-1")));
        op("copy", &|n| Op::copy(path("/d/new-2"), path(&format!("/d/copy-{n}"))));
        op("copy of the past", &|n| Op::copy(path("/d/f"), path(&format!("/d/then-{n}"))).as_of(START));
        op("copy a tree", &|n| Op::copy_tree(path("/d/sub"), path(&format!("/d/tree-{n}"))));
        op("set attributes", &|n| Op::set_attrs(path("/other"), SetAttrs::new().tags([n.to_string()])));
        op("check", &|_| Op::check(path("/d/f"), Precondition::Exists));
        op("remove", &|n| Op::remove(path(&format!("/d/copy-{n}"))));
        op("rename a directory", &|n| {
            Op::rename(path(&format!("/d/dir-{n}")), path(&format!("/d/gone-{n}")))
        });
        op("remove a tree", &|n| Op::remove_tree(path(&format!("/d/gone-{n}"))));
        op("snapshot", &|n| Op::snapshot(format!("snapshot-{n}")));
        op("drop a snapshot", &|n| Op::drop_snapshot(format!("snapshot-{n}")));
    }

    /// Parts that a batch may have besides operations.
    fn batches(&mut self, account: &Account) {
        let entry = block_on(account.fs.stat(&at("/d/f"))).expect("an entry");
        let text = block_on(account.fs.read(&at("/d/f"), ByteRange::ALL)).expect("its text");
        let hash: [u8; 32] = <sha2::Sha256 as sha2::Digest>::digest(&text).into();
        let write = |what: &str, n| Batch::from(Op::write(path(&format!("/d/{what}-{n}")), "new\n"));
        let conditions = [
            ("write if the version is", Precondition::Version(entry.version)),
            ("write if the etag is", Precondition::Etag(entry.etag)),
            ("write if the hash is", Precondition::Sha256(hash)),
        ];
        for (name, that) in conditions {
            self.call(name, |n| account.batch(write(name, n).require(path("/d/f"), that.clone())));
        }
        let record = |n: u32| Idempotency::new(format!("key-{n}"), [1; 32], Timestamp(i64::MAX));
        let id = |n: u32| CommitId(1000 + u128::from(n));
        self.call("write with a key", |n| account.batch(write("key", n).idempotency(record(n))));
        self.call("write with a key again", |n| account.batch(write("key", n).idempotency(record(n))));
        self.call("write with an id", |n| account.batch(write("id", n).id(id(n))));
        self.call("write with an id again", |n| account.batch(write("id", n).id(id(n))));
    }

    fn uploads(&mut self, account: &Account) {
        let write = |what: &str, n, body| {
            let to = path(&format!("/d/{what}-{n}"));
            account.batch(Op::write(to, Body::Staged(body)).into())
        };
        let short = |n: u32| format!("upload {n}\n").into_bytes();
        // More than a chunk, so that it goes to a pack.
        let long = |n: u32| vec![n as u8; 1_200_000];
        self.call("stage", |n| account.stage(short(n)));
        self.call("stage and write", |n| write("short", n, account.stage(short(n))?));
        self.call("stage a pack and write", |n| write("long", n, account.stage(long(n))?));
    }
}
