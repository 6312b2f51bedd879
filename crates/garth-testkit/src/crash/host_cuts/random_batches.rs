//! Batches of a round. They follow from the seed and the round alone, so that the check knows what the child
//! attempted, and the state of the tree after each operation.

use bytes::Bytes;
use garth_engine::engine::memory::MemoryFs;
use garth_engine::env::ManualClock;
use garth_engine::model::{Batch, Kind, Op, SetAttrs, Special, Timestamp};
use garth_engine::rule::Registry;
use garth_engine::{Env, FileSystem, TreePath};

use super::folder_state::State;
use crate::data::random::Random;
use crate::proof::{Broken, Proven, path};
use crate::reference::file_content::content;
use crate::subject::START;

/// Limit on the operations of a batch.
const OPS: u64 = 8;
/// One batch in this many is only visible.
const VISIBLE: u64 = 3;
/// Names in a directory, and the depth of directories: few, so that operations collide.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const DEPTH: u64 = 3;
/// Seconds between rounds: more than a round has batches.
const APART: i64 = 100_000;

/// Returns the directory of a round.
pub(super) fn top(round: u64) -> Proven<TreePath> {
    path(&format!("/round-{round}"))
}

/// Returns the time of a batch.
pub(super) fn time(round: u64, batch: u64) -> Timestamp {
    START.plus_seconds(round.cast_signed() * APART + batch.cast_signed())
}

/// An operation, and the states that the tree may have during it and after it, in this order.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) op: Op,
    pub(super) states: Vec<State>,
}

/// Batches of a round, one after the other.
pub(super) struct Work {
    model: MemoryFs,
    clock: ManualClock,
    random: Random,
    round: u64,
    top: TreePath,
    batches: u64,
    ops: u64,
    now: State,
}

/// A batch and its steps.
#[derive(Debug)]
pub(super) struct Drawn {
    pub(super) durable: bool,
    pub(super) steps: Vec<Step>,
}

impl Work {
    pub(super) fn new(seed: u64, round: u64) -> Proven<Self> {
        let (env, clock) = Env::manual(START);
        let model = MemoryFs::new(env, Registry::empty());
        let random = Random::new(seed ^ round.wrapping_mul(0xA076_1D64_78BD_642F));
        let (top, now) = (top(round)?, State::default());
        Ok(Self { model, clock, random, round, top, batches: 0, ops: 0, now })
    }

    /// Returns the time of the present batch.
    pub(super) fn time(&self) -> Timestamp {
        time(self.round, self.batches)
    }

    /// Returns the next batch. The first one creates the directory of the round.
    pub(super) async fn next(&mut self) -> Proven<Drawn> {
        self.batches += 1;
        self.clock.set(self.time());
        if self.batches == 1 {
            let first = self.play(Op::mkdir(&self.top)).await?.ok_or_else(refused)?;
            // Durable, so that the directory of the round exists in any case.
            return Ok(Drawn { durable: true, steps: vec![first] });
        }
        let (durable, mut steps) = (!self.random.one_in(VISIBLE), Vec::new());
        for _ in 0..1 + self.random.below(OPS) {
            steps.push(self.step(durable).await?);
        }
        Ok(Drawn { durable, steps })
    }

    /// Draws an operation that the model accepts. A merely visible one changes no file in place: a cut may
    /// leave such a file in any state since the change.
    async fn step(&mut self, durable: bool) -> Proven<Step> {
        loop {
            self.ops += 1;
            let (at, op) = self.draw()?;
            if !durable && self.now.changed_in_place(&op).is_some() {
                continue;
            }
            let missing = self.missing(&at)?;
            if missing.is_empty() {
                if let Some(step) = self.play(op).await? {
                    return Ok(step);
                }
                continue;
            }
            // Missing parents are created one by one.
            let (Op::Write { .. } | Op::Append { .. } | Op::Mkdir { .. } | Op::Symlink { .. }) = op else {
                continue;
            };
            let mut states = Vec::new();
            for parent in missing {
                states.append(&mut self.play(Op::mkdir(&parent)).await?.ok_or_else(refused)?.states);
            }
            let step = self.play(op).await?.ok_or_else(refused)?;
            states.extend(step.states);
            return Ok(Step { op: step.op.with_parents(), states });
        }
    }

