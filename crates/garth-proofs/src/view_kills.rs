//! Batches over the views of an agent's tree that are killed and retried while others write: each is applied
//! completely and once, and a retry returns the commit of the first attempt.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use garth_agent::{Access, Caller, Class, Request, Skill};
use garth_engine::model::{Batch, Commit, Idempotency, Op, Timestamp};
use garth_engine::{AccountStore, Env, FileSystem, FileSystemExt};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{
    About, Broken, Proof, Proven, Report, Setting, Worker, append, at, hold, path, read, run, say, sound,
    write,
};

use crate::support::opened;
use crate::worker_binary::agent_worker;

/// Writers, each with its own files in three parts of the tree.
const WRITERS: u64 = 4;
/// Upper bound of the acknowledgements before a kill, and of the delay after the last one, in microseconds.
const HEARD: u64 = 40;
const LONGEST: u64 = 3_000;

/// Form in which a batch is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// As one commit.
    Whole,
    /// As one commit for each operation: the proof must notice it.
    Split,
}

/// Returns the tree of an agent over an open account.
async fn tree(fs: &Arc<dyn AccountStore>) -> Proven<Arc<dyn FileSystem>> {
    let request = Request::new("scout").user("ann").chat("chat").class(Class::Main);
    let access = Access::open(fs, &Env::system(), Caller::Holder, &request).await?;
    Ok(access.tree().skills([Skill::overriding("cook")?]).open().await?)
}

/// Returns the logs that a writer's batches append to: their paths in the tree and in the account.
fn logs(writer: u64) -> [(String, String); 3] {
    let skill = format!("/agents/scout/skills/cook/log-{writer}");
    [
        (format!("/notes/log-{writer}"), format!("/chats/chat/notes/log-{writer}")),
        (format!("/.user/log-{writer}"), format!("/users/ann/agents/scout/log-{writer}")),
        (format!("/skills/cook/log-{writer}"), skill),
    ]
}

/// Returns the path of a writer's token after a number of batches.
fn token(writer: u64, batches: u64) -> String {
    let dir = if batches.is_multiple_of(2) { "" } else { "/.agent" };
    format!("{dir}/token-{writer}")
}

/// Returns a batch over the chat, the user, the agent and a skill. It copies up a file of the skill's lower
/// layer, and removes one that it has written.
fn batch(writer: u64, n: u64) -> Proven<Batch> {
    let mut ops = Vec::new();
    for (log, _) in logs(writer) {
        ops.push(append(&log, format!("{n}\n"))?);
    }
    // A batch that is applied twice fails here, because the token has moved.
    ops.push(Op::rename(path(&token(writer, n - 1))?, path(&token(writer, n))?));
    ops.push(write(&format!("/skills/cook/tried/{writer}-{n}"), "x")?);
    ops.push(Op::remove(path(&format!("/skills/cook/tried/{writer}-{n}"))?));
    let key = format!("{writer}-{n}");
    // The key identifies the batch, whichever process commits it.
    let record = Idempotency::new(key, [1; 32], Timestamp(i64::MAX));
    Ok(Batch::new(ops).idempotency(record))
}

async fn committed(tree: &dyn FileSystem, batch: Batch, how: How) -> Proven<u64> {
    if how == How::Whole {
        return Ok(tree.commit(batch).await?.seq.0);
    }
    let mut seq = 0;
    for op in batch.ops {
        seq = tree.commit(op.into()).await?.seq.0;
    }
    Ok(seq)
}

/// Runs in the child process: commits batches and reports each commit until the process is killed.
pub(crate) fn write_until_killed(folder: &Path, how: How) -> Proven<()> {
    let fs = opened(folder)?;
    let tree = block_on(tree(&fs))?;
    say("ready")?;
    let outside = Arc::clone(&fs);
    let outsider = std::thread::spawn(move || write_below(&outside));
    let writers = (0..WRITERS).map(|writer| {
        let tree = Arc::clone(&tree);
        std::thread::spawn(move || -> Proven<()> {
            let done = block_on(lines(&*tree, &logs(writer)[0].0))?;
            for n in done + 1.. {
                let seq = block_on(committed(&*tree, batch(writer, n)?, how))?;
                say(&format!("{writer} {n} {seq}"))?;
            }
            Ok(())
        })
    });
    for thread in writers.collect::<Vec<_>>().into_iter().chain([outsider]) {
        // Only a failure ends a thread.
        thread.join().map_err(|_| Broken::because("a writer panicked"))??;
    }
    Ok(())
}

/// Changes the lower layer of the skill, and a file outside of the agent's tree.
fn write_below(fs: &Arc<dyn AccountStore>) -> Proven<()> {
    for n in 0_u64.. {
        let ops = [write("/skills/cook/SKILL.md", n.to_string())?, write("/elsewhere", n.to_string())?];
        block_on(fs.commit(Batch::new(ops)))?;
    }
    Ok(())
}

/// Returns the number of lines of a log. Fails unless line `n` is `n`.
async fn lines(fs: &dyn FileSystem, log: &str) -> Proven<u64> {
    if !fs.exists(at(log)?).await? {
        return Ok(0);
    }
    let text = read(fs, log).await?;
    for (line, n) in text.lines().zip(1..) {
        hold(line == n.to_string(), || format!("{log}: line {n} is `{line}`"))?;
    }
    Ok(text.lines().count() as u64)
}

/// Kills of a process that commits batches over the views of an agent's tree. The size is the number of
/// kills.
#[derive(Clone, Copy, Debug)]
pub struct ViewKills {
    /// Form of the batches.
    pub how: How,
}

