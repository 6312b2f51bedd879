//! Plays steps on the subject and on the model, and compares every result.

mod collecting;
mod remembering;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use futures::FutureExt;
use garth_engine::engine::memory::MemoryFs;
use garth_engine::env::ManualClock;
use garth_engine::fs::restore::{MAX_COMPARED, RestoreResult, restore};
use garth_engine::model::{
    At, Batch, Body, ByteRange, ChangeKind, ChangesQuery, Commit, CommitId, HistoryPage, Idempotency, Kind,
    MAX_READ, Moment, Op, Page, Precondition, Seq, Timestamp, VersionId, WalkPage,
};
use garth_engine::rule::Registry;
use garth_engine::{ErrorKind, FileSystem, FileSystemExt, OpenFile, OpenNode};
use sha2::{Digest, Sha256};

use super::comparisons::{
    Checked, Difference, WithContent, same, same_blame, same_found, same_history, same_outside, same_tree,
    tree_with_content,
};
use super::part_of_tree::{confine, same_part};
use super::quotas;
use super::retention;
use super::rules;
use super::steps::{BatchSpec, By, Holds, OpSpec, SLOTS, Step, WHOLE};
use crate::reference::tree_shape::shape;
use crate::subject::{Instance, START, Store, Subject};
use crate::tools::{Fs, at, can, name, names_of, p, snapshots};

/// Counts of the played steps.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) ops: u64,
    pub(super) commits: u64,
    pub(super) refused: u64,
    pub(super) ruled: u64,
    pub(super) full: u64,
    pub(super) omitted: u64,
    pub(super) checks: u64,
    pub(super) reopened: u64,
    pub(super) collected: u64,
    pub(super) folded: u64,
    pub(super) contents: u64,
    pub(super) gone: u64,
}

/// Source of the content of bodies.
pub(super) static BYTES: LazyLock<Bytes> = LazyLock::new(|| {
    let mut number = 1_u64;
    let bytes = std::iter::repeat_with(|| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u8::try_from(number >> 56).expect("eight bits")
    });
    // Room for the largest body, from any start below 1,000.
    bytes.take((1 << 20) + 2048).collect()
});

/// `BYTES` as digits, which are JSON however they are concatenated.
static DIGITS: LazyLock<Bytes> = LazyLock::new(|| BYTES.iter().map(|byte| b'1' + byte % 9).collect());

/// Largest file that is hashed and read completely.
const WHOLE_FILE: u64 = 8 << 20;

struct Run {
    subject: Subject,
    model: MemoryFs,
    model_clock: ManualClock,
    now: Timestamp,
    /// Time of the last collection. The clock must not go back before it.
    collected: Timestamp,
    handles: [Option<[Arc<dyn OpenFile>; 2]>; SLOTS],
    held: [Option<[Arc<dyn OpenNode>; 2]>; SLOTS],
    /// Trees of the subject with the content of small files, by the commit after which they were read.
    remembered: Vec<(Seq, Vec<WithContent>)>,
    tally: Tally,
}

/// Plays steps to the end, or until `ops` operations were tried. An error has the index of the step that
/// differed.
pub(super) async fn play(steps: &[Step], subject: Subject, ops: u64) -> Result<Tally, (usize, Difference)> {
    if subject.retained && !subject.has_account() {
        return Err((0, retention::NO_ACCOUNT.to_owned()));
    }
    let (env, model_clock) = Subject::clock();
    let registry =
        if subject.has_account() { garth_engine::rule::sample::registry() } else { Registry::empty() };
    let model = MemoryFs::new(env, registry);
    let mut run = Run {
        subject,
        model,
        model_clock,
        now: START,
        collected: Timestamp(0),
        handles: Default::default(),
        held: Default::default(),
        remembered: Vec::new(),
        tally: Tally::default(),
    };
    for (index, step) in steps.iter().enumerate() {
        // A panic is a failure like any other, so that it is shrunk, too.
        match AssertUnwindSafe(run.step(step)).catch_unwind().await {
            Ok(Ok(())) => {}
            Ok(Err(difference)) => return Err((index, difference)),
            Err(_) => return Err((index, "a panic (its message is above)".to_owned())),
        }
        // Operations are counted, because a step may have several or none.
        if run.tally.ops >= ops {
            break;
        }
    }
    let end = steps.len().saturating_sub(1);
    run.tree().await.map_err(|difference| (end, difference))?;
    Ok(run.tally)
}

