//! Files of a session that may be collected, by its files alone and the rules of `docs/specs/context.md`.

use std::collections::{BTreeMap, BTreeSet};

use garth_engine::model::{At, Kind, Timestamp, WalkPage};
use garth_engine::{FileSystem, FileSystemExt, TreePath};
use garth_testkit::proof::{Broken, Proven, hold};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub(crate) const CHUNKS: &str = "context/swap/chunk";
pub(crate) const BLOBS: &str = "context/dedup/blob";
const SWAPPED: &str = "context/swap/index.jsonl";
const DEDUPED: &str = "context/dedup/index.jsonl";
const PACK: [&str; 2] = ["context/pack.json", "context/pack.md"];
const ENTRIES: [&str; 3] = ["context/facts.jsonl", "context/decisions.jsonl", "context/refs.jsonl"];

/// Reference that this implementation ignores on purpose: a negative control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blind {
    /// References of children.
    Children,
    /// References in the text of the pack.
    Pack,
    /// The age of a file.
    Age,
}

/// Files of a session by name relative to it: bytes and modification time.
pub(crate) struct Seen {
    home: String,
    files: BTreeMap<String, (Vec<u8>, Timestamp)>,
}

impl Seen {
    pub(crate) async fn read(fs: &dyn FileSystem, home: &TreePath) -> Proven<Self> {
        let (mut files, mut page) = (BTreeMap::new(), WalkPage::default().with_entries());
        loop {
            let walk = fs.walk(&At::from(home), &page).await?;
            for item in walk.items.iter().filter(|item| item.kind == Kind::File) {
                let entry = item.entry.as_ref().ok_or_else(|| Broken::because("a walk without entries"))?;
                let name = item.path.as_str()[home.as_str().len() + 1..].to_owned();
                files.insert(name, (fs.read_file(&item.path).await?.to_vec(), entry.mtime));
            }
            match walk.items.last().filter(|_| walk.more) {
                Some(last) => page.after = Some(last.path.clone()),
                None => return Ok(Self { home: home.to_string(), files }),
            }
        }
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.files.get(name).map_or(String::new(), |(bytes, _)| String::from_utf8_lossy(bytes).into_owned())
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        self.text(name).lines().map(|line| serde_json::from_str(line).unwrap_or_default()).collect()
    }

    fn in_dir(&self, dir: &str) -> Vec<&str> {
        self.files.keys().filter_map(|name| name.strip_prefix(dir)?.strip_prefix('/')).collect()
    }

    fn policy(&self, key: &str, otherwise: &str) -> u64 {
        let text = self.text("context/gc.policy");
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let value = value.unwrap_or(otherwise);
        let number = |text: &str| text.parse().unwrap_or(u64::MAX);
        match value.chars().last() {
            Some('s') => number(&value[..value.len() - 1]),
            Some('h') => 3_600 * number(&value[..value.len() - 1]),
            Some('d') => 86_400 * number(&value[..value.len() - 1]),
            _ => number(value),
        }
    }

    /// Returns the files that may refer to chunks and blobs, without those that are deleted.
    fn speakers(&self, gone: &BTreeSet<String>, blind: Option<Blind>) -> Vec<&str> {
        let is_one = |name: &&str| {
            let of_child = name.starts_with("context/child/") && name.ends_with("/refs.jsonl");
            let of_pack = PACK.contains(name) && blind != Some(Blind::Pack);
            let derived = ENTRIES.contains(name) || ["context/summary.md", "context/todo.md"].contains(name);
            derived || of_pack || of_child && blind != Some(Blind::Children)
        };
        self.files.keys().map(String::as_str).filter(is_one).filter(|name| !gone.contains(*name)).collect()
    }

