//! Attempts: single calls with paths, names, links, patterns and ids, generated from pieces that have led
//! outside in other systems.

use std::fmt::Debug;

use futures::executor::block_on;
use garth_agent::kv::{Kv, KvResult, PageRequest, Put, Search, Semantics};
use garth_engine::ErrorKind;
use garth_engine::fs::resolve::{Follow, resolve};
use garth_engine::model::{
    At, Batch, Body, ByteRange, ChangesQuery, HistoryPage, Ino, Moment, NamesPage, Op, Page, SearchQuery,
    Seq, SetAttrs, SnapshotsPage, StagedBody, VersionId, WalkPage,
};
use garth_engine::{Name, Result, TreePath};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{Broken, Proven, hold, read};

use super::world::{KEYS, TREES, VICTIM, World};

/// Parts of paths.
const PARTS: [&str; 44] = [
    "..",
    "..",
    "..",
    ".",
    "",
    "victim",
    "victim",
    "agents",
    "default",
    "kv",
    "a",
    "a.json",
    "b",
    "canary",
    "user",
    "secret",
    "secret.md",
    "note.md",
    "link",
    "accounts",
    "control.db",
    "tree.db",
    "tree.db-wal",
    "packs",
    "%2e%2e",
    "..%2f..",
    "*",
    "**",
    "%",
    "_",
    "?",
    "[a-z]*",
    "{a,victim}",
    "\\..",
    "..\\..",
    "\u{2024}\u{2024}",
    "a\0b",
    "~",
    "é",
    "\u{202e}",
    "etc",
    "proc",
    "self",
    "trees",
];

/// Parts of ids.
const IDS: [&str; 18] = [
    "victim ",
    " victim",
    "VICTIM",
    "victi",
    "victim2",
    "vict%",
    "_ictim",
    "vict*",
    "victim/",
    "../victim",
    "./victim",
    "victim\0",
    "%76ictim",
    "victim\u{200b}",
    "trees/../victim",
    "",
    ".",
    "..",
];

/// Result or error of a call, as text.
pub(super) struct Answer {
    pub(super) answered: bool,
    pub(super) text: String,
}

/// Source of attempts: draws each from a seed and makes it on the accounts of a world.
pub(super) struct Tries<'a> {
    random: Random,
    world: &'a World,
}

fn told<T: Debug>(answer: Result<T>) -> Answer {
    match answer {
        Ok(answer) => Answer { answered: true, text: format!("{answer:?}") },
        Err(error) => Answer { answered: false, text: format!("{error} {error:?}") },
    }
}

fn told_kv<T: Debug>(answer: KvResult<T>) -> Answer {
    match answer {
        Ok(answer) => Answer { answered: true, text: format!("{answer:?}") },
        Err(error) => Answer { answered: false, text: format!("{error} {error:?}") },
    }
}

impl<'a> Tries<'a> {
    pub(super) fn new(random: Random, world: &'a World) -> Self {
        Self { random, world }
    }

    /// Draws a text that may be a path.
    fn text(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..=self.random.below(6) {
            let part = match self.random.below(24) {
                // The folders of accounts have names that are hard to guess, so they are given to the
                // attacker.
                0 => self.folder(),
                1 => "x".repeat(self.random.below(300) as usize),
                _ => self.random.pick(&PARTS).to_owned(),
            };
            text.push('/');
            text.push_str(&part);
        }
        if self.random.below(10) == 0 {
            text.remove(0);
        }
        text
    }

    fn folder(&mut self) -> String {
        let n = self.random.below(self.world.folders.len() as u64);
        self.world.folders[n as usize].clone()
    }

    /// Draws a valid path; an invalid text becomes a name.
    fn path(&mut self) -> TreePath {
        let text = self.text();
        let plain = || format!("/{}", text.replace(['/', '\0'], "-"));
        TreePath::parse(&text).or_else(|_| TreePath::parse(&plain())).unwrap_or_default()
    }

