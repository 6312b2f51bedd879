//! Power cuts under batches on a host folder. Acknowledged batches must exist completely; of the batch in
//! flight the first operations may exist, each of them atomically, except for those that change a file in
//! place.

mod folder_state;
mod random_batches;

use std::io::stdin;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::model::{Batch, Body, MAX_PAGE, Op, Page, SetAttrs};
use garth_engine::{Env, FileSystem};

use self::folder_state::State;
use self::random_batches::{Drawn, Step, Work, time, top};
use super::Disk;
use crate::data::random::Random;
use crate::proof::{About, Broken, Proof, Proven, Report, Setting, Worker, at, hold, run, say};

/// Folder on the disk that loses its power.
const FOLDER: &str = "folder";
/// File of another program.
const OTHER: &str = "other";
/// Folder of unfinished files of the engine, and the files in it that may stay.
const SCRATCH: &str = ".garth-tmp";
const LOCK: &str = "lock";
const STAGED: &str = "staged-";
/// Longer contents are staged first, in bytes: a cut may come between the upload and its commit.
const UPLOADED: u64 = 64 << 10;
/// Limit on the acknowledgements before a cut, and on the time after the last of them, in microseconds. One
/// of four cuts comes right after an acknowledgement.
const HEARD: u64 = 24;
const LONGEST: u64 = 30_000;

/// Power cuts under a host folder. Needs root.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostCuts {
    /// `GARTH_FAULT` of the writing process: a negative control.
    pub fault: Option<&'static str>,
}

impl Proof for HostCuts {
    fn about(&self) -> About {
        About {
            name: "host-cuts",
            claim: "A power cut loses no acknowledged batch, and leaves a prefix of the one in flight.",
            full: 500,
            ci: 24,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        cut(&setting.worker(), setting.size, setting.seed, self.fault)
    }
}

/// Counts of a run.
const COUNTS: [&str; 5] = [
    "power cuts",
    "batches answered and kept",
    "cuts inside a batch",
    "cuts inside a change in place",
    "cuts that left something unfinished",
];

/// Runs in the child: commits the batches of a round until the power is cut. Prints `done` for each, `late`
/// for one that started after the cut, and at the end the failure of the next.
pub(crate) fn commit_until_cut(folder: &Path, seed: u64, round: u64) -> Proven<()> {
    let (env, clock) = Env::manual(time(round, 0));
    let fs = HostFs::open(folder, Mode::Writable, env)?;
    let cut = Arc::new(AtomicBool::new(false));
    // The parent reports the cut on stdin, because only it knows when the cut was made.
    let told = Arc::clone(&cut);
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = stdin().read_line(&mut line);
        told.store(true, Ordering::Release);
    });
    say("ready")?;
    run(async {
        let mut work = Work::new(seed, round)?;
        loop {
            let drawn = work.next().await?;
            clock.set(work.time());
            // Read before the commit starts: a commit that started earlier may be acknowledged during the
            // cut.
            let late = cut.load(Ordering::Acquire);
            match commit(&*fs, drawn).await {
                Ok(()) => say(if late { "late" } else { "done" })?,
                Err(error) => return say(&format!("failed: {error}")),
            }
        }
    })
}

async fn commit(fs: &dyn FileSystem, Drawn { durable, steps }: Drawn) -> Proven<()> {
    let mut ops = Vec::new();
    for Step { mut op, .. } in steps {
        if let Op::Write { at, body, .. } | Op::Append { at, body, .. } | Op::Patch { at, body, .. } = &mut op
            && let Body::Bytes(bytes) = &*body
            && body.size() > UPLOADED
        {
            let mut upload = fs.stage(at).await?;
            upload.write(bytes.clone()).await?;
            *body = Body::Staged(upload.finish().await?);
        }
        ops.push(op);
    }
    let batch = Batch::new(ops);
    fs.commit(if durable { batch } else { batch.visible() }).await?;
    Ok(())
}

