//! Steps of a model run and their distribution: few names in few directories, so that they collide.

use std::collections::BTreeMap;

use garth_engine::model::{
    Body, Create, Op, Remove, RenameMode, Seq, SetAttrs, Special, StagedBody, Timestamp,
};
use garth_engine::rule::retention::Retention;

use super::retention;
use super::rules::DRAWN;
use crate::data::random::Random;
use crate::subject::START;
use crate::tools::at;

/// Increment of [`Random`].
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the random numbers of one episode of a run.
pub(super) fn episode_of(seed: u64, episode: u64) -> Random {
    // Mixed, so that neighbouring seeds and episodes have unrelated numbers.
    let mixed = Random::new(seed).next().wrapping_add(episode.wrapping_mul(STEP));
    Random::new(seed.wrapping_add(STEP) ^ mixed)
}

/// Handles that a run may hold open.
pub(super) const SLOTS: usize = 4;
/// Denominator of positions in the past, or among the versions of a name: they are drawn in thousandths.
pub(super) const WHOLE: u64 = 1000;

/// One step. It has a meaning whatever came before.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Commit(BatchSpec),
    /// Moves the clock by this many seconds; back, if negative.
    Clock(i64),
    Open(usize, String),
    Close(usize),
    /// Holds a node of any kind, instead of the one held before.
    Hold(usize, String),
    /// Compares a held node and its entries.
    Held(usize),
    ReadHandle(usize, u64, u64),
    Reopen,
    /// Collects garbage from another instance.
    Collect,
    /// Sets a retention, if given, and collects without a grace period. If true, drops the snapshots before,
    /// which hold the past.
    Retain(Option<Retention>, bool),
    /// Compares the complete tree with entries.
    Tree,
    /// Compares all reads of this path.
    Path(String, u64, u64),
    /// Compares pages of a directory and of the tree below it.
    Pages(String, usize, String),
    /// Compares the tree after a commit; with a path, only the history of that path.
    Past(u64, Option<String>),
    /// Remembers the present tree, to be compared with the past later.
    Remember,
    /// Compares a remembered tree with the past at its sequence number.
    Recall(u64),
    /// Restores a path to its state after a commit.
    Restore(String, u64),
    /// Compares the log after a commit, of everything or of a subtree.
    Changes(u64, Option<String>),
    History(String, usize),
    /// Compares one version of a path.
    Version(String, u64),
    Snapshots(i64),
    /// Sets a rule, forced or not, or removes all.
    Rule(Option<usize>, bool),
    /// Sets the quota of a path, or removes it.
    Quota(String, Option<Room>),
}

/// Room that a quota leaves beyond the present usage; negative if the usage exceeds it; `None` for no limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) bytes: Option<i64>,
    pub(super) entries: Option<i64>,
}

#[derive(Clone, Debug)]
pub(super) struct BatchSpec {
    pub(super) ops: Vec<OpSpec>,
    pub(super) condition: Option<(String, Holds)>,
    pub(super) id: Option<u64>,
    /// Key and request hash.
    pub(super) idempotency: Option<(u64, u8)>,
}

#[derive(Clone, Debug)]
pub(super) enum OpSpec {
    /// Bodies are [`StagedBody`]s that name the bytes to take; sequence numbers are in thousandths.
    Op(Box<Op>, By),
    Check(String, Holds),
}

/// Kind of address of the first path of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    Path,
    /// By the inode of the node, if it exists.
    Node,
    /// By name in the inode of the directory, if it exists.
    Child,
    /// By the node of an open handle, if it is open.
    Handle(usize),
    /// By the held node, or by a name in it.
    Held(usize),
}

/// A condition; true if it is meant to hold.
#[derive(Clone, Copy, Debug)]
pub(super) enum Holds {
    Absent,
    Exists,
    Version(bool),
    Etag(bool),
    EtagIn(bool),
    Sha256(bool),
    NotEtag(bool),
}

