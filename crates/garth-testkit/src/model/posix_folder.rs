//! Model test on a host folder, within the limits of POSIX. Steps that a folder does not support are omitted,
//! operations are committed one by one, because a folder keeps the completed part of a failed batch, and
//! times, versions and inodes are not compared, because they are those of the host.

use std::fmt::Debug;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{At, Batch, Body, ByteRange, Entry, Kind, Op, Page, SetAttrs, Special, WalkPage};
use garth_engine::rule::Registry;
use garth_engine::{FileSystem, Result};

use super::comparisons::{Checked, same};
use super::part_of_tree::confine;
use super::player::BYTES;
use super::steps::{self, OpSpec, Step, episode_of};
use super::{EPISODE, Failure, ModelConfig, Stats};
use crate::subject::{START, Subject};
use crate::tools::{Fs, at};

/// Largest file that is read completely.
const SMALL: u64 = 200 << 10;
/// Number of last steps that a failure prints.
const TOLD: usize = 40;

/// Plays random steps on fresh folders until `config.ops` operations were applied.
///
/// # Errors
/// The first difference, with the steps before it.
///
/// # Panics
/// If called inside an async runtime: it brings its own.
pub fn on_host(config: ModelConfig) -> Result<Stats, Box<Failure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime starts");
    runtime.block_on(async {
        let mut stats = Stats::default();
        while stats.ops < config.ops {
            let mut rng = episode_of(config.seed, stats.episodes);
            let (env, clock) = Subject::clock();
            let mut sides = Sides { subject: Subject::host(), model: MemoryFs::new(env, Registry::empty()) };
            let (mut now, mut told) = (START, Vec::new());
            for number in 0..EPISODE {
                let step = if number == 0 { steps::first() } else { steps::random(&mut rng) };
                if let Step::Clock(seconds) = &step {
                    now = now.plus_seconds(*seconds);
                    clock.set(now);
                    sides.subject.clock.set(now);
                }
                told.push(super::brief(&step));
                if let Err(message) = sides.step(step, &mut stats).await {
                    let steps = told.split_off(told.len().saturating_sub(TOLD));
                    let (seed, episode) = (config.seed, stats.episodes);
                    return Err(Box::new(Failure { seed, episode, message, steps }));
                }
            }
            stats.episodes += 1;
        }
        Ok(stats)
    })
}

struct Sides {
    subject: Subject,
    model: MemoryFs,
}

impl Sides {
    async fn step(&mut self, step: Step, stats: &mut Stats) -> Checked {
        match step {
            Step::Commit(batch) => {
                for spec in batch.ops {
                    if let OpSpec::Op(op, _) = spec
                        && let Some(op) = supported(*op)
                    {
                        self.commit(op, stats).await?;
                    }
                }
                Ok(())
            }
            Step::Reopen => {
                if let Some(reopen) = &self.subject.reopen {
                    self.subject.fs = reopen().await.fs;
                    stats.reopened += 1;
                }
                self.tree(stats).await
            }
            Step::Tree | Step::Remember => self.tree(stats).await,
            Step::Path(path, offset, length) => {
                stats.checks += 1;
                let (subject, model, place) = (&*self.subject.fs, &self.model, at(&path));
                same("stat", lite(subject, &place).await, lite(model, &place).await)?;
                let range = ByteRange { offset, length };
                same("a range", subject.read(&place, range).await, model.read(&place, range).await).map(drop)
            }
            Step::Pages(dir, limit, after) => {
                stats.checks += 1;
                let after = garth_engine::Name::parse(after.rsplit('/').next().unwrap_or_default()).ok();
                let page = Page::default().limit(limit).after(after);
                let dir = at(if dir.is_empty() { "/" } else { &dir });
                let names = async |fs: &Fs| {
                    let listing = fs.list(&dir, &page).await?;
                    let items = listing.items.into_iter().map(|item| (item.name, item.kind));
                    Ok((items.collect::<Vec<_>>(), listing.more))
                };
                same("a page", names(&*self.subject.fs).await, names(&self.model).await).map(drop)
            }
            _ => Ok(()),
        }
    }