    /// Returns true if one of the files refers to a chunk or blob by this name.
    fn is_named(&self, name: &str, speakers: &[&str]) -> bool {
        // `sha256-` and 64 digits: such a name occurs only as a reference.
        let is_id = name.len() == 71 && name.starts_with("sha256-");
        speakers.iter().any(|speaker| {
            if is_id {
                return self.text(speaker).contains(name);
            }
            let ends = |value: &Value| {
                let text = value.as_str().unwrap_or_default();
                text.ends_with(&format!("/{name}")) || text.ends_with(&format!("swap:{name}"))
            };
            self.lines(speaker).iter().any(|line| {
                ["source", "resolved", "path"].iter().any(|field| match &line[field] {
                    Value::Array(values) => values.iter().any(ends),
                    value => ends(value),
                })
            })
        })
    }

    /// Returns the file that a source refers to, `Some(None)` for lines of a log, or `None` if it is invalid.
    fn leads(&self, source: &str) -> Option<Option<String>> {
        let source = source.split_once('#').map_or(source, |(_, rest)| rest);
        for log in ["messages", "events"] {
            if let Some(lines) = source.strip_prefix(log).and_then(|rest| rest.strip_prefix(':')) {
                let last: usize = lines.split('-').next_back()?.parse().ok()?;
                return (last <= self.lines(&format!("{log}.jsonl")).len()).then_some(None);
            }
        }
        if let Some(call) = source.strip_prefix("tool:") {
            let is_it = |line: &Value| line["content"][0]["call_id"] == *call;
            return self.lines("messages.jsonl").iter().any(is_it).then_some(None);
        }
        let file = match (source.strip_prefix("swap:"), source.strip_prefix(&format!("{}/", self.home))) {
            (Some(id), _) => format!("{CHUNKS}/{id}"),
            (None, Some(own)) => own.to_owned(),
            (None, None) => source.to_owned(),
        };
        self.files.contains_key(&file).then_some(Some(file))
    }

    /// Returns true if a pack was built. A new session has a `pack.json` without forms.
    pub(crate) fn is_packed(&self) -> bool {
        serde_json::from_str::<Value>(&self.text(PACK[0])).is_ok_and(|pack| pack["forms"].is_object())
    }

    /// Returns the files that nothing refers to and that are as old as the policy requires.
    pub(crate) fn free(&self, now: Timestamp, blind: Option<Blind>) -> BTreeSet<String> {
        let is_old = |name: &str, ttl: u64| {
            let age = self.files.get(name).map_or(0, |(_, changed)| now.0 - changed.0);
            blind == Some(Blind::Age)
                || age >= i64::try_from(ttl).unwrap_or(i64::MAX).saturating_mul(1_000_000_000)
        };
        let mut gone = BTreeSet::new();
        if self.is_packed() && is_old(PACK[0], self.policy("pack_ttl", "1d")) {
            gone.extend(PACK.iter().filter(|name| self.files.contains_key(**name)).map(ToString::to_string));
        }
        let speakers = self.speakers(&gone, blind);
        let swapped = self.lines(SWAPPED);
        for id in self.in_dir(CHUNKS) {
            let is_out = swapped.iter().any(|entry| entry["id"] == *id && entry["cut"] != true);
            let name = format!("{CHUNKS}/{id}");
            if !is_out && !self.is_named(id, &speakers) && is_old(&name, self.policy("swap_ttl", "30d")) {
                gone.insert(name);
            }
        }
        let deduped = self.lines(DEDUPED);
        // A blob may be kept by a reference from a file that is collected itself, so this repeats until
        // nothing changes.
        loop {
            let before = gone.len();
            for hash in self.in_dir(BLOBS) {
                let refs = deduped.iter().filter(|entry| entry["hash"] == *hash);
                let refs = refs.flat_map(|entry| entry["refs"].as_array().into_iter().flatten());
                let live = refs.filter_map(|source| self.leads(source.as_str()?));
                // A reference from a removed file does not count, and lines of logs are never removed.
                let live = live.filter(|file| file.as_ref().is_none_or(|file| !gone.contains(file))).count();
                let too_few = (live as u64) < self.policy("dedup_min_refs", "1");
                if too_few && !self.is_named(hash, &speakers) {
                    gone.insert(format!("{BLOBS}/{hash}"));
                }
            }
            if gone.len() == before {
                return gone;
            }
        }
    }

