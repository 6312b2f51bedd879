//! Random operations on few names, so that they collide.

use garth_engine::model::{Op, SetAttrs, Special, Timestamp};

use crate::data::random::Random;
use crate::tools::p;

/// One step of an episode.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Operations in one batch; one after the other on the kernel.
    Batch(Vec<Op>),
    /// Opens both trees again on their present layers.
    Again,
}

/// First second of clock times: 2020-01-01. Times that steps set are before it.
pub(super) const NOW: i64 = 1_577_836_800;
/// First time that a step sets, in seconds: 2001-09-09.
const THEN: i64 = 1_000_000_000;

/// Returns operations that fill the lower layer. None of them removes anything.
pub(super) fn lower(rng: &mut Random, count: usize) -> Vec<Op> {
    (0..count).map(|_| making(rng)).collect()
}

/// Returns the steps of an episode.
pub(super) fn steps(rng: &mut Random, count: usize) -> Vec<Step> {
    (0..count).map(|_| step(rng)).collect()
}

fn step(rng: &mut Random) -> Step {
    if rng.one_in(40) {
        return Step::Again;
    }
    let many = if rng.one_in(4) { 2 + rng.below(3) } else { 1 };
    Step::Batch(
        (0..many)
            .map(|_| match rng.below(20) {
                0..8 => making(rng),
                // Alone, because copying up later in the batch would change the time of a directory again.
                8..10 if many == 1 => setting(rng),
                _ => changing(rng),
            })
            .collect(),
    )
}

fn making(rng: &mut Random) -> Op {
    let at = p(&path(rng));
    match rng.below(14) {
        0..4 => Op::write(at, text(rng)),
        4..9 => Op::mkdir(at),
        9 => Op::symlink(at, rng.pick(&["a", "../b", "/c", "nowhere"])),
        10 => Op::mknod(at, Special::Fifo),
        11 => Op::append(at, text(rng)),
        _ => Op::link(p(&path(rng)), at),
    }
}

fn changing(rng: &mut Random) -> Op {
    let at = p(&path(rng));
    match rng.below(29) {
        0..2 => Op::append(at, text(rng)),
        2..4 => Op::patch(at, rng.below(40), text(rng)),
        4..6 => Op::truncate(at, rng.below(40)),
        6..10 => Op::remove_file(at),
        10..12 => Op::remove_dir(at),
        12..15 => Op::remove_tree(at),
        15 => Op::remove(at),
        16..23 => Op::rename(at, p(&path(rng))),
        23 => Op::rename(at, p(&path(rng))).no_replace(),
        24..27 => Op::exchange(at, p(&path(rng))),
        _ => Op::set_attrs(at, SetAttrs::new().owner(1 + id(rng), 1 + id(rng))),
    }
}

fn setting(rng: &mut Random) -> Op {
    let at = if rng.one_in(10) { p("/") } else { p(&path(rng)) };
    match rng.below(3) {
        0 => Op::set_attrs(at, SetAttrs::new().mode(rng.pick(&[0o600, 0o640, 0o751]))),
        _ => Op::set_attrs(at, SetAttrs::new().mtime(time(rng))),
    }
}

fn id(rng: &mut Random) -> u32 {
    u32::from(rng.one_in(2))
}

/// Returns a time in the past, so that it differs from every time of the test's clock.
pub(super) fn time(rng: &mut Random) -> Timestamp {
    Timestamp((THEN + i64::from(u16::try_from(rng.below(60_000)).unwrap_or_default())) * 1_000_000_000)
}

fn text(rng: &mut Random) -> String {
    let letter = char::from(b'a' + u8::try_from(rng.below(26)).unwrap_or_default());
    let length = if rng.one_in(20) { 100_000 } else { 1 + rng.below(30) };
    letter.to_string().repeat(usize::try_from(length).unwrap_or_default())
}

/// Returns a path of one to three names.
fn path(rng: &mut Random) -> String {
    let depth = 1 + rng.below(3);
    (0..depth).map(|_| format!("/{}", rng.pick(&["a", "b", "c"]))).collect()
}