impl Run {
    async fn step(&mut self, step: &Step) -> Checked {
        match step {
            Step::Commit(batch) => self.commit(batch).await,
            Step::Clock(seconds) => {
                // A collection has ended expired entries for good, but the model forgets nothing.
                self.now = self.now.plus_seconds(*seconds).max(self.collected);
                self.subject.clock.set(self.now);
                self.model_clock.set(self.now);
                Ok(())
            }
            Step::Open(slot, path) => {
                let (subject, model) =
                    (self.subject.fs.open(&at(path)).await, self.model.open(&at(path)).await);
                self.handles[*slot] = match (subject, model) {
                    (Ok(subject), Ok(model)) => Some([subject, model]),
                    (subject, model) => {
                        let ino = |file: Arc<dyn OpenFile>| file.ino();
                        same("open", subject.map(ino), model.map(ino))?;
                        None
                    }
                };
                Ok(())
            }
            Step::Close(slot) => {
                self.handles[*slot] = None;
                Ok(())
            }
            Step::Hold(slot, path) => {
                let (subject, model) =
                    (self.subject.fs.hold(&at(path)).await, self.model.hold(&at(path)).await);
                self.held[*slot] = match (subject, model) {
                    (Ok(subject), Ok(model)) => Some([subject, model]),
                    (subject, model) => {
                        same("hold", subject.map(|node| node.ino()), model.map(|node| node.ino()))?;
                        None
                    }
                };
                Ok(())
            }
            Step::Held(slot) => self.read_held(*slot).await,
            Step::ReadHandle(slot, offset, length) => self.read_handle(*slot, *offset, *length).await,
            Step::Reopen => self.reopen().await,
            Step::Collect => self.collect_elsewhere().await,
            Step::Retain(to, alone) => self.retain(to.as_ref(), *alone).await,
            Step::Tree => self.tree().await,
            Step::Path(path, offset, length) => self.path(path, *offset, *length).await,
            Step::Pages(dir, limit, after) => self.pages(dir, *limit, after).await,
            Step::Past(part, path) => self.past(*part, path.as_deref()).await,
            Step::Remember => self.remember().await,
            Step::Recall(part) => self.recall(*part).await,
            Step::Restore(path, part) => self.restore(path, *part).await,
            Step::Changes(part, within) => {
                self.tally.checks += 1;
                let mut query = ChangesQuery::since(self.part_of_head(*part).await?).limit(30);
                query.within.extend(within.iter().map(|path| p(path)));
                // Also a page that begins within a commit.
                for changes in [0, 2] {
                    query.since.changes = changes;
                    same("changes", self.subject.fs.changes(&query).await, self.model.changes(&query).await)?;
                }
                let path = within.as_deref().unwrap_or("/");
                same_part(&*self.subject.fs, &self.model, path, query.since.seq).await
            }
            Step::History(path, limit) => {
                self.tally.checks += 1;
                same_history(&*self.subject.fs, &self.model, path, *limit).await
            }
            Step::Version(path, part) => self.version(path, *part).await,
            Step::Snapshots(seconds) => self.snapshots(*seconds).await,
            Step::Rule(number, force) => {
                let played = rules::play(&self.subject.store, &self.model, *number, *force).await?;
                self.count(played)
            }
            Step::Quota(path, room) => {
                let played = quotas::play(&self.subject.store, &self.model, &p(path), *room).await?;
                self.count(played)
            }
        }
    }

    /// Counts a step on rules or quotas.
    fn count(&mut self, played: bool) -> Checked {
        match played {
            true => self.tally.checks += 1,
            false => self.tally.omitted += 1,
        }
        Ok(())
    }