    /// Fails unless these are the files of `before` without those in `gone`, and one event reports the
    /// collection.
    pub(crate) fn follows(&self, before: &Self, gone: &BTreeSet<String>) -> Proven<()> {
        let mut due: BTreeSet<&String> = before.files.keys().collect();
        due.retain(|name| !gone.contains(*name));
        let there: BTreeSet<&String> = self.files.keys().collect();
        hold(there == due, || format!("there are {there:?}, not {due:?}"))?;
        for name in
            due.into_iter().filter(|name| ![SWAPPED, DEDUPED, "events.jsonl"].contains(&name.as_str()))
        {
            hold(self.files[name].0 == before.files[name].0, || format!("{name} is another"))?;
        }
        let (was, now) = (before.text("events.jsonl"), self.text("events.jsonl"));
        let more = now.strip_prefix(&was).ok_or_else(|| Broken::because("events are others"))?;
        let is_told = more.lines().count() == 1 && more.contains("context.collected") && more.ends_with('\n');
        // A collection that removes nothing writes nothing.
        hold(if gone.is_empty() { more.is_empty() } else { is_told }, || format!("events end with {more}"))?;
        let is_left =
            |entry: &Value| !gone.contains(&format!("{CHUNKS}/{}", entry["id"].as_str().unwrap_or_default()));
        let left: Vec<Value> = before.lines(SWAPPED).into_iter().filter(is_left).collect();
        hold(self.lines(SWAPPED) == left, || format!("{SWAPPED} has others than {left:?}"))?;
        let (was, now) = (before.lines(DEDUPED), self.lines(DEDUPED));
        for entry in &now {
            let old = was.iter().find(|old| old["hash"] == entry["hash"]);
            let old = old.map_or(Vec::new(), refs_of);
            hold(refs_of(entry).iter().all(|source| old.contains(source)), || format!("{entry} is new"))?;
        }
        for entry in &was {
            let is_gone = gone.contains(&format!("{BLOBS}/{}", entry["hash"].as_str().unwrap_or_default()));
            let kept = now.iter().find(|new| new["hash"] == entry["hash"]).map_or(Vec::new(), refs_of);
            for source in refs_of(entry) {
                let is_due = match self.leads(&source) {
                    None => false,
                    Some(file) => file.is_none() || !is_gone,
                };
                hold(!is_due || kept.contains(&source), || format!("{entry} lost {source}"))?;
            }
        }
        Ok(())
    }

    /// Returns the ids of all derived entries.
    pub(crate) fn entries(&self) -> Vec<String> {
        let lines = ENTRIES.iter().flat_map(|name| self.lines(name));
        lines.filter_map(|line| Some(line["id"].as_str()?.to_owned())).collect()
    }

    /// Returns the chunks that the index or a derived file names by hash.
    pub(crate) fn chunks_named(&self) -> BTreeSet<String> {
        let mut ids: BTreeSet<String> = BTreeSet::new();
        ids.extend(self.lines(SWAPPED).iter().filter_map(|entry| Some(entry["id"].as_str()?.to_owned())));
        for speaker in self.speakers(&BTreeSet::new(), None) {
            let text = self.text(speaker);
            for before in ["swap:", "swap/chunk/"] {
                for (at, _) in text.match_indices(&format!("{before}sha256-")) {
                    let at = at + before.len();
                    ids.extend(text.get(at..at + 71).map(str::to_owned));
                }
            }
        }
        ids
    }

    /// Returns the number of chunks and blobs.
    pub(crate) fn held(&self) -> u64 {
        (self.in_dir(CHUNKS).len() + self.in_dir(BLOBS).len()) as u64
    }
}

fn refs_of(entry: &Value) -> Vec<String> {
    let refs = entry["refs"].as_array().into_iter().flatten();
    refs.filter_map(|source| Some(source.as_str()?.to_owned())).collect()
}

/// Returns the SHA-256 of bytes as 64 hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
