//! Account of format 8 with very many names: it is opened and collected in little memory, and goes on after
//! the process was ended in the middle. The process is a separate one, whose peak memory the kernel reports.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, ByteRange, MAX_PAGE, Moment, Op, Seq, WalkPage};
use garth_engine::rule::retention::Retention;
use garth_engine::runtime::Runtime;
use garth_engine::runtime::failpoint::{Failure, MIGRATE};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem};
use rusqlite::Connection;

use super::subtrees::{TOGETHER, fill};
use super::{
    About, Broken, Proof, Proven, Report, Setting, account, at, closed, hold, path, peak_memory, remove, run,
    sound,
};

/// Limit on the peak memory of the process that opens and collects, in bytes.
pub const MOST_MEMORY: u64 = 100 << 20;
/// Commits that the log keeps.
const KEPT: u64 = 10;
/// One file in this many is written twice, so that a version of it ends.
const TWICE_EVERY: usize = 10;
/// Failpoints at which the process is ended, one after the other.
const ENDS: [&str; 3] = [MIGRATE, "fold-candidates", "fold-nodes"];
/// Argument of the worker for none of them.
const NO_END: &str = "-";
/// Largest account that `fsck` reads afterwards, in names: a larger one takes minutes.
const CHECKED: u64 = 100_000;

/// Format that the database of the account gets.
const OLD: i64 = 8;
/// Undoes the additions of formats 10 and 9, which are tables, columns and indexes.
const UNDO: &str = "
DROP INDEX lease_until;
DROP INDEX unnamed_doomed;
DROP INDEX pack_unused;
ALTER TABLE pack DROP COLUMN unused;
DROP INDEX idempotency_seq;
DROP TABLE past_lease;
DROP TABLE held;
DROP TABLE folded_author;
DROP TABLE author;
DROP TABLE fold_node;
DROP TABLE fold;
DROP TABLE replaced;
DROP TABLE content_gone;
DROP TABLE content_age;
DROP TABLE content_limit;
DROP TABLE retention;
ALTER TABLE head DROP COLUMN packed;
ALTER TABLE head DROP COLUMN queued;
ALTER TABLE head DROP COLUMN folded;
ALTER TABLE head DROP COLUMN oldest_since;
ALTER TABLE head DROP COLUMN oldest;
PRAGMA user_version = 8;
";

/// Upgrade of an account with many names. The size is the number of names.
#[derive(Clone, Copy, Debug)]
pub struct MigrateNames;

impl Proof for MigrateNames {
    fn about(&self) -> About {
        About {
            name: "migrate-names",
            claim: "An account of format 8 with many names is upgraded and collected in little memory, and goes on \
                    after its process was ended.",
            full: 1_000_000,
            ci: 20_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let head = make_old(setting.folder, setting.size)?;
        let mut report = Report::of(["names", "processes ended", "bytes of peak memory"]);
        for end in ENDS {
            let out = open_in_worker(setting, end)?;
            // An abort ends the process by a signal, so it has no exit code.
            hold(out.status.code().is_none(), || {
                format!("the process did not end at {end}: {}", said(&out))
            })?;
            if end == MIGRATE {
                let format = format_of(setting.folder)?;
                hold(format == OLD, || {
                    format!("a process that ended while it upgraded left format {format}")
                })?;
            }
            report.add("processes ended", 1);
        }
        let said = said(&open_in_worker(setting, NO_END)?);
        let parsed =
            said.split_once(' ').and_then(|(peak, told)| Some((peak.parse().ok()?, told.to_owned())));
        let (peak, told): (u64, String) = parsed.ok_or_else(|| Broken::because(said))?;
        report.set("bytes of peak memory", peak);
        report.note(told);
        report.set("names", check(setting.folder, setting.size, head)?);
        hold(peak < MOST_MEMORY, || format!("too much memory: {report}"))?;
        Ok(report)
    }
}

/// Runs a worker that opens the account and collects it, and ends at a failpoint.
fn open_in_worker(setting: &Setting<'_>, end: &str) -> Proven<Output> {
    let arguments = [Path::new("open-old"), setting.folder, Path::new(end)];
    Ok(Command::new(setting.worker()).args(arguments).output()?)
}

fn said(out: &Output) -> String {
    let [out, error] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text).trim().to_owned());
    format!("{out}{error}")
}