    async fn part_of_head(&self, part: u64) -> Checked<Seq> {
        let head = same("head", self.subject.fs.head().await, self.model.head().await)?;
        // Parts beyond `WHOLE` are commits of the future, which must be rejected.
        Ok(Seq(head.map_or(0, |head| head.seq.0) * part / WHOLE + part.saturating_sub(WHOLE)))
    }

    async fn commit(&mut self, spec: &BatchSpec) -> Checked {
        let mut batches = [Batch::default(), Batch::default()];
        for op in &spec.ops {
            let ops = match op {
                OpSpec::Check(path, holds) => {
                    let that = self.condition(path, *holds).await;
                    [(); 2].map(|()| Op::check(at(path), that.clone()))
                }
                OpSpec::Op(op, by) => self.with_bodies(self.addressed(op, *by).await?).await,
            };
            for (batch, op) in batches.iter_mut().zip(ops) {
                batch.ops.push(op);
            }
        }
        let condition = match &spec.condition {
            Some((path, holds)) => Some((at(path), self.condition(path, *holds).await)),
            None => None,
        };
        for batch in &mut batches {
            batch.preconditions.extend(condition.clone());
            // Shifted, so that the upper bits of ids are used as well.
            batch.id = spec.id.map(|id| CommitId(u128::from(id) << 90));
            batch.idempotency = spec.idempotency.map(|(key, hash)| {
                Idempotency::new(format!("k{key}"), [hash; 32], self.now.plus_seconds(300))
                    .note(format!("of {} operations", spec.ops.len()))
            });
            batch.message = format!("{} operations", spec.ops.len());
            if self.subject.retained {
                batch.author = retention::author(self.tally.ops);
            }
        }
        confine(&mut batches, self.tally.commits + self.tally.refused);
        let [to_subject, to_model] = batches;
        let mut subject = self.subject.fs.commit(to_subject).await;
        if let Ok(commit) = &mut subject {
            is_durable(&*self.subject.fs, commit)?;
        }
        let model = self.model.commit(to_model).await;
        let ruled = model.as_ref().is_err_and(|error| error.is(ErrorKind::RuleViolation));
        let full = model.as_ref().is_err_and(|error| error.is(ErrorKind::QuotaExceeded));
        self.tally.ruled += u64::from(ruled);
        self.tally.full += u64::from(full);
        self.tally.ops += spec.ops.len() as u64;
        match same("commit", subject, model)? {
            Some(_) => self.tally.commits += 1,
            None => self.tally.refused += 1,
        }
        // After every batch, also a rejected one: it must not change a counter.
        quotas::same_quotas(&self.subject.store, &self.model).await?;
        if let Some(id) = spec.id.map(|id| CommitId(u128::from(id) << 90)) {
            let mut subject = self.subject.fs.committed(id).await;
            if let Ok(Some(commit)) = &mut subject {
                is_durable(&*self.subject.fs, commit)?;
            }
            same("committed", subject, self.model.committed(id).await)?;
        }
        if let Some((key, _)) = spec.idempotency {
            let key = format!("k{key}");
            let mut subject = self.subject.fs.recorded(&key).await;
            if let Ok(Some(record)) = &mut subject {
                is_durable(&*self.subject.fs, &mut record.commit)?;
            }
            same("recorded", subject, self.model.recorded(&key).await)?;
        }
        Ok(())
    }

