//! Commands of the binary `proof-worker`.

use std::io::stdin;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Op, Precondition};
use garth_engine::{Env, ErrorKind, FileSystem, OpenFile};

use crate::crash::{host_cuts, retention_crash};
use crate::proof::processes::{COUNTER, LINES};
use crate::proof::{
    Broken, Proven, accounts, append, at, big_file, committed, failpoints, hold, migrate_names, read, say,
    subtrees, write,
};

/// Runs a command: `serve FOLDER`, `hammer FOLDER NAME`, `big-file FOLDER SIZE SEED`, `accounts COUNT
/// FOLDER`, `crowd COUNT FOLDER`, `subtrees NAMES FOLDER`, `open-old FOLDER POINT`, `commit FOLDER ID POINT`,
/// `host-cuts FOLDER SEED ROUND`, `retain FOLDER ROUND` or `fail FOLDER POINT AFTER SEED`.
///
/// # Errors
/// The promise that does not hold, for the process that started this one.
pub fn work(arguments: &[String]) -> Proven<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().map_err(|_| Broken::because(format!("`{text}` is no number")));
    match arguments.as_slice() {
        ["serve", folder] => serve(Path::new(folder)),
        ["hammer", folder, name] => hammer(Path::new(folder), name),
        ["big-file", folder, size, seed] => {
            say(&big_file::write_and_read(Path::new(folder), number(size)?, number(seed)?)?)
        }
        ["accounts", count, folder] => say(&accounts::use_in_turn(Path::new(folder), number(count)?)?),
        ["crowd", count, folder] => say(&accounts::use_at_once(Path::new(folder), number(count)?)?),
        ["subtrees", names, folder] => say(&subtrees::rename_and_remove(Path::new(folder), number(names)?)?),
        ["open-old", folder, end] => say(&migrate_names::open_and_collect(Path::new(folder), end)?),
        ["commit", folder, id, end] => committed::commit_and_end(Path::new(folder), id, end),
        ["host-cuts", folder, seed, round] => {
            host_cuts::commit_until_cut(Path::new(folder), number(seed)?, number(round)?)
        }
        ["retain", folder, round] => retention_crash::write_and_collect(Path::new(folder), number(round)?),
        ["fail", folder, point, after, seed] => {
            failpoints::work_until_abort(Path::new(folder), point, number(after)?, number(seed)?)
        }
        _ => Err(Broken::because("no such work")),
    }
}

/// Runs single calls, as they are requested on standard input.
fn serve(folder: &Path) -> Proven<()> {
    let fs = SqliteFs::open(folder, Env::system(), garth_engine::rule::sample::registry())?;
    let mut handle: Option<Arc<dyn OpenFile>> = None;
    say("ready")?;
    for line in stdin().lines() {
        let line = line?;
        match block_on(call(&fs, &mut handle, &line)) {
            Ok(answer) => say(&format!("ok {}", answer.replace('\n', "|")))?,
            Err(error) => say(&format!("broken {error}"))?,
        }
    }
    Ok(())
}

async fn call(fs: &Arc<SqliteFs>, handle: &mut Option<Arc<dyn OpenFile>>, line: &str) -> Proven<String> {
    let held = || handle.clone().ok_or_else(|| Broken::because("nothing is held"));
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["write", to, text] => {
            fs.commit(Batch::new([write(to, text.to_string())?])).await?;
        }
        ["read", from] => return read(&**fs, from).await,
        ["hold", what] => *handle = Some(fs.open(&at(what)?).await?),
        ["held-append", text] => {
            let op = Op::append(held()?.ino(), text.to_string()).must_exist();
            fs.commit(Batch::new([op])).await?;
        }
        ["renew"] => {
            fs.runtime().tick();
            // After the renewal that the tick requested.
            fs.sync().await?;
        }
        ["held-read"] => {
            let bytes = held()?.read_at(0, 1 << 20).await?;
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        ["release"] => {
            *handle = None;
            // After the end of the lease, which the handle has requested.
            fs.sync().await?;
        }
        _ => return Err(Broken::because(format!("no such call: {line}"))),
    }
    Ok(String::new())
}

/// Appends and counts as fast as possible until a line comes in. Prints `appends counts conflicts
/// longest-wait-ns`.
fn hammer(folder: &Path, name: &str) -> Proven<()> {
    let env = Env::system();
    let fs = SqliteFs::open(folder, env.clone(), garth_engine::rule::sample::registry())?;
    let stop = Arc::new(AtomicBool::new(false));
    say("ready")?;
    let mut go = String::new();
    stdin().read_line(&mut go)?;
    let told = Arc::clone(&stop);
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = stdin().read_line(&mut line);
        told.store(true, Ordering::Release);
    });
    let (mut appends, mut counts, mut conflicts, mut longest, mut known) = (0u64, 0u64, 0u64, 0, 0u64);
    while !stop.load(Ordering::Acquire) {
        let before = env.now().0;
        block_on(fs.commit(Batch::new([append(LINES, format!("{name} {appends}\n"))?])))?;
        longest = longest.max(env.now().0 - before);
        appends += 1;
        let version = block_on(fs.stat(&at(COUNTER)?))?.etag;
        let count: u64 = block_on(read(&*fs, COUNTER))?
            .parse()
            .map_err(|_| Broken::because("the counter is no number"))?;
        hold(count >= known, || format!("{name} reads {count} after it wrote {known}"))?;
        let next = Batch {
            preconditions: vec![(at(COUNTER)?, Precondition::Etag(version))],
            ..Batch::new([write(COUNTER, (count + 1).to_string())?])
        };
        match block_on(fs.commit(next)) {
            Ok(_) => {
                counts += 1;
                known = count + 1;
            }
            Err(error) if error.is(ErrorKind::Conflict) => conflicts += 1,
            Err(error) => return Err(error.into()),
        }
    }
    say(&format!("{appends} {counts} {conflicts} {longest}"))
}