impl Step {
    /// Returns variants of the step with one part less.
    pub(super) fn simpler(&self) -> Vec<Self> {
        let Self::Commit(batch) = self else { return Vec::new() };
        let mut simpler = Vec::new();
        // A batch without operations would not be the failing step any more.
        if batch.ops.len() > 1 {
            for index in 0..batch.ops.len() {
                let mut fewer = batch.clone();
                fewer.ops.remove(index);
                simpler.push(fewer);
            }
        }
        if batch.condition.is_some() {
            simpler.push(BatchSpec { condition: None, ..batch.clone() });
        }
        if batch.id.is_some() {
            simpler.push(BatchSpec { id: None, ..batch.clone() });
        }
        if batch.idempotency.is_some() {
            simpler.push(BatchSpec { idempotency: None, ..batch.clone() });
        }
        simpler.into_iter().map(Self::Commit).collect()
    }
}

/// Directories of most names. In the last one files must be JSON, and directories may be created there.
const DIRECTORIES: [&str; 10] =
    ["", "", "/d", "/kv", "/d/kv", "/kv/d", "/d%", "/agents", "/agents/d", "/agents/d/kv"];
const NAMES: [&str; 6] = ["a", "b", "d_", "d", "kv", "d%"];
/// The first names mostly belong to files, the others mostly to directories; otherwise most batches would
/// fail.
const FILES: usize = 3;

/// Expected kind of the node at a path.
#[derive(Clone, Copy)]
enum Likely {
    File,
    Directory,
}

/// Returns a path whose name mostly fits; sometimes deeper than the directories, sometimes the root.
fn likely(rng: &mut Random, what: Likely) -> String {
    let names = match what {
        _ if rng.one_in(16) => &NAMES[..],
        Likely::File => &NAMES[..FILES],
        Likely::Directory => &NAMES[FILES..],
    };
    let path = format!("{}/{}", rng.pick(&DIRECTORIES), rng.pick(names));
    match rng.below(60) {
        0 => "/".to_owned(),
        1 | 2 => format!("{path}/{}", rng.pick(names)),
        _ => path,
    }
}

fn path(rng: &mut Random) -> String {
    format!("{}/{}", rng.pick(&DIRECTORIES), rng.pick(&NAMES))
}

/// Returns mostly a directory, so that there is something to restore; sometimes the root.
fn restored_path(rng: &mut Random) -> String {
    match rng.below(8) {
        0 => "/".to_owned(),
        1 => odd_path(rng),
        _ => likely(rng, Likely::Directory),
    }
}

fn odd_path(rng: &mut Random) -> String {
    let what = if rng.one_in(3) { Likely::Directory } else { Likely::File };
    likely(rng, what)
}

/// Returns sizes around the limits at which engines cut content, mostly small ones. Some are multiples of one
/// size, so that edits begin and end where others did.
fn size(rng: &mut Random) -> u64 {
    match rng.below(100) {
        0..30 => 64 * rng.below(4),
        30..60 => rng.below(200),
        60..85 => 4096 + rng.below(5) - 2,
        85..97 => 65_536 + rng.below(5) - 2,
        _ => (1 << 20) + rng.below(5) - 2,
    }
}

fn body(rng: &mut Random) -> Body {
    Body::Staged(StagedBody { id: u128::from(rng.below(1000)), size: size(rng) })
}

/// Returns cut points of an append: mostly around long content, rarely invalid.
fn cuts(rng: &mut Random, size: u64) -> Vec<u64> {
    let mut cuts: Vec<u64> = (0..rng.below(5)).map(|_| rng.below(size + 1)).collect();
    cuts.extend([rng.below(8), size.saturating_sub(rng.below(8))]);
    cuts.sort_unstable();
    cuts.dedup();
    match rng.below(24) {
        // Invalid: cut points must increase, and lie within the body.
        0 => cuts.reverse(),
        1 => cuts.push(size + 1),
        _ => cuts.retain(|cut| *cut <= size),
    }
    cuts
}

/// Returns the first step of every episode: it creates the directories of most names.
pub(super) fn first() -> Step {
    let mkdir = |dir| OpSpec::Op(Box::new(crate::tools::mkdir_all(dir)), By::Path);
    let ops = ["/d", "/kv", "/d/kv", "/kv/d", "/d%", "/agents/d/kv"].map(mkdir).to_vec();
    Step::Commit(BatchSpec { ops, condition: None, id: None, idempotency: None })
}