    /// Returns an operation with its first path replaced by the drawn kind of address, and its sequence
    /// number computed.
    async fn addressed(&self, op: &Op, by: By) -> Checked<Op> {
        let mut op = op.clone();
        if let Op::Copy { as_of: Some(seq), .. } = &mut op {
            *seq = self.part_of_head(seq.0).await?;
        }
        let place = match &mut op {
            Op::Write { at, .. }
            | Op::Append { at, .. }
            | Op::Patch { at, .. }
            | Op::Truncate { at, .. }
            | Op::Punch { at, .. }
            | Op::Mkdir { at, .. }
            | Op::Symlink { at, .. }
            | Op::Mknod { at, .. }
            | Op::Remove { at, .. }
            | Op::SetAttrs { at, .. }
            | Op::Check { at, .. } => at,
            Op::Link { from, .. }
            | Op::Rename { from, .. }
            | Op::Copy { from, .. }
            | Op::CopyRange { from, .. } => from,
            Op::Snapshot { .. } | Op::DropSnapshot { .. } | Op::Misused { .. } => return Ok(op),
        };
        let At::Path(path) = place.clone() else { return Ok(op) };
        match by {
            By::Path => {}
            By::Node => {
                // Both sides have the same inodes, so the model's is used.
                if let Ok(entry) = self.model.stat(place).await {
                    *place = At::Node(entry.ino);
                }
            }
            By::Child => {
                if let Some((dir, name)) = path.split()
                    && let Ok(entry) = self.model.stat(&At::Path(dir)).await
                {
                    *place = At::Child(entry.ino, name);
                }
            }
            By::Handle(slot) => {
                if let Some([_, model]) = &self.handles[slot] {
                    *place = At::Node(model.ino());
                }
            }
            By::Held(slot) => {
                if let Some([_, model]) = &self.held[slot] {
                    *place = match path.split() {
                        Some((_, name)) if slot % 2 == 0 => At::Child(model.ino(), name),
                        _ => At::Node(model.ino()),
                    };
                }
            }
        }
        Ok(op)
    }

    /// Returns the operation for the subject and for the model, with the same bytes, staged on each side if
    /// drawn so.
    async fn with_bodies(&self, op: Op) -> [Op; 2] {
        let mut ops = [op.clone(), op];
        let sides: [&Fs; 2] = [&*self.subject.fs, &self.model];
        for (op, fs) in ops.iter_mut().zip(sides) {
            let (Op::Write { at: place, body, .. }
            | Op::Append { at: place, body, .. }
            | Op::Patch { at: place, body, .. }) = op
            else {
                continue;
            };
            let Body::Staged(spec) = body.clone() else { continue };
            let start = usize::try_from(spec.id).expect("below 1,000");
            // Digits now and then, so that files under a rule for JSON are accepted as well.
            let from = if start.is_multiple_of(3) { &DIGITS } else { &BYTES };
            let bytes = from.slice(start..start + usize::try_from(spec.size).expect("1 MiB at most"));
            *body = if spec.id % 16 == 0 {
                let mut upload = fs.stage(place).await.expect("an upload starts");
                for piece in 0..=bytes.len() / 300_000 {
                    let end = bytes.len().min((piece + 1) * 300_000);
                    upload.write(bytes.slice(piece * 300_000..end)).await.expect("an upload goes on");
                }
                Body::Staged(upload.finish().await.expect("an upload ends"))
            } else {
                Body::Bytes(bytes)
            };
        }
        ops
    }

    async fn condition(&self, path: &str, holds: Holds) -> Precondition {
        let entry = self.model.stat(&at(path)).await.ok();
        // Stand-in for a missing node, which matches no version.
        let wrong = |right: bool| u64::from(!right);
        let version = |id: Option<VersionId>, right| {
            let id = id.unwrap_or(VersionId { seq: Seq(1), ino: garth_engine::model::Ino(2) });
            VersionId { seq: Seq(id.seq.0 + wrong(right)), ..id }
        };
        match holds {
            Holds::Absent => Precondition::Absent,
            Holds::Exists => Precondition::Exists,
            Holds::EtagIn(right) => {
                // The list has a wrong etag first, so that the comparison must not stop there.
                let right = version(entry.map(|entry| entry.etag), right);
                Precondition::EtagIn(vec![VersionId { seq: Seq(0), ..right }, right])
            }
            Holds::NotEtag(right) => {
                Precondition::Etag(version(entry.map(|entry| entry.etag), !right)).negated()
            }
            Holds::Version(right) => Precondition::Version(version(entry.map(|entry| entry.version), right)),
            Holds::Etag(right) => Precondition::Etag(version(entry.map(|entry| entry.etag), right)),
            Holds::Sha256(right) => match entry {
                Some(entry) if entry.size > WHOLE_FILE => Precondition::Etag(entry.etag),
                _ => {
                    let content = self.model.read(&at(path), ByteRange::ALL).await.unwrap_or_default();
                    let mut hash: [u8; 32] = Sha256::digest(&content).into();
                    hash[31] ^= u8::from(!right);
                    Precondition::Sha256(hash)
                }
            },
        }
    }