impl Proof for ViewKills {
    fn about(&self) -> About {
        About {
            name: "view-kills",
            claim: "A batch over the views of a tree is applied completely and once after a kill and a retry.",
            full: 100,
            ci: 12,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        killed(setting.folder, &agent_worker(setting), setting.size, setting.seed, self.how)
    }
}

const COUNTS: [&str; 4] =
    ["kills", "batches answered", "batches kept without an answer", "retries answered with the first commit"];

/// Kills a committing process `kills` times, and retries the batches that may have been pending each time.
///
/// # Errors
/// A batch that is applied in part or twice, an acknowledged batch that is missing, or a retry with another
/// result.
fn killed(folder: &Path, binary: &Path, kills: u64, seed: u64, how: How) -> Proven<Report> {
    let (mut random, mut report) = (Random::new(seed), Report::of(COUNTS));
    let fs = opened(folder)?;
    run(async {
        let mut ops = vec![write("/skills/cook/SKILL.md", "0")?];
        for writer in 0..WRITERS {
            ops.push(write(&format!("/skills/cook/log-{writer}"), "")?);
            ops.push(write(&format!("/chats/chat/token-{writer}"), "")?);
        }
        fs.commit(Batch::new(ops)).await?;
        let ann = Request::new("scout").user("ann");
        Access::open(&fs, &Env::system(), Caller::Holder, &ann).await?.own_chat("chat").await?;
        Ok(())
    })?;
    drop(fs);
    let folder_text = folder.to_str().ok_or_else(|| Broken::because("the folder's path is no text"))?;
    let verb = if how == How::Whole { "views" } else { "split-views" };
    for _ in 0..kills {
        let mut heard = BTreeMap::new();
        let mut child = Worker::start(binary, &[verb, folder_text])?;
        for _ in 0..1 + random.below(HEARD) {
            let line = child.hear()?;
            let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [writer, n, seq] = numbers[..] else {
                return Err(Broken::because(format!("the writer said `{line}`")));
            };
            heard.insert(writer, (n, seq));
            report.add("batches answered", 1);
        }
        Env::system().sleep(Duration::from_micros(random.below(LONGEST)));
        drop(child);
        report.add("kills", 1);
        let fs = opened(folder)?;
        let found = run(async {
            let tree = tree(&fs).await?;
            let checks = (0..WRITERS).map(|writer| {
                let (fs, tree, heard) = (Arc::clone(&fs), Arc::clone(&tree), heard.get(&writer).copied());
                tokio::spawn(async move { settle(&fs, &*tree, writer, heard).await })
            });
            let mut found = Vec::new();
            for check in checks.collect::<Vec<_>>() {
                found.push(check.await??);
            }
            Ok(found)
        })?;
        for (unheard, replayed) in found {
            report.add("batches kept without an answer", unheard);
            report.add("retries answered with the first commit", replayed);
        }
    }
    sound(&*opened(folder)?)?;
    Ok(report)
}

/// Checks the batches of a writer and commits one more, while other writers do the same. Returns the number
/// of batches that were applied without acknowledgement, and the number of replayed retries.
async fn settle(
    fs: &Arc<dyn AccountStore>,
    tree: &dyn FileSystem,
    writer: u64,
    heard: Option<(u64, u64)>,
) -> Proven<(u64, u64)> {
    let done = whole(fs, tree, writer).await?;
    let mut replayed = 0;
    if let Some((n, seq)) = heard {
        hold(done >= n, || format!("batch {n} of writer {writer} was answered and is not there"))?;
        let again = tree.commit(batch(writer, n)?).await?;
        hold(again.replayed && again.seq.0 == seq, || format!("batch {n} was {seq}, is {again:?}"))?;
        replayed += 1;
    }
    // This batch may have been pending when the process was killed, or else the next one.
    let retry = async |n: u64| -> Proven<Commit> { Ok(tree.commit(batch(writer, n)?).await?) };
    if done > 0 {
        let last = retry(done).await?;
        hold(last.replayed, || format!("batch {done} of writer {writer} is committed twice"))?;
        replayed += 1;
    }
    let next = retry(done + 1).await?;
    let again = retry(done + 1).await?;
    let same = again.replayed && again.seq == next.seq && again.outcomes == next.outcomes;
    hold(!next.replayed && same, || format!("{next:?}, and again {again:?}"))?;
    replayed += 1;
    let now = whole(fs, tree, writer).await?;
    hold(now == done + 1, || format!("{done} batches, and after one more {now}"))?;
    Ok((done.saturating_sub(heard.map_or(done, |(n, _)| n)), replayed))
}

/// Returns the number of batches of a writer. Fails if one is not in all parts of the tree.
async fn whole(fs: &Arc<dyn AccountStore>, tree: &dyn FileSystem, writer: u64) -> Proven<u64> {
    let done = lines(tree, &logs(writer)[0].0).await?;
    // Each log is read through the view and in the account, which must agree.
    for (shown, kept) in logs(writer) {
        let (here, there) = (lines(tree, &shown).await?, lines(&**fs, &kept).await?);
        hold((here, there) == (done, done), || format!("{shown}: {here} and {there} of {done} batches"))?;
    }
    let at_home = tree.exists(at(&token(writer, done))?).await?;
    let elsewhere = tree.exists(at(&token(writer, done + 1))?).await?;
    hold(at_home && !elsewhere, || format!("the token of writer {writer} is astray"))?;
    let tried = tree.exists(at(&format!("/skills/cook/tried/{writer}-{done}"))?).await?;
    hold(!tried, || format!("what batch {done} of writer {writer} took away is there"))?;
    Ok(done)
}