    fn at(&mut self) -> At {
        let ino = Ino(match self.random.below(8) {
            0 => self.random.next(),
            // Small inodes are likely to exist, in this account or in another one.
            _ => self.random.below(200),
        });
        match self.random.below(4) {
            0 => At::Node(ino),
            1 => Name::parse(self.random.pick(&PARTS)).map_or(At::Node(ino), |name| At::Child(ino, name)),
            _ => At::Path(self.path()),
        }
    }

    fn seq(&mut self) -> Seq {
        Seq(if self.random.below(8) == 0 { self.random.next() } else { self.random.below(300) })
    }

    /// Makes a call on the own tree.
    pub(super) async fn tree(&mut self) -> Proven<Answer> {
        let fs = &*self.world.trees;
        Ok(match self.random.below(16) {
            0 => told(fs.stat(&self.at()).await),
            1 => told(fs.list(&self.at(), &Page::default().with_entries()).await),
            2 => told(fs.walk(&self.at(), &WalkPage::default().with_entries()).await),
            3 => told(fs.fetch(&self.at(), ByteRange::ALL).await),
            4 => told(fs.names(&self.at(), &NamesPage::default()).await),
            5 => told(fs.history(&self.at(), &HistoryPage::default()).await),
            6 => {
                let within = if self.random.below(2) == 0 { vec![self.path()] } else { Vec::new() };
                let text = format!("secret garden canary {}", self.text());
                let tags_any = if self.random.below(2) == 0 { vec![self.text()] } else { Vec::new() };
                told(
                    fs.search(&SearchQuery::new(text).within_any(within).tags_any(tags_any).limit(100)).await,
                )
            }
            7 => match fs.open(&self.at()).await {
                Ok(handle) => told(handle.read_at(0, 1000).await),
                refused => told(refused),
            },
            8 => {
                let version = VersionId { seq: self.seq(), ino: Ino(self.random.below(200)) };
                match fs.open_version(version).await {
                    Ok(handle) => told(handle.read_at(0, 1000).await),
                    refused => told(refused),
                }
            }
            9 => told(fs.changes(&ChangesQuery::since(self.seq()).within(self.path())).await),
            10 => {
                let moment = match self.random.below(2) {
                    0 => Moment::Seq(self.seq()),
                    _ => Moment::Snapshot(self.text()),
                };
                match fs.as_of(&moment).await {
                    Ok(then) => told(then.walk(&At::Path(self.path()), &WalkPage::default()).await),
                    refused => told(refused),
                }
            }
            11 => told(fs.snapshots(&SnapshotsPage::default()).await),
            12 | 13 => self.through_links().await?,
            _ => told(fs.commit(Batch::new([self.op()])).await),
        })
    }

    /// Creates a link with any target, and reads a path through it.
    async fn through_links(&mut self) -> Proven<Answer> {
        let fs = &*self.world.trees;
        let link = format!("/link-{}", self.random.below(50));
        let (at, target) = (At::Path(TreePath::parse(&link)?), self.text());
        let attrs = SetAttrs::default();
        // The name may be taken, or the target invalid: then the path leads through existing nodes.
        let _ = fs.commit(Batch::new([Op::symlink(at, target).with_parents().with_attrs(attrs)])).await;
        let path = format!("{link}{}", self.text());
        let path = if self.random.below(2) == 0 { path } else { self.text() };
        Ok(match resolve(fs, &path, Follow::Yes).await {
            Ok(found) => match read(fs, found.as_str()).await {
                Ok(text) => Answer { answered: true, text },
                Err(_) => told(fs.list(&At::Path(found), &Page::default()).await),
            },
            refused => told(refused),
        })
    }