pub(super) fn random(rng: &mut Random) -> Step {
    match rng.below(1000) {
        0..712 => Step::Commit(batch(rng)),
        712..720 => Step::Retain((!rng.one_in(3)).then(|| retention::drawn(rng)), rng.one_in(2)),
        720..732 => rule(rng),
        732..740 => quota(rng),
        740..760 => Step::Restore(restored_path(rng), rng.below(WHOLE)),
        760..790 => Step::Clock(i64::try_from(rng.below(30)).expect("small")),
        // Rarely backwards: commit times must still increase.
        790..793 => Step::Clock(-3),
        793..808 => Step::Open(slot(rng), odd_path(rng)),
        808..812 => Step::Close(slot(rng)),
        812..820 => Step::Hold(slot(rng), odd_path(rng)),
        820..824 => Step::Held(slot(rng)),
        824..830 => Step::ReadHandle(slot(rng), size(rng), size(rng)),
        830..832 => Step::Reopen,
        832..834 => Step::Collect,
        834..860 => Step::Tree,
        860..870 => Step::Remember,
        870..880 => Step::Recall(rng.below(WHOLE)),
        880..930 => Step::Path(odd_path(rng), size(rng), size(rng)),
        930..945 => Step::Pages(rng.pick(&DIRECTORIES).to_owned(), 1 + slot(rng), path(rng)),
        945..955 => Step::Past(rng.below(WHOLE + 1), None),
        955..962 => Step::Past(rng.below(WHOLE + 1), Some(path(rng))),
        962..972 => Step::Changes(rng.below(WHOLE + 1), (!rng.one_in(3)).then(|| path(rng))),
        972..986 => Step::History(path(rng), 1 + usize::try_from(rng.below(60)).expect("small")),
        986..996 => Step::Version(path(rng), rng.below(WHOLE + 1)),
        _ => Step::Snapshots(i64::try_from(rng.below(5000)).expect("small")),
    }
}

/// Draws a rule or their removal. Rules reject much of what follows, so most are removed soon.
fn rule(rng: &mut Random) -> Step {
    let drawn = usize::try_from(rng.below(DRAWN)).expect("small");
    Step::Rule((!rng.one_in(2)).then_some(drawn), rng.one_in(2))
}

/// Draws a quota or its removal. Small quotas are soon full and block what follows, so most are removed
/// again.
fn quota(rng: &mut Random) -> Step {
    let path = match rng.pick(&DIRECTORIES) {
        "" => "/",
        dir => dir,
    };
    let number = |rng: &mut Random, most| i64::try_from(rng.below(most)).expect("small");
    let room = (!rng.one_in(2)).then(|| Room {
        bytes: rng.one_in(2).then(|| number(rng, 200_000) - 1000),
        entries: rng.one_in(2).then(|| number(rng, 12) - 1),
    });
    Step::Quota(path.to_owned(), room)
}

fn slot(rng: &mut Random) -> usize {
    usize::try_from(rng.below(SLOTS as u64)).expect("small")
}

fn batch(rng: &mut Random) -> BatchSpec {
    let length = if rng.one_in(6) { 2 + rng.below(3) } else { 1 };
    BatchSpec {
        ops: (0..length).map(|_| op(rng)).collect(),
        condition: rng.one_in(12).then(|| (odd_path(rng), holds(rng))),
        id: rng.one_in(40).then(|| rng.below(200)),
        idempotency: rng.one_in(40).then(|| (rng.below(5), u8::from(rng.one_in(4)))),
    }
}

fn holds(rng: &mut Random) -> Holds {
    // Most conditions hold, or most batches would be rejected.
    let right = !rng.one_in(4);
    rng.pick(&[
        Holds::Absent,
        Holds::Version(right),
        Holds::Version(right),
        Holds::Etag(right),
        Holds::Sha256(right),
        Holds::Exists,
        Holds::EtagIn(right),
        Holds::NotEtag(right),
    ])
}