    async fn read_handle(&mut self, slot: usize, offset: u64, length: u64) -> Checked {
        let Some([subject, model]) = &self.handles[slot] else { return Ok(()) };
        self.tally.checks += 1;
        same("stat of a handle", subject.stat().await, model.stat().await)?;
        let length = usize::try_from(length).expect("small");
        let (read, expected) = (subject.read_at(offset, length).await, model.read_at(offset, length).await);
        same("read of a handle", read, expected)?;
        same("data behind", subject.next_data(offset).await, model.next_data(offset).await)?;
        same("a hole behind", subject.next_hole(offset).await, model.next_hole(offset).await)?;
        let node = At::Node(model.ino());
        same("stat of an open node", self.subject.fs.stat(&node).await, self.model.stat(&node).await)?;
        same(
            "names of an open node",
            names_of(&*self.subject.fs, &node).await,
            names_of(&self.model, &node).await,
        )?;
        Ok(())
    }

    async fn read_held(&mut self, slot: usize) -> Checked {
        let Some([subject, model]) = &self.held[slot] else { return Ok(()) };
        self.tally.checks += 1;
        same("stat of a held node", subject.stat().await, model.stat().await)?;
        let node = At::Node(model.ino());
        let (subject, model) = (&*self.subject.fs, &self.model);
        same("stat of its number", subject.stat(&node).await, model.stat(&node).await)?;
        let page = Page::default().limit(100).with_entries();
        same("its names", subject.list(&node, &page).await, model.list(&node, &page).await)?;
        let page = WalkPage::default().limit(100).with_entries();
        same("all below it", subject.walk(&node, &page).await, model.walk(&node, &page).await)?;
        Ok(())
    }

    async fn reopen(&mut self) -> Checked {
        if self.subject.reopen.is_none() {
            return Ok(());
        }
        // Handles would keep the old instance open.
        self.handles = Default::default();
        self.held = Default::default();
        // The old instance is dropped first, as if the process had ended.
        self.subject.fs = Arc::new(self.model.clone());
        self.subject.store = Store::Absent;
        if let Some(reopen) = &self.subject.reopen {
            let Instance { fs, store } = reopen().await;
            (self.subject.fs, self.subject.store) = (fs, store);
        }
        self.tally.reopened += 1;
        self.tree().await
    }

    async fn tree(&mut self) -> Checked {
        self.tally.checks += 1;
        let (subject, model) = (&*self.subject.fs, &self.model);
        quotas::same_quotas(&self.subject.store, model).await?;
        same("head", subject.head().await, model.head().await)?;
        same("the root", subject.stat(&at("/")).await, model.stat(&at("/")).await)?;
        same_tree(subject, model).await?;
        same_found(subject, model, self.subject.has_account()).await
    }

    async fn path(&mut self, path: &str, offset: u64, length: u64) -> Checked {
        self.tally.checks += 1;
        let (subject, model, place) = (&*self.subject.fs, &self.model, at(path));
        let entry = same("stat", subject.stat(&place).await, model.stat(&place).await)?;
        same("names", names_of(subject, &place).await, names_of(model, &place).await)?;
        let range = ByteRange { offset, length };
        same("a range", subject.read(&place, range).await, model.read(&place, range).await)?;
        same_blame(subject, model, &place, range).await?;
        let all = ByteRange::ALL;
        same("content", subject.read(&place, all).await, model.read(&place, all).await)?;
        if let Some(entry) = entry.filter(|entry| entry.kind == Kind::File && entry.size > MAX_READ as u64) {
            // Too long to be read at once.
            let range = ByteRange { offset: entry.size / 2, length: 5000 };
            same("the middle", subject.read(&place, range).await, model.read(&place, range).await)?;
        }
        Ok(())
    }

