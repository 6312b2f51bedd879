//! Reads: answers are those of the executable specification, now and in the past, and take few round trips.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{
    At, Batch, ByteRange, ChangesQuery, Confinement, Entry, HistoryPage, Ino, Moment, NamesPage, Op, Owner,
    Page, Seq, SetAttrs, SnapshotsPage, Timestamp, VersionId, WalkPage, Within,
};
use garth_engine::path::Name;
use garth_engine::rule::Registry;
use garth_engine::{Env, ErrorKind, FileSystem, Result};
use garth_testkit::proxy::{Direction, Proxy};

use super::database::{Database, append, at, write};

pub(super) type Fs = Arc<dyn FileSystem>;

/// Paths that batches write and that are read; the last are never made.
const PATHS: [&str; 10] =
    ["/a", "/d", "/d/a", "/d/e", "/d/e/a", "/d/e/b", "/d-b", "/d-b/a", "/none/a", "/a/below"];

/// Random numbers of a seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn path(&mut self) -> At {
        At::Path(at(PATHS[self.below(PATHS.len() - 2)]))
    }

    /// Returns a batch of up to three operations. Some fail.
    pub(super) fn batch(&mut self, number: usize) -> Batch {
        let ops = (0..=self.below(3)).map(|_| {
            let (one, other) = (self.path(), self.path());
            match self.below(16) {
                0..=3 => Op::write(one, format!("text {number}")).with_parents(),
                4..=6 => Op::append(one, format!("more {number}\n")).with_parents(),
                7 => Op::write(one, String::new()),
                8 => Op::mkdir(one),
                9 => Op::remove(one),
                10 => Op::remove_tree(one),
                11 => Op::rename(one, other),
                12 => Op::link(one, other),
                13 => Op::set_attrs(one, SetAttrs::new().metadata("k", format!("{number}"))),
                14 => Op::snapshot(format!("s{}", number % 3)),
                _ => Op::truncate(one, 3),
            }
        });
        Batch::new(ops.collect::<Vec<_>>()).message(format!("batch {number}"))
    }
}

/// Returns an entry without its times: the clocks of the engines differ.
fn untimed(mut entry: Entry) -> Entry {
    (entry.atime, entry.mtime) = (Timestamp(0), Timestamp(0));
    (entry.ctime, entry.birthtime) = (Timestamp(0), Timestamp(0));
    entry
}

pub(super) fn shown<T: Debug>(answer: Result<T>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => {
            format!("{} about {:?}", error.kind().as_str(), error.path().map(|path| path.as_str().to_owned()))
        }
    }
}

/// Returns the answers of all calls about an address, one in each line.
async fn answers_about(fs: &Fs, at: &At, lines: &mut Vec<String>) {
    lines.push(format!("stat {}", shown(fs.stat(at).await.map(untimed))));
    for range in [ByteRange::ALL, ByteRange { offset: 2, length: 3 }] {
        let fetched = fs.fetch(at, range).await.map(|(entry, bytes)| (untimed(entry), bytes));
        lines.push(format!("fetch {}", shown(fetched)));
    }
    lines.push(format!("names {}", shown(fs.names(at, &NamesPage::default()).await)));
    for page in [Page::default(), Page::default().limit(1), Page::default().after(Name::parse("a").ok())] {
        for entries in [false, true] {
            let mut page = page.clone();
            page.entries = entries;
            let listing = fs.list(at, &page).await.map(|mut listing| {
                let timed = listing.items.iter_mut().filter_map(|item| item.entry.as_mut());
                timed.for_each(|entry| **entry = untimed((**entry).clone()));
                listing
            });
            lines.push(format!("list {}", shown(listing)));
        }
    }
    for page in [WalkPage::default(), WalkPage::default().limit(2)] {
        lines.push(format!("walk {}", shown(fs.walk(at, &page).await)));
    }
    for limit in [100, 2] {
        let history = fs.history(at, &HistoryPage::default().limit(limit)).await.map(|mut page| {
            for version in &mut page.items {
                version.commit.time = Timestamp(0);
                version.entry = version.entry.take().map(|entry| Box::new(untimed(*entry)));
            }
            page
        });
        lines.push(format!("history {}", shown(history)));
    }
    let opened = match fs.open(at).await {
        Ok(file) => shown(file.read_at(1, 4).await) + &shown(file.next_hole(0).await),
        Err(error) => shown::<()>(Err(error)),
    };
    lines.push(format!("open {opened}"));
}

