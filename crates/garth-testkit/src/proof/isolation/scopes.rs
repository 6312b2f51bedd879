//! Tries from a scope at what lies beside it in the same account, or is left out of it: by path, number,
//! version, sequence, snapshot, commit id, idempotency key, staged body, link, search and copies from the
//! past.

use std::fmt::{self, Debug};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use garth::fs::resolve::{Follow, resolve};
use garth::model::{
    At, Batch, Body, ByteRange, ChangesQuery, Commit, CommitId, Confinement, HistoryPage, Idempotency, Ino,
    Moment, NamesPage, Op, Owner, Page, SearchQuery, Seq, SetAttrs, SnapshotsPage, StagedBody, Timestamp,
    VersionId, WalkPage, Within,
};
use garth::view::Scope;
use garth::{Env, FileSystem, FileSystemExt, Name, Result, TreePath};

use crate::leaky::{Leak, Leaky};
use crate::proof::{Broken, Proven, account, at, hold, path, run, sound, write};
use crate::random::Random;

/// In all that lies outside the scope.
const CANARY: &str = "canary-of-another-chat";
/// Where the scope begins.
const ROOT: &str = "/chats/a";
/// What of it is left out.
const LEFT_OUT: &str = "/secret";
/// A commit id and an idempotency key that others have used.
const TAKEN: CommitId = CommitId(0x7a7a);
const KEY: &str = "taken";
/// The request that they were used with.
const HASH: [u8; 32] = [7; 32];

/// How many tries a file stays where it is: its past grows with each move, and many tries read that.
const TRIES_A_MOVE: u64 = 20;

/// What paths are made of.
const PARTS: [&str; 22] = [
    "..", "..", ".", "", "a", "ab", "a%", "_", "*", "chats", "canary", "secret", "came", "shuttle", "linked",
    "dir", "link", "a/../ab", "..%2fab", "\\..", "ab\0", "~",
];

/// What was tried.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Tries.
    pub tries: u64,
    /// Those that were answered, not refused.
    pub answered: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tries from a scope, {} were answered, 0 canaries seen", self.tries, self.answered)
    }
}