    fn op(&mut self) -> Op {
        let (at, to) = (self.at(), self.at());
        match self.random.below(6) {
            0 => Op::rename(at, to).with_parents(),
            1 => Op::link(at, to).with_parents(),
            2 => {
                let as_of = (self.random.below(2) == 0).then(|| self.seq());
                Op::Copy {
                    from: at,
                    as_of,
                    to,
                    recursive: self.random.below(4) == 0,
                    replace: true,
                    parents: true,
                }
            }
            3 => {
                let body = Body::Staged(StagedBody { id: u128::from(self.random.below(100)), size: 10 });
                Op::append(at, body).with_parents()
            }
            _ => {
                let body = Body::Bytes(self.text().into());
                Op::write(at, body).with_parents()
            }
        }
    }

    /// Makes a call on the keys of any agent but the other one.
    pub(super) async fn keys(&mut self) -> Proven<Answer> {
        let agent = match self.random.below(3) {
            0 => self.id(),
            _ => "default".to_owned(),
        };
        let kv = match Kv::new(&*self.world.keys, &agent) {
            Ok(kv) => kv,
            Err(error) => return Ok(Answer { answered: false, text: format!("{error:?}") }),
        };
        let path = self.text();
        Ok(match self.random.below(8) {
            0 => told_kv(kv.get(&path).await),
            1 => told_kv(kv.history(&path, PageRequest::first(100)).await),
            2 => told_kv(kv.list(&path, PageRequest::first(500)).await),
            3 => told_kv(kv.glob(&path, Semantics::Whole, PageRequest::first(500)).await),
            4 => told_kv(kv.glob(&path, Semantics::Segment, PageRequest::first(500)).await),
            5 => {
                let prefix = (self.random.below(2) == 0).then_some(path.as_str());
                let query = "secret garden canary of another agent";
                let search = Search { query, path_prefix: prefix, tags_any: Vec::new() };
                told_kv(kv.search(&search, PageRequest::first(50)).await)
            }
            6 => told_kv(kv.delete(&path, None).await),
            _ => {
                let value = serde_json::from_str("1").map_err(|error| Broken::because(error.to_string()))?;
                let tags = Some(vec![self.text()]);
                let put = Put { tags, searchable: Some(true), ..Put::anew(&path, value) };
                told_kv(kv.put(&put, None).await)
            }
        })
    }

    /// Draws an id that looks like an existing one, but is not.
    fn id(&mut self) -> String {
        let id = match self.random.below(3) {
            0 => self.text(),
            1 => self.folder(),
            _ => self.random.pick(&IDS).to_owned(),
        };
        // The holder of the data folder may open any account by its own id.
        if [VICTIM, TREES, KEYS].contains(&id.as_str()) { format!("{id}?") } else { id }
    }

    /// Tries the id of an account, or a token.
    pub(super) fn ids(&mut self) -> Proven<Answer> {
        if self.random.below(2) == 0 {
            let id = self.id();
            return match block_on(self.world.home.open(&id)) {
                Ok(_) => Err(Broken::because(format!("the id {id:?} opens an account"))),
                Err(error) => {
                    let kinds = [ErrorKind::NotFound, ErrorKind::InvalidArgument];
                    hold(kinds.contains(&error.kind()), || format!("the id {id:?} gives {error:?}"))?;
                    Ok(Answer { answered: false, text: error.to_string() })
                }
            };
        }
        let mut token: Vec<char> = self.world.token.chars().collect();
        let place = self.random.below(token.len() as u64) as usize;
        match self.random.below(4) {
            0 => token.truncate(place),
            1 => token.push('0'),
            2 => drop(token.remove(place)),
            _ => token[place] = if token[place] == 'a' { 'b' } else { 'a' },
        }
        let token: String = token.into_iter().collect();
        match block_on(self.world.home.admit(&token)) {
            Ok(Some(admitted)) => {
                Err(Broken::because(format!("a made-up token is admitted as {}", admitted.key().id)))
            }
            answer => Ok(told(answer)),
        }
    }
}