/// Returns the answers of all calls, one in each line.
async fn answers(fs: &Fs, inos: u64) -> Vec<String> {
    let mut lines = vec![format!("head {:?}", fs.head().await.map(|head| head.seq).ok())];
    let places = ["/"].iter().chain(&PATHS).map(|path| At::Path(at(path)));
    let nodes = (1..inos).map(|ino| At::Node(Ino(ino)));
    let children = [1, 2, 3].map(|dir| At::Child(Ino(dir), Name::parse("a").unwrap()));
    for place in places.chain(nodes).chain(children) {
        lines.push(format!("{place:?}"));
        answers_about(fs, &place, &mut lines).await;
    }
    for (since, limit, path) in [(0, 100, "/"), (2, 2, "/"), (0, 100, "/d"), (5, 100, "/d/e")] {
        let query = ChangesQuery::since(Seq(since)).limit(limit).within(at(path));
        let changes = fs.changes(&query).await.map(|mut changes| {
            changes.commits.iter_mut().for_each(|commit| commit.commit.time = Timestamp(0));
            changes
        });
        lines.push(format!("changes {}", shown(changes)));
    }
    let snapshots = fs.snapshots(&SnapshotsPage::default()).await;
    let names =
        snapshots.map(|page| page.items.into_iter().map(|one| (one.name, one.seq)).collect::<Vec<_>>());
    lines.push(format!("snapshots {}", shown(names)));
    for seq in 1..4 {
        let version = VersionId { seq: Seq(seq), ino: Ino(2) };
        let opened = match fs.open_version(version).await {
            Ok(file) => shown(file.read_at(0, 100).await),
            Err(error) => shown::<()>(Err(error)),
        };
        lines.push(format!("version {opened}"));
    }
    lines
}