/// Makes `tries` tries from a scope of an account at the rest of it, while a file moves in and out.
///
/// # Errors
/// A canary or number that was seen, or one that is no longer there; with the seed of the try.
pub fn scopes(folder: &Path, tries: u64, seed: u64, leak: Option<Leak>) -> Proven<Report> {
    let fs = account(&folder.join("account"), Env::system())?;
    run(async {
        let hidden = hide(&*fs).await?;
        let engine: Arc<dyn FileSystem> = fs.clone();
        let base: Arc<dyn FileSystem> = match leak {
            Some(leak) => Arc::new(Leaky::new(engine, leak)),
            None => engine,
        };
        let before = outside(&*fs).await?;
        let scope = Scope::open(&*base, &path(ROOT)?).await?;
        let within = Within::everything().without([path(LEFT_OUT)?]);
        let scope = scope.confined(&Confinement::new(within, Owner::new("tries")?)).await?;
        let (stop, tried) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let shuttle = tokio::spawn(shuttle(fs.clone(), Arc::clone(&stop), Arc::clone(&tried)));
        let mut report = Report::default();
        let mut outcome = Ok(());
        for n in 0..tries {
            let seed = seed.wrapping_add(n);
            let mut tries = Tries { random: Random::new(seed), fs: &*scope, hidden: &hidden };
            match tries.one().await {
                Ok(answered) => report.answered += u64::from(answered),
                Err(error) => {
                    outcome = Err(Broken::because(format!("seed {seed}: {error}")));
                    break;
                }
            }
            report.tries += 1;
            tried.store(report.tries, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
        shuttle.await??;
        outcome?;
        hold(outside(&*fs).await? == before, || "what lies outside was changed".to_owned())?;
        sound(&*fs)?;
        Ok(report)
    })
}

/// What others have, by all that it can be asked for.
#[derive(Debug, Default)]
struct Hidden {
    nodes: Vec<Ino>,
    versions: Vec<VersionId>,
    bodies: Vec<StagedBody>,
    snapshots: Vec<String>,
    /// A node that is inside now and was not before.
    came: Option<Ino>,
    shuttle: Option<Ino>,
}

/// Keeps canaries outside, and leads some of them past the scope.
async fn hide(fs: &dyn FileSystem) -> Proven<Hidden> {
    let mut hidden = Hidden::default();
    let attrs = SetAttrs::new().tags([CANARY]);
    let commit =
        |ops: Vec<Op>| async move { Ok::<_, Broken>(fs.commit(Batch::new(ops).message(CANARY)).await?) };
    // the message of a commit that changes something inside is told
    let left_out = left_out()?;
    fs.commit(Op::mkdir_all(left_out.clone()).into()).await?;
    let mut ops = Vec::new();
    for beside in [
        left_out.as_str(),
        "/chats/ab",
        "/chats/a%",
        "/chats/_",
        "/chats/*",
        "/secret",
        "/chats/a-",
        "/chats/A",
    ] {
        ops.push(write(&format!("{beside}/secret"), format!("secret garden {CANARY}\n"))?);
        ops.push(Op::symlink(at(&format!("{beside}/link"))?, format!("/{CANARY}")).with_attrs(attrs.clone()));
        ops.push(Op::mkdir(at(&format!("{beside}/{CANARY}"))?));
    }
    ops.push(Op::snapshot(CANARY));
    commit(ops).await?;
    // seen from inside: a name, a file with a past, a directory with what it holds, and one that comes and
    // goes
    commit(vec![write("/chats/came", CANARY)?, write("/chats/dir/f", CANARY)?]).await?;
    commit(vec![write("/chats/shuttle", CANARY)?, write("/chats/ab/linked", "linked")?]).await?;
    commit(vec![write("/chats/came", "clean")?, write("/chats/dir/f", "clean")?]).await?;
    fs.commit(Batch::new([
        Op::rename(path("/chats/came")?, path("/chats/a/came")?),
        Op::rename(path("/chats/dir")?, path("/chats/a/dir")?),
        Op::link(path("/chats/ab/linked")?, path("/chats/a/linked")?),
        Op::rename(path("/chats/ab/linked")?, path(&format!("/chats/ab/{CANARY}/linked"))?),
    ]))
    .await?;
    hidden.came = Some(fs.entry("/chats/a/came").await?.ino);
    hidden.shuttle = Some(fs.entry("/chats/shuttle").await?.ino);
    let taken = write("/secret/taken", CANARY)?;
    fs.commit(Batch::new([taken.clone()]).id(TAKEN)).await?;
    fs.commit(Batch::new([taken]).idempotency(record())).await?;
    let other = Scope::open(fs, &path("/chats/ab")?).await?;
    other
        .commit(Batch::new([Op::snapshot("theirs"), Op::append(path("/secret")?, CANARY)]).id(TAKEN))
        .await?;
    hidden.snapshots = vec![CANARY.to_owned(), "theirs".to_owned()];
    for fs in [fs, &*other] {
        for size in [CANARY.len(), 2 << 20] {
            let mut upload = fs.stage(&At::Path(path("/secret")?)).await?;
            upload.write(CANARY.repeat(size / CANARY.len()).into()).await?;
            hidden.bodies.push(upload.finish().await?);
        }
    }
    let all = fs.walk(&At::Path(TreePath::root()), &WalkPage::default().limit(10_000)).await?;
    let root = path(ROOT)?;
    let inside = |path: &TreePath| path.is_within(&root) && !path.is_within(&left_out);
    for item in all.items.into_iter().filter(|item| !inside(&item.path)) {
        let at = At::Node(item.ino);
        if fs.names(&at, &NamesPage::default()).await?.items.iter().any(inside)
            || Some(item.ino) == hidden.shuttle
        {
            continue;
        }
        let versions = fs.history(&at, &HistoryPage::default()).await?.items;
        hidden.versions.extend(versions.iter().map(|version| version.id));
        hidden.nodes.push(item.ino);
    }
    Ok(hidden)
}

/// Where the tree has what is left out of the scope.
fn left_out() -> Proven<TreePath> {
    path(&format!("{ROOT}{LEFT_OUT}"))
}

fn record() -> Idempotency {
    Idempotency { key: KEY.to_owned(), request_hash: HASH, keep_until: Timestamp(i64::MAX) }
}

/// Moves a file in and out. Inside it is clean, outside a canary, in one commit each.
async fn shuttle(fs: Arc<dyn FileSystem>, stop: Arc<AtomicBool>, tried: Arc<AtomicU64>) -> Proven<()> {
    let (outside, inside) = (path("/chats/shuttle")?, path("/chats/a/shuttle")?);
    let mut moved = 0;
    while !stop.load(Ordering::Relaxed) {
        let into = [Op::write(&outside, "clean"), Op::rename(&outside, &inside)];
        let out = [Op::rename(&inside, &outside), Op::write(&outside, CANARY)];
        for ops in [into, out] {
            // tries may have moved or removed it, or put something in its place
            let _ = fs.commit(Batch::new(ops).visible()).await;
            moved += TRIES_A_MOVE;
            while tried.load(Ordering::Relaxed) < moved && !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        }
    }
    Ok(())
}

/// All that lies outside, but for the file that moves.
async fn outside(fs: &dyn FileSystem) -> Proven<String> {
    let page = WalkPage::default().limit(10_000).with_entries();
    let (all, root) = (fs.walk(&At::Path(TreePath::root()), &page).await?, path(ROOT)?);
    let (moves, left_out) = (path("/chats/shuttle")?, left_out()?);
    let inside = |path: &TreePath| path.is_within(&root) && !path.is_within(&left_out);
    let seen = all.items.iter().filter(|item| !inside(&item.path) && !root.is_within(&item.path));
    // a file that has a name inside, too, can be changed there
    let seen = seen.filter(|item| item.path != moves && item.path.name() != Some("linked"));
    Ok(seen
        .map(|item| format!("{} {:?} {:?}\n", item.path, item.ino, item.entry.as_ref().map(|it| it.etag)))
        .collect())
}

struct Tries<'a> {
    random: Random,
    fs: &'a dyn FileSystem,
    hidden: &'a Hidden,
}

/// An answer as text; whether it was no refusal.
type Told = (bool, String);

fn told<T: Debug>(answer: Result<T>) -> Told {
    match answer {
        Ok(answer) => (true, format!("{answer:?}")),
        Err(error) => (false, format!("{error} {error:?}")),
    }
}

impl Tries<'_> {
    async fn one(&mut self) -> Proven<bool> {
        let (answered, text) = match self.random.below(10) {
            0..6 => self.read().await?,
            6 => self.through_links().await?,
            _ => self.write().await?,
        };
        hold(!text.contains(CANARY), || format!("a canary is seen in {text}"))?;
        Ok(answered)
    }

    fn text(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..=self.random.below(4) {
            text.push('/');
            text.push_str(self.random.pick(&PARTS));
        }
        text
    }

    fn path(&mut self) -> TreePath {
        let text = self.text();
        let plain = || format!("/{}", text.replace(['/', '\0'], "-"));
        TreePath::parse(&text).or_else(|_| TreePath::parse(&plain())).unwrap_or_default()
    }

    fn ino(&mut self) -> Ino {
        let some = [self.hidden.came, self.hidden.shuttle];
        match self.random.below(4) {
            0 => Ino(self.random.below(120)),
            1 => some[self.random.below(2) as usize].unwrap_or(Ino::ROOT),
            _ => self.of(|hidden| &hidden.nodes),
        }
    }

    fn of<T: Clone>(&mut self, list: impl Fn(&Hidden) -> &Vec<T>) -> T {
        let list = list(self.hidden);
        list[self.random.below(list.len() as u64) as usize].clone()
    }

    fn at(&mut self) -> At {
        match self.random.below(4) {
            0 => At::Path(self.path()),
            1 => {
                let (ino, name) = (self.ino(), Name::parse(self.random.pick(&PARTS)));
                name.map_or(At::Node(ino), |name| At::Child(ino, name))
            }
            _ => At::Node(self.ino()),
        }
    }

    fn seq(&mut self) -> Seq {
        Seq(self.random.below(30))
    }

    /// Whether an address is of what is never inside.
    fn is_outside(&self, at: &At) -> bool {
        match at {
            At::Path(_) => false,
            At::Node(ino) | At::Child(ino, _) => self.hidden.nodes.contains(ino),
        }
    }

    fn is_shuttle(&self, at: &At) -> bool {
        match at {
            At::Path(path) => path.name() == Some("shuttle"),
            At::Node(ino) => Some(*ino) == self.hidden.shuttle,
            At::Child(_, name) => name.as_str() == "shuttle",
        }
    }

    async fn read(&mut self) -> Proven<Told> {
        let (fs, at) = (self.fs, self.at());
        let told = match self.random.below(17) {
            0 => told(fs.stat(&at).await),
            1 => told(fs.list(&at, &Page::default().with_entries()).await),
            2 => told(fs.walk(&at, &WalkPage::default().with_entries()).await),
            3 => told(fs.fetch(&at, ByteRange::ALL).await),
            4 => told(fs.names(&at, &NamesPage::default()).await),
            5 => told(fs.history(&at, &HistoryPage::default()).await),
            // a handle follows its file out, as it should
            6 if !self.is_shuttle(&at) => match fs.open(&at).await {
                Ok(file) => told(file.read_at(0, 100).await),
                refused => told(refused),
            },
            7 => match fs.hold(&at).await {
                Ok(node) => told(node.stat().await),
                refused => told(refused),
            },
            8 => return Ok(told(fs.snapshots(&SnapshotsPage::default()).await)),
            14 => {
                let mut query = ChangesQuery::since(self.seq());
                if self.random.below(2) == 0 {
                    query = query.within(self.path());
                }
                return Ok(told(fs.changes(&query).await));
            }
            15 => match fs.fetch_many(&[(at.clone(), ByteRange::ALL)]).await {
                Ok(fetched) => match fetched.items.into_iter().next() {
                    Some(item) => told(item),
                    None => (false, String::new()),
                },
                refused => told(refused),
            },
            16 => return self.told_commit(fs.committed(TAKEN).await),
            9 => return self.versions().await,
            10 => return self.past().await,
            11 => {
                let text = format!("secret garden {CANARY} {}", self.text());
                let mut query = SearchQuery::new(text).limit(100);
                if self.random.below(2) == 0 {
                    query = query.within(self.path());
                }
                return Ok(told(fs.search(&query).await));
            }
            _ => {
                let all = WalkPage::default().with_entries();
                return Ok(told(fs.walk(&At::Path(TreePath::root()), &all).await));
            }
        };
        self.inside(&at, told)
    }

    /// An answer about an address, which is none of what is never inside.
    fn inside(&self, at: &At, told: Told) -> Proven<Told> {
        hold(!(told.0 && self.is_outside(at)), || format!("{at} is found: {}", told.1))?;
        Ok(told)
    }

    async fn versions(&mut self) -> Proven<Told> {
        let version = match self.random.below(3) {
            0 => VersionId { seq: self.seq(), ino: self.ino() },
            _ => self.of(|hidden| &hidden.versions),
        };
        let found = match self.fs.open_version(version).await {
            Ok(file) => told(file.read_at(0, 100).await),
            refused => told(refused),
        };
        let outside = self.hidden.nodes.contains(&version.ino);
        hold(!(found.0 && outside), || format!("{version} is opened: {}", found.1))?;
        Ok(found)
    }

    async fn past(&mut self) -> Proven<Told> {
        let moment = match self.random.below(3) {
            0 => Moment::Snapshot(self.of(|hidden| &hidden.snapshots)),
            _ => Moment::Seq(self.seq()),
        };
        let named = matches!(moment, Moment::Snapshot(_));
        let at = self.at();
        let found = match self.fs.as_of(&moment).await {
            Ok(_) if named => return Err(Broken::because(format!("{moment:?} of others is found"))),
            Ok(then) => match self.random.below(3) {
                0 => told(then.walk(&At::Path(TreePath::root()), &WalkPage::default().with_entries()).await),
                1 => self.inside(&at, told(then.fetch(&at, ByteRange::ALL).await))?,
                _ => self.inside(&at, told(then.stat(&at).await))?,
            },
            // the message says what was asked for
            Err(_) => (false, String::new()),
        };
        Ok(found)
    }

    /// A link with any target, and a path through it.
    async fn through_links(&mut self) -> Proven<Told> {
        let target = match self.random.below(3) {
            0 => "../ab/secret".to_owned(),
            1 => "/chats/ab".to_owned(),
            _ => self.text(),
        };
        let link = format!("/link-{}", self.random.below(20));
        // taken, or no target that can be kept: then the path goes through what is there
        let _ = self.fs.commit(Batch::new([Op::symlink(path(&link)?, target)])).await;
        let text = format!("{link}{}", self.text());
        Ok(match resolve(self.fs, &text, Follow::Yes).await {
            Ok(found) => told(self.fs.fetch(&At::Path(found), ByteRange::ALL).await),
            refused => told(refused),
        })
    }

    /// A commit, and what came of it.
    async fn write(&mut self) -> Proven<Told> {
        let into = path(&format!("/x{}", self.random.below(6)))?;
        let (at, to) = (self.at(), At::Path(into.clone()));
        let op = match self.random.below(12) {
            0 => Op::rename(at.clone(), to),
            // of a file that is inside, what is written to it outside would show here, as it should
            1 if self.is_outside(&at) => Op::link(at.clone(), to),
            1 | 2 => Op::copy_tree(at.clone(), to),
            3 | 4 => Op::copy_tree(at.clone(), to).replace().as_of(self.seq()),
            5 => Op::append(at.clone(), "x"),
            6 => Op::set_attrs(at.clone(), SetAttrs::new().mode(0o600)),
            7 => return Ok(told(self.fs.commit(Op::remove_tree(At::Path(self.path())).into()).await)),
            8 => return self.as_another(Batch::new([Op::write(&into, "clean")]).id(TAKEN)).await,
            9 => return self.as_another(Batch::new([Op::write(&into, "clean")]).idempotency(record())).await,
            _ => {
                let body = Body::Staged(self.of(|hidden| &hidden.bodies));
                let used = self.fs.commit(Op::write(&into, body).into()).await;
                return match used {
                    Ok(_) => Err(Broken::because("the staged body of another is used")),
                    refused => Ok(told(refused)),
                };
            }
        };
        let (answered, text) = told(self.fs.commit(op.into()).await);
        hold(!(answered && self.is_outside(&at)), || format!("{at} is reached by a commit: {text}"))?;
        let made = self.fs.fetch(&At::Path(into), ByteRange { offset: 0, length: 100 }).await;
        Ok((answered, format!("{text} {:?}", made.ok())))
    }

    /// The commit of an id that another has used, or an own one.
    fn told_commit(&self, found: Result<Option<Commit>>) -> Proven<Told> {
        let told_of = |commit: &Commit| commit.outcomes.iter().any(|it| self.hidden.nodes.contains(&it.ino));
        let others = found.as_ref().is_ok_and(|found| found.as_ref().is_some_and(told_of));
        hold(!others, || "the commit of another is told".to_owned())?;
        Ok(told(found))
    }

    /// Under an id or key that another has used: an own commit, or an own one again.
    async fn as_another(&mut self, batch: Batch) -> Proven<Told> {
        self.told_commit(self.fs.commit(batch).await.map(Some))
    }
}