    async fn commit(&self, mut op: Op, stats: &mut Stats) -> Checked {
        // Linux has no mode of symbolic links.
        if let Op::SetAttrs { at, attrs } = &mut op
            && self.model.stat(at).await.is_ok_and(|entry| entry.kind == Kind::Symlink)
        {
            attrs.mode = None;
        }
        let mut batches = [(); 2].map(|()| Batch::new([op.clone()]).visible());
        confine(&mut batches, stats.commits + stats.refused);
        let [to_subject, to_model] = batches;
        let sides: [(&Fs, Batch); 2] = [(&*self.subject.fs, to_subject), (&self.model, to_model)];
        let mut answers = Vec::with_capacity(2);
        for (fs, mut batch) in sides {
            with_body(fs, &mut batch.ops[0]).await;
            let told = |commit: garth_engine::model::Commit| {
                commit.outcomes.iter().map(|it| (it.created, it.size)).collect::<Vec<_>>()
            };
            answers.push(fs.commit(batch).await.map(told));
        }
        stats.ops += 1;
        let (Some(model), Some(subject)) = (answers.pop(), answers.pop()) else { return Ok(()) };
        match same(&format!("{op:?}"), subject, model)? {
            Some(_) => stats.commits += 1,
            None => stats.refused += 1,
        }
        Ok(())
    }

    async fn tree(&self, stats: &mut Stats) -> Checked {
        stats.checks += 1;
        let (subject, model) = (all(&*self.subject.fs).await, all(&self.model).await);
        if let (Ok(subject), Ok(model)) = (&subject, &model) {
            // A single item is easier to read than a complete tree.
            for (item, due) in subject.iter().zip(model) {
                same("an item of the tree", Ok(item), Ok(due))?;
            }
        }
        same("the tree", subject, model).map(drop)
    }
}

/// Returns the operation as far as a folder supports it; `None` if it does not.
fn supported(mut op: Op) -> Option<Op> {
    match &mut op {
        Op::Write { attrs, .. } | Op::Mkdir { attrs, .. } | Op::SetAttrs { attrs, .. } => posix(attrs),
        Op::Symlink { attrs, .. } => *attrs = SetAttrs::default(),
        Op::Mknod { node: Special::Fifo | Special::Socket, attrs, .. } => posix(attrs),
        // Devices require privileges.
        Op::Mknod { .. } => return None,
        // A folder has no past.
        Op::Copy { as_of, .. } => *as_of = None,
        Op::Punch { .. } | Op::CopyRange { .. } | Op::Snapshot { .. } | Op::DropSnapshot { .. } => {
            return None;
        }
        _ => {}
    }
    Some(op)
}

/// Reduces attributes to those that a folder stores, with all permissions for the owner.
fn posix(attrs: &mut SetAttrs) {
    *attrs = SetAttrs {
        // Without permissions for the owner, the test itself could not read the file.
        mode: attrs.mode.map(|mode| mode & 0o777 | 0o700),
        mtime: attrs.mtime,
        ..SetAttrs::default()
    };
}

/// Replaces a drawn body by its bytes, staged from time to time.
async fn with_body(fs: &Fs, op: &mut Op) {
    let (Op::Write { at: place, body, .. }
    | Op::Append { at: place, body, .. }
    | Op::Patch { at: place, body, .. }) = op
    else {
        return;
    };
    let Body::Staged(spec) = body.clone() else { return };
    let start = usize::try_from(spec.id).expect("below 1,000");
    let bytes = BYTES.slice(start..start + usize::try_from(spec.size).expect("1 MiB at most"));
    *body = if spec.id % 16 == 0 {
        let mut upload = fs.stage(place).await.expect("an upload starts");
        upload.write(bytes).await.expect("an upload goes on");
        Body::Staged(upload.finish().await.expect("an upload ends"))
    } else {
        Body::Bytes(bytes)
    };
}

/// Kind, permissions, size, names and target.
type Lite = (Kind, u32, u64, u64, Option<String>);

fn of(entry: Entry) -> Lite {
    // Links have no mode of their own, and filesystems count directories in different ways.
    let mode = if entry.kind == Kind::Symlink { 0 } else { entry.mode };
    let names = if entry.kind == Kind::Directory { 0 } else { entry.nlink };
    (entry.kind, mode, entry.size, names, entry.target)
}

async fn lite(fs: &Fs, at: &At) -> Result<Lite> {
    fs.stat(at).await.map(of)
}

/// Returns the complete tree, with the content of small files.
async fn all(fs: &Fs) -> Result<Vec<impl PartialEq + Debug + use<>>> {
    let walk = fs.walk(&at("/"), &WalkPage::default().limit(10_000).with_entries()).await?;
    let mut all = Vec::with_capacity(walk.items.len());
    for item in walk.items {
        let entry = item.entry.map(|entry| of(*entry));
        let whole = entry.as_ref().is_some_and(|entry| entry.0 == Kind::File && entry.2 < SMALL);
        let place = At::Path(item.path.clone());
        let content = if whole { Some(fs.read(&place, ByteRange::ALL).await?) } else { None };
        all.push((item.path, entry, content));
    }
    Ok(all)
}
