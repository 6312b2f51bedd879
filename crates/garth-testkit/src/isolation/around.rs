//! Attempts of a part of a tree to reach its surroundings: by path, inode, version, sequence number,
//! snapshot, commit id, idempotency key, staged body, link, search and copies from the past. [`Hidden`]
//! describes the surroundings.

pub(super) mod outside;
mod writes;

use std::fmt::Debug;

use garth_engine::fs::resolve::{Follow, resolve};
use garth_engine::model::{
    At, Batch, ByteRange, ChangesQuery, Commit, CommitId, HistoryPage, Idempotency, Ino, Moment, NamesPage,
    Op, Page, SearchQuery, Seq, SnapshotsPage, StagedBody, Timestamp, VersionId, WalkPage,
};
use garth_engine::{FileSystem, Name, Result, TreePath};

use crate::data::random::Random;
use crate::proof::{Broken, Proven, hold, path};

/// Text in everything outside.
pub(super) const CANARY: &str = "canary-of-another-chat";
/// Commit id and idempotency key that others have used.
pub(super) const TAKEN: CommitId = CommitId(0x7a7a);
const KEY: &str = "taken";
/// Hash of the request that used them.
const HASH: [u8; 32] = [7; 32];

/// Data of others, by everything that addresses them, and parts of paths that may lead to them.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    pub(super) nodes: Vec<Ino>,
    pub(super) versions: Vec<VersionId>,
    pub(super) bodies: Vec<StagedBody>,
    pub(super) snapshots: Vec<String>,
    /// Node that is inside now and was outside before.
    pub(super) came: Option<Ino>,
    /// Node that moves in and out.
    pub(super) shuttle: Option<Ino>,
    /// Random inodes are below this number, and below it within each mark.
    pub(super) numbers: u64,
    pub(super) marks: Vec<u64>,
    /// Last commit that created any of it.
    pub(super) head: Seq,
    /// Parts of paths.
    pub(super) parts: &'static [&'static str],
    /// Prefixes of some paths.
    pub(super) tops: &'static [&'static str],
    /// Complete paths that lead to swapped, excluded or moving nodes.
    pub(super) known: &'static [&'static str],
    /// Targets of links.
    pub(super) targets: Vec<String>,
    /// Percentage of addresses that are paths in any case.
    pub(super) paths: u64,
}

/// Returns the record of a request of others.
pub(super) fn record() -> Idempotency {
    Idempotency::new(KEY, HASH, Timestamp(i64::MAX))
}

pub(super) struct Tries<'a> {
    pub(super) random: Random,
    pub(super) fs: &'a dyn FileSystem,
    pub(super) hidden: &'a Hidden,
}

/// Result as text; true if it was no error.
type Told = (bool, String);

fn told<T: Debug>(answer: Result<T>) -> Told {
    match answer {
        Ok(answer) => (true, format!("{answer:?}")),
        Err(error) => (false, format!("{error} {error:?}")),
    }
}