/// Creates the account, with versions, names and nodes that ended, in the older format. Returns its last
/// commit.
fn make_old(folder: &Path, names: u64) -> Proven<Seq> {
    let fs = account(folder, Env::system())?;
    fill(&fs, names)?;
    let head = run(async {
        for dir in 0..names.div_ceil(TOGETHER) {
            let files = (0..TOGETHER.min(names - dir * TOGETHER)).step_by(TWICE_EVERY);
            let ops =
                files.map(|file| Ok(Op::write(path(&format!("/d/{dir}/file-{file:04}"))?, "two words")));
            fs.commit(Batch::new(ops.collect::<Proven<Vec<_>>>()?).visible()).await?;
        }
        fs.commit(Batch::new([remove("/d/0")?])).await?;
        Ok(fs.sync().await?)
    })?;
    let conn = Connection::open(closed(fs, folder)?)?;
    let format: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    hold(format == OLD + 2, || format!("the newest format is {format}: write how it is undone"))?;
    conn.execute_batch(UNDO)?;
    Ok(head)
}

/// Returns the format of the database.
fn format_of(folder: &Path) -> Proven<i64> {
    let conn = Connection::open(folder.join("tree.db"))?;
    Ok(conn.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// Opens the account and collects it, in the worker. Returns the line to print: the peak memory, then the
/// times. `end` is the failpoint at which the process ends, if it is not [`NO_END`].
pub(crate) fn open_and_collect(folder: &Path, end: &str) -> Proven<String> {
    let runtime = Runtime::new(Env::system());
    if end != NO_END {
        runtime.failpoints().arm(end, Failure::Abort, 0);
    }
    let begun = runtime.env().instant();
    let fs = SqliteFs::open_on(folder, &runtime, garth_engine::rule::sample::registry())?;
    let opened = runtime.env().instant() - begun;
    let commits = Some(KEPT);
    block_on(fs.set_retention(Retention { commits, ..Retention::default() }))?;
    // The first run removes the past, the second one the nodes that had lost their names.
    for _ in 0..2 {
        block_on(fs.gc(Duration::ZERO))?;
    }
    let collected = runtime.env().instant() - begun - opened;
    Ok(format!(
        "{} opened in {:.2} s, collected in {:.1} s",
        peak_memory()?,
        opened.as_secs_f64(),
        collected.as_secs_f64()
    ))
}

/// Checks that the past is gone and the present complete. Returns the number of names.
fn check(folder: &Path, names: u64, head: Seq) -> Proven<u64> {
    let fs = account(folder, Env::system())?;
    let found = run(async {
        let (state, oldest) = (fs.retention().await?, Seq(head.0 - KEPT));
        hold((state.oldest, state.folded) == (oldest, oldest), || {
            format!("of {head:?} commits {state:?} is left")
        })?;
        let gone = fs.as_of(&Moment::Seq(Seq(1))).await;
        hold(gone.as_ref().is_err_and(|error| error.is(ErrorKind::Gone)), || format!("state 1: {gone:?}"))?;
        let (mut found, mut page) = (0, WalkPage::default().limit(MAX_PAGE));
        loop {
            let walk = fs.walk(&at("/d")?, &page).await?;
            found += walk.items.len() as u64;
            page.after = walk.items.last().map(|item| item.path.clone());
            if !walk.more {
                break;
            }
        }
        for (file, content) in [("/d/1/file-0000", "two words"), ("/d/1/file-0001", "one word")] {
            let read = fs.read(&at(file)?, ByteRange::ALL).await?;
            hold(read == content, || format!("{file} has {read:?}"))?;
        }
        Proven::Ok(found)
    })?;
    // The first directory was removed, with its files.
    let expected = names.saturating_sub(TOGETHER) + names.div_ceil(TOGETHER).saturating_sub(1);
    hold(found == expected, || format!("{found} names are left of {expected}"))?;
    if names <= CHECKED {
        sound(&*fs)?;
    }
    Ok(found)
}