    async fn pages(&mut self, dir: &str, limit: usize, after: &str) -> Checked {
        self.tally.checks += 1;
        let place = if dir.is_empty() { at("/") } else { at(dir) };
        let (subject, model) = (&*self.subject.fs, &self.model);
        let name = after.rsplit('/').next().map(name);
        for after in [None, name] {
            let page = Page::default().after(after).limit(limit).with_entries();
            let (listing, expected) = (subject.list(&place, &page).await, model.list(&place, &page).await);
            // `more` may be true before an empty last page, but never false before more entries.
            if let (Ok(listing), Ok(expected)) = (&listing, &expected)
                && expected.more
                && !listing.more
            {
                return Err(format!("the listing of {dir} ends too early"));
            }
            same("a listing", listing.map(|it| it.items), expected.map(|it| it.items))?;
        }
        let page = WalkPage::default().after(p(after)).limit(limit).with_entries();
        let (walk, expected) = (subject.walk(&place, &page).await, model.walk(&place, &page).await);
        same("a page of a walk", walk.map(|it| it.items), expected.map(|it| it.items))?;
        Ok(())
    }

    async fn past(&mut self, part: u64, path: Option<&str>) -> Checked {
        self.tally.checks += 1;
        let moment = Moment::Seq(self.part_of_head(part).await?);
        let (subject, model) = match (self.subject.fs.as_of(&moment).await, self.model.as_of(&moment).await) {
            (Ok(subject), Ok(model)) => (subject, model),
            (subject, model) => return same("as_of", subject.map(|_| ()), model.map(|_| ())).map(|_| ()),
        };
        same("a past head", subject.head().await, model.head().await)?;
        let seq = self.part_of_head(part).await?;
        same_part(&*self.subject.fs, &self.model, path.unwrap_or("/kv/d"), seq).await?;
        let Some(path) = path else {
            for item in same_tree(&*subject, &*model).await?.into_iter().take(8) {
                let place = At::Path(item.path);
                let range = ByteRange { offset: 0, length: 1 << 20 };
                same("past content", subject.read(&place, range).await, model.read(&place, range).await)?;
                same_blame(&*subject, &*model, &place, range).await?;
            }
            return Ok(());
        };
        same("a past entry", subject.stat(&at(path)).await, model.stat(&at(path)).await)?;
        same("past snapshots", snapshots(&*subject).await, snapshots(&*model).await)?;
        same_history(&*subject, &*model, path, 20).await
    }