    /// Plays an operation on the model; `None` if it is rejected or changes nothing.
    async fn play(&mut self, op: Op) -> Proven<Option<Step>> {
        let Ok(commit) = self.model.commit(Batch::new([op.clone()])).await else { return Ok(None) };
        // An operation without an effect would make two states of the list equal.
        if commit.outcomes.iter().any(|outcome| !outcome.changed) {
            return Ok(None);
        }
        self.now = State::of(&self.model, &self.top).await?;
        Ok(Some(Step { op, states: vec![self.now.clone()] }))
    }

    /// Returns the missing directories above a path, from the top down; none if something else has one of
    /// their names, so that the model rejects the operation.
    fn missing(&self, at: &TreePath) -> Proven<Vec<TreePath>> {
        let mut missing = Vec::new();
        let mut here = at.parent();
        while let Some(dir) = here {
            match self.now.kind(&dir) {
                Some(Kind::Directory) => break,
                Some(_) => return Ok(Vec::new()),
                None => missing.push(dir.clone()),
            }
            here = dir.parent();
        }
        missing.reverse();
        Ok(missing)
    }

    /// Draws an operation, and returns it with the path that it creates or changes.
    fn draw(&mut self) -> Proven<(TreePath, Op)> {
        let (at, other) = (self.place()?, self.place()?);
        let size = self.now.size(&at);
        let mode = [0o600, 0o644, 0o755, 0o1700][self.random.below(4) as usize];
        let op = match self.random.below(24) {
            0..5 => Op::write(&at, self.body()),
            5 => Op::write(&at, self.body()).with_attrs(SetAttrs { mode: Some(mode), ..SetAttrs::default() }),
            6..9 => Op::append(&at, self.body()),
            9 | 10 => Op::patch(&at, self.random.below(size + 1), self.body()),
            11 => Op::truncate(&at, self.random.below(size + 5_000)),
            12 | 13 => Op::mkdir(&at).with_attrs(SetAttrs { mode: Some(mode), ..SetAttrs::default() }),
            14 => Op::symlink(&at, format!("../{}", self.ops)),
            15 => Op::mknod(&at, Special::Fifo),
            16 => Op::link(&other, &at),
            17 => Op::remove(&at),
            18 => Op::remove_tree(&at),
            19 => Op::rename(&other, &at),
            20 => Op::exchange(&other, &at),
            21 => Op::copy_tree(&other, &at),
            22 => Op::copy(&other, &at).replace(),
            _ => {
                let time = START.plus_seconds(-1 - self.random.below(1_000_000).cast_signed());
                // Linux has no mode of symbolic links.
                let mode = (self.now.kind(&at) != Some(Kind::Symlink)).then_some(mode);
                Op::set_attrs(&at, SetAttrs { mode, mtime: Some(time), ..SetAttrs::default() })
            }
        };
        Ok((at, op))
    }

    /// Draws a path below the top, half of the time an existing one.
    fn place(&mut self) -> Proven<TreePath> {
        let there: Vec<_> = self.now.paths().filter(|path| **path != self.top).cloned().collect();
        if !there.is_empty() && self.random.one_in(2) {
            return Ok(self.random.pick(&there));
        }
        let mut text = self.top.to_string();
        for _ in 0..1 + self.random.below(DEPTH) {
            text = format!("{text}/{}", self.random.pick(&NAMES));
        }
        path(&text)
    }

    /// Returns bytes that no other operation writes.
    fn body(&mut self) -> Bytes {
        let most = self.random.pick(&[100, 5_000, 50_000, 300_000]);
        let length = 1 + self.random.below(most) as usize;
        Bytes::from(content(self.random.next(), 0, length))
    }
}

fn refused() -> Broken {
    Broken::because("the model refuses a directory that is not there")
}