/// Cuts the power `rounds` times under a process that commits batches, and compares the data with the
/// acknowledged and attempted batches. Needs root. `fault` is the `GARTH_FAULT` of that process: a negative
/// control.
///
/// # Errors
/// Lost, partial or disordered data.
fn cut(binary: &Path, rounds: u64, seed: u64, fault: Option<&str>) -> Proven<Report> {
    let mut disk = Disk::new().map_err(Broken::because)?;
    let folder = disk.mount_point().join(FOLDER);
    std::fs::create_dir(&folder)?;
    // The folder itself must survive the first cut.
    std::fs::File::open(disk.mount_point())?.sync_all()?;
    let (mut random, mut report, mut left) = (Random::new(seed), Report::of(COUNTS), Vec::new());
    for round in 0..rounds {
        let told = |why: Broken| Broken::because(format!("seed {seed}, round {round}: {why}"));
        let (answered, unsure) =
            cut_once(&mut disk, binary, &folder, seed, round, fault, &mut random).map_err(told)?;
        report.add("power cuts", 1);
        report.add("batches answered and kept", answered);
        report.add("cuts that left something unfinished", u64::from(!unfinished(&folder)?.is_empty()));
        // Opening removes unfinished files, which `unfinished` checks below.
        let fs = HostFs::open(&folder, Mode::Writable, Env::system())?;
        let found = run(async {
            let found = State::of(&*fs, &top(round)?).await?;
            let expected = Expected::new(seed, round, answered, unsure).await?;
            expected.check(&found, &mut report)?;
            alone(&*fs, round).await?;
            Ok(found)
        });
        left.push((top(round)?, found.map_err(told)?));
        let rest = unfinished(&folder)?;
        hold(rest.is_empty(), || format!("{rest:?} are kept though the folder was opened again"))
            .map_err(told)?;
    }
    let fs = HostFs::open(&folder, Mode::ReadOnly, Env::system())?;
    run(async {
        for (top, then) in &left {
            let now = State::of(&*fs, top).await?;
            hold(now == *then, || format!("{top} was changed by later rounds:{}", now.beside(then)))?;
        }
        Ok(())
    })?;
    Ok(report)
}

/// Starts the writing process and cuts the power. Returns the number of batches acknowledged before the cut,
/// and of those acknowledged during it, which a real machine would not have reported.
fn cut_once(
    disk: &mut Disk,
    binary: &Path,
    folder: &Path,
    seed: u64,
    round: u64,
    fault: Option<&str>,
    random: &mut Random,
) -> Proven<(u64, u64)> {
    let folder = folder.to_str().ok_or_else(|| Broken::because("the folder's path is no text"))?;
    let arguments = ["host-cuts", folder, &seed.to_string(), &round.to_string()];
    let mut child = Worker::start_broken(binary, &arguments, fault)?;
    let answered = 1 + random.below(HEARD);
    for _ in 0..answered {
        let line = child.hear()?;
        hold(line == "done", || format!("the writer said `{line}` before the cut"))?;
    }
    if !random.one_in(4) {
        Env::system().sleep(Duration::from_micros(random.below(LONGEST)));
    }
    if random.one_in(2) {
        // The sync of another program brings merely visible changes to disk: the names, but not yet all
        // contents.
        std::fs::File::create(disk.mount_point().join(OTHER))?.sync_all()?;
    }
    disk.cut().map_err(Broken::because)?;
    // It may have failed and ended already.
    let _ = child.tell("cut");
    let mut unsure = 0;
    loop {
        match child.hear()?.as_str() {
            "done" => unsure += 1,
            // The first commit after the cut fails, which ends the child.
            line if line.starts_with("failed") => break,
            line => return Err(Broken::because(format!("the writer said `{line}` after the cut"))),
        }
    }
    drop(child);
    disk.restore().map_err(Broken::because)?;
    Ok((answered, unsure))
}