    /// Restores a path on both sides. Afterwards the path must have its past content, and everything outside
    /// must be unchanged.
    async fn restore(&mut self, path: &str, part: u64) -> Checked {
        let top = p(path);
        let moment = Moment::Seq(self.part_of_head(part).await?);
        let told = |error: garth_engine::Error| error.to_string();
        let past = match self.model.as_of(&moment).await {
            Ok(past) => past,
            Err(gone) => {
                let subject = restore(&*self.subject.fs, &top, &moment, self.now, &Batch::default()).await;
                return same("a restore", subject.map(drop), Err(gone)).map(drop);
            }
        };
        let head = self.model.head().await.map_err(told)?;
        // The commit of the restore takes this time: expiry is judged by it.
        let now = self.now.max(Timestamp(head.time.0 + 1));
        let due = shape(&*past, &top, now).await;
        let before = tree_with_content(&self.model).await?;
        let batch = Batch { message: format!("restore {path}"), ..Batch::default() };
        let mut subject = restore(&*self.subject.fs, &top, &moment, self.now, &batch).await;
        if let Ok(RestoreResult { commit: Some(commit), .. }) = &mut subject {
            is_durable(&*self.subject.fs, commit)?;
        }
        let model = restore(&self.model, &top, &moment, self.now, &batch).await;
        let commit = |restored: RestoreResult| (restored.commit, restored.plan.changes);
        self.tally.ops += 1;
        let Some((commit, _)) = same("a restore", subject.map(commit), model.map(commit))? else {
            self.tally.refused += 1;
            return Ok(());
        };
        self.tally.commits += u64::from(commit.is_some());
        self.tally.checks += 1;
        let due = match due {
            // Content that is gone, and that the restore did not need.
            Err(error) if error.is(ErrorKind::Gone) => return self.tree().await,
            due => due.map_err(told)?,
        };
        let found = shape(&self.model, &top, now).await.map_err(told)?;
        // Larger files are restored again without a comparison.
        let compared = due.iter().all(|shape| shape.size <= MAX_COMPARED);
        same(&format!("{path} restored to {moment:?}"), Ok(found), Ok(due))?;
        // An expired entry that the commit meets ends under all its names, which changes their directories.
        let changes = match &commit {
            Some(commit) => self.model.changes_of(commit.seq).await.map_err(told)?.changes,
            None => Vec::new(),
        };
        if !changes.iter().any(|change| change.kind == ChangeKind::Expired) {
            same_outside(&top, &before, &tree_with_content(&self.model).await?)?;
        }
        if !compared {
            return self.tree().await;
        }
        // A second restore must find nothing to do.
        let again = restore(&self.model, &top, &moment, self.now, &batch).await.map_err(told)?;
        match again.commit {
            None => self.tree().await,
            Some(_) => Err(format!("{path} was restored to {moment:?}, and again: {:?}", again.plan)),
        }
    }

    async fn version(&mut self, path: &str, part: u64) -> Checked {
        let page = HistoryPage::default().limit(1000);
        let Ok(versions) = self.model.history(&at(path), &page).await else { return Ok(()) };
        let versions = versions.items;
        let Some(index) = (versions.len() as u64).checked_sub(1).map(|last| last * part / WHOLE) else {
            return Ok(());
        };
        self.tally.checks += 1;
        let id = versions[usize::try_from(index).expect("an index")].id;
        match (self.subject.fs.open_version(id).await, self.model.open_version(id).await) {
            (Ok(subject), Ok(model)) => {
                same("the entry of a version", subject.stat().await, model.stat().await)?;
                let length = 2 << 20;
                let (read, expected) = (subject.read_at(0, length).await, model.read_at(0, length).await);
                same("the content of a version", read, expected)?;
                same("the holes of a version", subject.next_hole(0).await, model.next_hole(0).await)?;
            }
            (subject, model) => {
                same("open_version", subject.map(|_| ()), model.map(|_| ()))?;
            }
        }
        Ok(())
    }

    async fn snapshots(&mut self, seconds: i64) -> Checked {
        self.tally.checks += 1;
        let (subject, model) = (&*self.subject.fs, &self.model);
        let all = same("snapshots", snapshots(subject).await, snapshots(model).await)?.unwrap_or_default();
        let mut moments =
            vec![Moment::Time(START.plus_seconds(seconds)), Moment::Snapshot("none".to_owned())];
        moments.extend(all.into_iter().map(|snapshot| Moment::Snapshot(snapshot.name)));
        for moment in moments {
            match (subject.as_of(&moment).await, model.as_of(&moment).await) {
                (Ok(subject), Ok(model)) => {
                    same("the head of a moment", subject.head().await, model.head().await)?;
                    same_tree(&*subject, &*model).await?;
                }
                (subject, model) => {
                    same("as_of a moment", subject.map(|_| ()), model.map(|_| ()))?;
                }
            }
        }
        Ok(())
    }
}

/// Checks that a commit is durable exactly if the filesystem can be, and clears the flag: the model cannot be
/// durable, so the flag is not compared.
fn is_durable(fs: &Fs, commit: &mut Commit) -> Checked {
    match std::mem::take(&mut commit.durable) == can(fs).durable {
        true => Ok(()),
        false => Err(format!("commit {} says the wrong thing about being durable", commit.seq)),
    }
}