fn op(rng: &mut Random) -> OpSpec {
    let kind = rng.below(116);
    let by = match rng.below(20) {
        0..15 => By::Path,
        15 | 16 => By::Child,
        // Operations that create or remove a name reject a node.
        _ if (46..61).contains(&kind) || (70..91).contains(&kind) && !rng.one_in(4) => By::Path,
        17 => By::Node,
        18 => By::Held(slot(rng)),
        _ => By::Handle(slot(rng)),
    };
    if kind < 2 {
        return OpSpec::Check(odd_path(rng), holds(rng));
    }
    let what = match kind {
        46..58 => Likely::Directory,
        70..98 if rng.one_in(4) => Likely::Directory,
        _ => Likely::File,
    };
    let place = at(&likely(rng, what));
    let parents = rng.one_in(3);
    let create = match rng.below(8) {
        0 => Create::Never,
        1 if rng.one_in(2) => Create::New,
        _ => Create::IfMissing,
    };
    let op = match kind {
        2..16 => Op::Write { at: place, body: body(rng), create, parents, attrs: attrs(rng, 4) },
        16..30 => {
            let body = body(rng);
            let cuts = if rng.one_in(3) { cuts(rng, body.size()) } else { Vec::new() };
            Op::Append { at: place, body, create, parents, cuts }
        }
        30..40 => Op::patch(place, size(rng) + size(rng), body(rng)),
        // Rarely very long, so that sparse files occur.
        40..46 => Op::truncate(place, if rng.one_in(100) { 1 << 40 } else { size(rng) }),
        46..58 => Op::Mkdir { at: place, parents: !rng.one_in(3), attrs: attrs(rng, 6) },
        58..60 => Op::Symlink { at: place, target: path(rng), parents, attrs: attrs(rng, 3) },
        60 => Op::Mknod { at: place, node: special(rng), parents, attrs: attrs(rng, 3) },
        61..70 => Op::Link { from: place, to: at(&likely(rng, what)), parents },
        70..79 => {
            let kinds = match what {
                Likely::File => [Remove::Any, Remove::File, Remove::File, Remove::File],
                Likely::Directory => [Remove::Any, Remove::Directory, Remove::File, Remove::Tree],
            };
            Op::Remove { at: place, what: rng.pick(&kinds), missing_ok: rng.one_in(4) }
        }
        79..91 => {
            let mode = rng.pick(&[
                RenameMode::Replace,
                RenameMode::Replace,
                RenameMode::NoReplace,
                RenameMode::Exchange,
            ]);
            Op::Rename { from: place, to: at(&likely(rng, what)), mode, parents }
        }
        91..98 => Op::Copy {
            from: place,
            as_of: rng.one_in(3).then(|| Seq(rng.below(WHOLE + 2))),
            to: at(&likely(rng, what)),
            recursive: !rng.one_in(8),
            replace: rng.one_in(2),
            parents,
        },
        98..105 => Op::set_attrs(place, attrs(rng, 1)),
        105..107 => Op::snapshot(format!("s{}", rng.below(12))),
        107 => Op::drop_snapshot(format!("s{}", rng.below(12))),
        108..111 => Op::punch(place, size(rng), if rng.one_in(8) { u64::MAX } else { size(rng) }),
        _ => {
            let length = if rng.one_in(8) { u64::MAX } else { size(rng) };
            Op::copy_range(place, size(rng), length, at(&likely(rng, what)), size(rng) + size(rng))
        }
    };
    OpSpec::Op(Box::new(op), by)
}

fn special(rng: &mut Random) -> Special {
    rng.pick(&[
        Special::Fifo,
        Special::Socket,
        Special::CharDevice(259),
        Special::BlockDevice(1 << 40),
        Special::Whiteout,
    ])
}

/// Returns attributes, in one of `chances` cases.
fn attrs(rng: &mut Random, chances: u64) -> SetAttrs {
    let mut attrs = SetAttrs::default();
    if !rng.one_in(chances) {
        return attrs;
    }
    // Sometimes in the past at the start.
    let seconds = i64::try_from(rng.below(20_000)).expect("small") - 5;
    match rng.below(8) {
        0 => attrs.mode = Some(u32::try_from(rng.below(0o10000)).expect("small")),
        1 => (attrs.uid, attrs.gid) = (Some(7), Some(8)),
        2 => attrs.mtime = Some(Timestamp(seconds)),
        3 => attrs.tags = Some(vec![rng.pick(&NAMES).to_owned(), "t".to_owned()]),
        4 => attrs.importance = Some(0.5),
        5 => {
            let value = (!rng.one_in(3)).then(|| "v".repeat(usize::try_from(rng.below(50)).expect("small")));
            attrs.metadata = BTreeMap::from([(rng.pick(&NAMES).to_owned(), value)]);
        }
        // The clock moves about 22,000 seconds in an episode.
        6 => attrs.expires_at = Some(Some(START.plus_seconds(seconds))),
        _ => attrs.expires_at = Some(None),
    }
    attrs
}