/// Returns the unfinished files of a folder, without uploads, which are kept for a day.
fn unfinished(folder: &Path) -> Proven<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.join(SCRATCH))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != LOCK && !name.starts_with(STAGED) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Fails if the root contains anything but the directories of rounds.
async fn alone(fs: &dyn FileSystem, round: u64) -> Proven<()> {
    let listing = fs.list(&at("/")?, &Page::default().limit(MAX_PAGE)).await?;
    let strange = |name: &str| {
        let number = name.strip_prefix("round-").and_then(|number| number.parse::<u64>().ok());
        number.is_none_or(|number| number > round)
    };
    let strange: Vec<_> = listing.items.iter().filter(|item| strange(item.name.as_str())).collect();
    hold(strange.is_empty(), || format!("the root shows {strange:?}"))
}

/// States that a cut may leave, from the acknowledged ones to the attempted ones.
struct Expected {
    before: State,
    steps: Vec<Step>,
    /// Number of steps up to the end of each batch.
    ends: Vec<usize>,
    answered: u64,
}

impl Expected {
    async fn new(seed: u64, round: u64, answered: u64, unsure: u64) -> Proven<Self> {
        let mut work = Work::new(seed, round)?;
        let (mut before, mut steps, mut ends) = (State::default(), Vec::new(), vec![0]);
        // The last one may have been in flight.
        for number in 1..=answered + unsure + 1 {
            let drawn = work.next().await?;
            steps.extend(drawn.steps);
            ends.push(steps.len());
            // A durable batch makes all earlier visible ones durable.
            if number <= answered && drawn.durable {
                before = steps.pop().and_then(|mut step| step.states.pop()).unwrap_or(before);
                (steps, ends) = (Vec::new(), vec![0]);
            }
        }
        Ok(Self { before, steps, ends, answered })
    }

    fn check(&self, found: &State, report: &mut Report) -> Proven<()> {
        if *found == self.before {
            return Ok(());
        }
        let mut before = &self.before;
        for (number, step) in self.steps.iter().enumerate() {
            let in_place = before.changed_in_place(&step.op);
            for (place, state) in step.states.iter().enumerate() {
                if found == state {
                    // A cut at the end of a batch does not interrupt any.
                    let whole = place + 1 == step.states.len() && self.ends.contains(&(number + 1));
                    report.add("cuts inside a batch", u64::from(!whole));
                    return Ok(());
                }
                if in_place.as_ref().is_some_and(|change| found.is_between(before, state, change)) {
                    report.add("cuts inside a batch", 1);
                    report.add("cuts inside a change in place", 1);
                    return Ok(());
                }
                before = state;
            }
        }
        let states = self
            .steps
            .iter()
            .enumerate()
            .flat_map(|(number, step)| step.states.iter().map(move |state| (number + 1, state)));
        let nearest = states.chain([(0, &self.before)]);
        // The state with the fewest differences explains the failure best.
        let nearest = nearest.min_by_key(|(_, state)| found.differences(state).len());
        let (number, state) = nearest.unwrap_or((0, &self.before));
        let ops: Vec<_> = self.steps.iter().map(|step| brief(&step.op)).collect();
        Err(Broken::because(format!(
            "what is there is no state that {} answered batches leave and the operations behind the last \
             durable one: {ops:#?}\nNearest is that behind {number} of them:{}",
            self.answered,
            found.beside(state),
        )))
    }
}

/// Returns an operation as text, without its content.
fn brief(op: &Op) -> String {
    let mut op = op.clone();
    let mut bytes = 0;
    if let Op::Write { body, .. } | Op::Append { body, .. } | Op::Patch { body, .. } = &mut op {
        bytes = body.size();
        *body = Body::from(String::new());
    }
    let op = format!("{op:?}").replace(&format!("{:?}", SetAttrs::default()), "-");
    format!("{op}, {bytes} bytes")
}