/// Fails at the first answer that differs.
pub(super) async fn compare(fs: &Fs, model: &Fs, inos: u64, what: &str) {
    let (found, due) = (answers(fs, inos).await, answers(model, inos).await);
    let mut place = String::new();
    for (found, due) in found.iter().zip(&due) {
        if due.starts_with("Path") || due.starts_with("Node") || due.starts_with("Child") {
            place.clone_from(due);
        }
        assert_eq!(found, due, "{what}, {place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_the_specification() {
    let database = Database::new().await;
    for seed in 1..3 {
        let account = database.account(&format!("account {seed}")).await;
        let fs: Fs = database.store(account, &database.cluster.socket_url()).await;
        let (env, clock) = Env::manual(Timestamp(1_000_000_000));
        let model: Fs = Arc::new(MemoryFs::new(env, Registry::empty()));
        let mut random = Random(seed);
        let mut last = 0;
        for number in 0..60 {
            let batch = random.batch(number);
            clock.advance(Duration::from_secs(1));
            let committed = match fs.commit(batch.clone()).await {
                // The batch is not built yet.
                Err(error) if error.is(ErrorKind::Unsupported) => continue,
                committed => committed.map(|commit| commit.seq),
            };
            let due = model.commit(batch.clone()).await.map(|commit| commit.seq);
            assert_eq!(shown(committed), shown(due.clone()), "{batch:?}");
            last = due.map_or(last, |seq| seq.0);
        }
        assert!(last > 5, "seed {seed} has too few commits");
        let inos = 12;
        compare(&fs, &model, inos, "now").await;
        for seq in [0, 1, last / 3, last / 2, last - 1, last] {
            let moment = Moment::Seq(Seq(seq));
            let (fs, model) = (fs.as_of(&moment).await.unwrap(), model.as_of(&moment).await.unwrap());
            compare(&fs, &model, inos, &format!("seed {seed} as of {seq} of {last}")).await;
        }
        let to = || {
            let within = Within::new([at("/d")]).without([at("/d/e/b")]);
            Confinement::new(within, Owner::new("her").unwrap())
        };
        let (part, model) = (fs.confined(&to()).await.unwrap(), model.confined(&to()).await.unwrap());
        compare(&part, &model, inos, &format!("seed {seed}, confined")).await;
        let moment = Moment::Seq(Seq(last / 2));
        let (part, model) = (part.as_of(&moment).await.unwrap(), model.as_of(&moment).await.unwrap());
        compare(&part, &model, inos, &format!("seed {seed}, confined, in the past")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_content_is_read_in_parts() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let fs = database.store(account, &database.cluster.socket_url()).await;
    let body: String =
        (0..400_000).map(|number: u32| char::from(b'a' + u8::try_from(number % 23).unwrap())).collect();
    database.commit(account, &[write("/a", body.as_str())]).await.remove(0).unwrap();
    database.commit(account, &[append("/a", body.as_str())]).await.remove(0).unwrap();
    let due = body.repeat(2);
    for (offset, length) in [(0, 800_000), (399_990, 20), (799_999, 5), (800_000, 5), (5, 0)] {
        let range = ByteRange { offset, length };
        let (entry, bytes) = fs.fetch(&At::Path(at("/a")), range).await.unwrap();
        assert_eq!(entry.size, 800_000);
        let [from, to] = [offset, (offset + length).min(800_000)].map(|at| usize::try_from(at).unwrap());
        assert_eq!(bytes, due.as_bytes()[from..to], "{range:?}");
    }
    let many = vec![(At::Path(at("/a")), ByteRange::ALL); 3];
    let fetched = fs.fetch_many(&many).await.unwrap();
    assert_eq!((fetched.items.len(), fetched.seq), (3, Some(Seq(2))));
    let first = fs.as_of(&Moment::Seq(Seq(1))).await.unwrap();
    let (_, bytes) = first.fetch(&At::Path(at("/a")), ByteRange::ALL).await.unwrap();
    assert_eq!(bytes, body.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn open_file_sees_later_writes() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let fs = database.store(account, &database.cluster.socket_url()).await;
    fs.commit(write("/a", "one")).await.unwrap();
    let file = fs.open(&At::Path(at("/a"))).await.unwrap();
    fs.commit(append("/a", " two")).await.unwrap();
    assert_eq!(file.read_at(0, 100).await.unwrap(), &b"one two"[..]);
    assert_eq!((file.stat().await.unwrap().size, file.next_hole(0).await.unwrap()), (7, 7));
    assert_eq!(file.next_data(7).await.unwrap_err().kind(), ErrorKind::NoSuchOffset);
    let version = VersionId { seq: Seq(1), ino: file.ino() };
    let old = fs.open_version(version).await.unwrap();
    assert_eq!(old.read_at(0, 100).await.unwrap(), &b"one"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_the_commit_of_another_server() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let fs = database.store(account, &database.cluster.socket_url()).await;
    let waiting = tokio::spawn({
        let fs = Arc::clone(&fs);
        async move { fs.wait(Seq(0)).await }
    });
    database.commit(account, &[write("/a", "x")]).await.remove(0).unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().seq, Seq(1));
    let past = fs.as_of(&Moment::Seq(Seq(1))).await.unwrap();
    assert_eq!(past.wait(Seq(1)).await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(past.commit(write("/b", "x")).await.unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_survive_lost_connections() {
    let database = Database::new().await;
    let account = database.account("her").await;
    database.commit(account, &[write("/a", "text")]).await.remove(0).unwrap();
    let proxy = Proxy::to(database.cluster.address()).unwrap();
    let fs = database.store(account, &database.cluster.tcp_url_through(proxy.address())).await;
    let (file, before) = (At::Path(at("/a")), proxy.cuts());
    for direction in [Direction::ToServer, Direction::ToClient] {
        for bytes in (0..3000).step_by(300) {
            proxy.cut_after(direction, bytes);
            let (_, bytes) = fs.fetch(&file, ByteRange::ALL).await.unwrap();
            assert_eq!(bytes, &b"text"[..]);
        }
    }
    assert!(proxy.cuts() - before > 5, "{}", proxy.cuts() - before);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_account_is_not_found() {
    let database = Database::new().await;
    let fs = database.store(77, &database.cluster.socket_url()).await;
    for error in [
        fs.head().await.unwrap_err(),
        fs.stat(&At::Path(at("/a"))).await.unwrap_err(),
        fs.commit(write("/a", "x")).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.message().contains("account"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_take_few_trips() {
    let database = Database::new().await;
    let account = database.account("her").await;
    for number in 0..40 {
        let path = format!("/d/f{}", number % 10);
        database.commit(account, &[write(&path, format!("text {number}"))]).await.remove(0).unwrap();
    }
    let proxy = Proxy::to(database.cluster.address()).unwrap();
    let fs: Fs = database.store(account, &database.cluster.tcp_url_through(proxy.address())).await;
    let past = fs.as_of(&Moment::Seq(Seq(20))).await.unwrap();
    let file = fs.open(&At::Path(at("/d/f1"))).await.unwrap();
    // Statements that are sent together arrive before the first answer, as on a network.
    proxy.delay(Duration::from_millis(20));
    macro_rules! trips {
        ($most:expr, $call:expr) => {{
            let before = proxy.trips();
            drop($call.await);
            let trips = proxy.trips() - before;
            assert!((1..=$most).contains(&trips), "{}: {trips}", stringify!($call));
        }};
    }
    let (path, dir, missing) = (At::Path(at("/d/f1")), At::Path(at("/d")), At::Path(at("/x/y/z")));
    let node = At::Node(file.ino());
    trips!(1, fs.head());
    trips!(1, fs.stat(&path));
    trips!(2, fs.stat(&missing));
    trips!(1, fs.stat(&node));
    trips!(2, fs.stat(&At::Child(Ino(2), Name::parse("f1").unwrap())));
    trips!(1, fs.list(&dir, &Page::default()));
    trips!(1, fs.list(&dir, &Page::default().with_entries()));
    trips!(1, fs.walk(&dir, &WalkPage::default()));
    trips!(1, fs.fetch(&path, ByteRange::ALL));
    trips!(1, fs.fetch(&node, ByteRange::ALL));
    trips!(1, file.read_at(0, 100));
    trips!(2, fs.fetch_many(&[(path.clone(), ByteRange::ALL), (missing.clone(), ByteRange::ALL)]));
    trips!(2, fs.names(&path, &NamesPage::default()));
    trips!(2, fs.history(&path, &HistoryPage::default()));
    trips!(4, fs.blame(&path, ByteRange::ALL, 100));
    trips!(2, fs.changes(&ChangesQuery::since(Seq(10)).limit(20)));
    trips!(1, fs.as_of(&Moment::Seq(Seq(3))));
    trips!(1, fs.snapshots(&SnapshotsPage::default()));
    trips!(1, fs.committed(garth_engine::model::CommitId(7)));
    trips!(1, past.stat(&path));
    trips!(1, past.list(&dir, &Page::default()));
    trips!(1, past.fetch(&path, ByteRange::ALL));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_snapshots_follow_their_names() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let fs = database.store(account, &database.cluster.socket_url()).await;
    let long = "t".repeat(1024);
    let mut names: Vec<String> = (0..300).map(|number| format!("s{number:03}")).collect();
    // The keys of long names are in another order.
    names.extend((0..20).map(|number| format!("{long}x{number:02}")));
    names.extend([long, "u".to_owned()]);
    let ops: Vec<Op> = names.iter().map(|name| Op::snapshot(name.as_str())).collect();
    fs.commit(Batch::new(ops)).await.unwrap();
    names.sort_unstable();
    let to = Confinement::new(Within::everything(), Owner::new("her").unwrap());
    let own = fs.confined(&to).await.unwrap();
    let ops: Vec<Op> = names.iter().map(|name| Op::snapshot(name.as_str())).collect();
    own.commit(Batch::new(ops)).await.unwrap();
    for limit in [7, 1000] {
        let (mut found, mut page) = (Vec::new(), SnapshotsPage::default().limit(limit));
        loop {
            let listed = own.snapshots(&page).await.unwrap();
            found.extend(listed.items.iter().map(|one| one.name.clone()));
            let Some(last) = listed.items.last().filter(|_| listed.more) else { break };
            page = page.after(last.key());
        }
        assert_eq!(found, names, "pages of {limit}");
    }
}