impl Tries<'_> {
    /// Makes one attempt. Returns true if it was not rejected.
    pub(super) async fn one(&mut self) -> Proven<bool> {
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
        if self.random.below(4) == 0 && !self.hidden.known.is_empty() {
            // Random paths alone would rarely meet the interesting nodes.
            return self.random.pick(self.hidden.known).to_owned();
        }
        if self.random.below(3) == 0 && !self.hidden.tops.is_empty() {
            text.push_str(self.random.pick(self.hidden.tops));
        }
        for _ in 0..=self.random.below(4) {
            text.push('/');
            match self.random.below(200) {
                // Names beyond the limit of 255 bytes.
                0 => text.push_str(&"x".repeat(self.random.below(300) as usize)),
                _ => text.push_str(self.random.pick(self.hidden.parts)),
            }
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
            0 => Ino(self.mark() | self.random.below(self.hidden.numbers)),
            1 => some[self.random.below(2) as usize].unwrap_or(Ino::ROOT),
            _ => self.of(|hidden| &hidden.nodes).unwrap_or(Ino::ROOT),
        }
    }

    fn mark(&mut self) -> u64 {
        self.of(|hidden| &hidden.marks).unwrap_or_default()
    }

    fn of<T: Clone>(&mut self, list: impl Fn(&Hidden) -> &Vec<T>) -> Option<T> {
        let list = list(self.hidden);
        (!list.is_empty()).then(|| self.random.pick(list))
    }

    fn at(&mut self) -> At {
        if self.random.below(100) < self.hidden.paths {
            return At::Path(self.path());
        }
        match self.random.below(4) {
            0 => At::Path(self.path()),
            1 => {
                let (ino, name) = (self.ino(), Name::parse(self.random.pick(self.hidden.parts)));
                name.map_or(At::Node(ino), |name| At::Child(ino, name))
            }
            _ => At::Node(self.ino()),
        }
    }

    fn seq(&mut self) -> Seq {
        // Some are after the last commit.
        Seq(self.random.below(self.hidden.head.0 + 5))
    }

    /// Returns true for an address of a node that is never inside.
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
        let told = match self.random.below(20) {
            0 => told(fs.stat(&at).await),
            1 => told(fs.list(&at, &Page::default().with_entries()).await),
            2 => told(fs.walk(&at, &WalkPage::default().with_entries()).await),
            3 => told(fs.fetch(&at, ByteRange::ALL).await),
            4 => told(fs.names(&at, &NamesPage::default()).await),
            5 => told(fs.history(&at, &HistoryPage::default()).await),
            // A handle rightly follows its file outside.
            6 if !self.is_shuttle(&at) => match fs.open(&at).await {
                Ok(file) => told(file.read_at(0, 100).await),
                refused => told(refused),
            },
            7 => match fs.hold(&at).await {
                Ok(node) => told(node.stat().await),
                refused => told(refused),
            },
            8 => return Ok(told(fs.snapshots(&SnapshotsPage::default()).await)),
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
            16 if self.random.below(2) == 0 => {
                return self
                    .told_commit(fs.recorded(KEY).await.map(|found| found.map(|record| record.commit)));
            }
            16 => return self.told_commit(fs.committed(TAKEN).await),
            17 => told(fs.blame(&at, ByteRange::ALL, 20).await),
            18 => return Ok((true, format!("{:?}", fs.capabilities(&self.path())))),
            _ => {
                let all = WalkPage::default().with_entries();
                return Ok(told(fs.walk(&At::Path(TreePath::root()), &all).await));
            }
        };
        self.inside(&at, told)
    }

    /// Checks that a successful result is not about a node that is never inside.
    fn inside(&self, at: &At, told: Told) -> Proven<Told> {
        hold(!(told.0 && self.is_outside(at)), || format!("{at} is found: {}", told.1))?;
        Ok(told)
    }

    async fn versions(&mut self) -> Proven<Told> {
        let of_others = match self.random.below(3) {
            0 => None,
            _ => self.of(|hidden| &hidden.versions),
        };
        let version = match of_others {
            // Through a view, inodes have the mark of their part.
            Some(version) => VersionId { ino: Ino(version.ino.0 | self.mark()), ..version },
            None => VersionId { seq: self.seq(), ino: self.ino() },
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
            0 => self.of(|hidden| &hidden.snapshots).map_or(Moment::Seq(self.seq()), Moment::Snapshot),
            _ => Moment::Seq(self.seq()),
        };
        let named = matches!(moment, Moment::Snapshot(_));
        let at = self.at();
        let found = match self.fs.as_of(&moment).await {
            // No snapshot of others may exist for the view, so finding one is a leak in itself.
            Ok(_) if named => return Err(Broken::because(format!("{moment:?} of others is found"))),
            Ok(then) => match self.random.below(3) {
                0 => told(then.walk(&At::Path(TreePath::root()), &WalkPage::default().with_entries()).await),
                1 => self.inside(&at, told(then.fetch(&at, ByteRange::ALL).await))?,
                _ => self.inside(&at, told(then.stat(&at).await))?,
            },
            // The message repeats the request.
            Err(_) => (false, String::new()),
        };
        Ok(found)
    }

    /// Creates a link with any target, and reads a path through it.
    async fn through_links(&mut self) -> Proven<Told> {
        let target = match self.random.below(3) {
            0 | 1 => self.random.pick(&self.hidden.targets),
            _ => self.text(),
        };
        let link = format!("{}/link-{}", self.top(), self.random.below(20));
        // The name may be taken, or the target invalid: then the path leads through existing nodes.
        let made = Op::symlink(path(&link)?, target);
        let _ = self.fs.commit(Batch::new([made]).visible()).await;
        let text = format!("{link}{}", self.text());
        Ok(match resolve(self.fs, &text, Follow::Yes).await {
            Ok(found) => told(self.fs.fetch(&At::Path(found), ByteRange::ALL).await),
            refused => told(refused),
        })
    }

    /// Returns the top of a part of the tree.
    fn top(&mut self) -> &'static str {
        if self.hidden.tops.is_empty() { "" } else { self.random.pick(self.hidden.tops) }
    }

    /// Checks that a commit is not one of others, found by an id or key that they have used.
    fn told_commit(&self, found: Result<Option<Commit>>) -> Proven<Told> {
        let told_of = |commit: &Commit| commit.outcomes.iter().any(|it| self.hidden.nodes.contains(&it.ino));
        let others = found.as_ref().is_ok_and(|found| found.as_ref().is_some_and(told_of));
        hold(!others, || "the commit of another is told".to_owned())?;
        Ok(told(found))
    }
}
