//! Appends, imports, memory changes and resets that are killed and sent again under their idempotency keys,
//! while others write: each has one effect, and a repeat returns the result of the first attempt. Calls of a
//! server are in [`call_kills`](crate::call_kills).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use garth_agent::Once;
use garth_agent::memory::{Memories, Put, Uri};
use garth_agent::session::{Append, Create, Draft, Import, Log, Sessions, TranscriptFormat};
use garth_agent::workspace::{Reset, Workspace};
use garth_engine::model::{Idempotency, Timestamp};
use garth_engine::{AccountStore, Env, FileSystem};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, Worker, hold, run, say, sound};

use crate::support::opened;
use crate::worker_binary::agent_worker;

/// Writers, each with its own sessions and memories.
const WRITERS: u64 = 4;
/// Requests of a round: an append, a put, a move, an import and a reset.
const ROUND: u64 = 5;
/// Messages of an import: more than fit into one commit.
const IMPORTED: u64 = 1_020;
/// Upper bound of the acknowledgements before a kill, and of the delay after the last one, in microseconds.
const HEARD: u64 = 12;
const LONGEST: u64 = 40_000;

/// Form in which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// With an idempotency key.
    Keyed,
    /// Without a key: the proof must notice it.
    Plain,
}

/// Returns the session of a round.
fn session(writer: u64, round: u64) -> String {
    format!("s-{writer}-{round}")
}

/// Returns the memory of a round, before or after its move.
fn memory(writer: u64, round: u64, moved: bool) -> Proven<Uri> {
    let name = if moved { "to" } else { "from" };
    Ok(format!("ctx://default/users/ann/memories/preferences/{name}-{writer}-{round}").parse()?)
}

/// Handles that execute one request.
struct Handles<'a> {
    sessions: Sessions<'a>,
    memories: Memories<'a>,
    workspace: Workspace<'a>,
}

impl<'a> Handles<'a> {
    fn new(fs: &'a dyn FileSystem, once: &Once) -> Proven<Self> {
        let env = Env::system();
        Ok(Self {
            sessions: Sessions::new(fs, "ann", "coder")?.env(env.clone()).once(once.clone()),
            memories: Memories::new(fs, "default").env(env.clone()).once(once.clone()),
            workspace: Workspace::new(fs, "coder")?.env(env).once(once.clone()),
        })
    }
}

/// Sends request `n` of a writer. Returns the result as text.
async fn send(fs: &Arc<dyn AccountStore>, writer: u64, n: u64, form: Form) -> Proven<String> {
    let once = match form {
        Form::Keyed => {
            let record = Idempotency::new(format!("{writer}-{n}"), [1; 32], Timestamp(i64::MAX));
            Once::begin(Arc::<dyn AccountStore>::clone(fs), record).await?
        }
        Form::Plain => Once::default(),
    };
    let Handles { sessions, memories, workspace } = Handles::new(&**fs, &once)?;
    let round = n / ROUND;
    let name = session(writer, round);
    Ok(match n % ROUND {
        0 => {
            let said = Append::messages([Draft::user(format!("said {n}"))]);
            format!("{:?}", sessions.append(&name, &said).await?)
        }
        1 => {
            let written =
                memories.put(&memory(writer, round, false)?, &Put::new(format!("Fact {n}.\n"))).await?;
            format!("{written:?}")
        }
        2 => {
            let [from, to] = [memory(writer, round, false)?, memory(writer, round, true)?];
            format!("{:?}", memories.move_to(&from, &to).await?)
        }
        3 => {
            let line = |number| format!("{{\"role\":\"user\",\"content\":\"line {number} of {n}\"}}\n");
            let transcript: String = (0..IMPORTED).map(line).collect();
            let import = Import::new(TranscriptFormat::Garth, &transcript).part();
            format!("{:?}", sessions.import(&name, &import).await?)
        }
        _ => {
            let reset = Reset::default().name(Some(session(writer, round + 1)));
            format!("{:?}", workspace.reset("ann", &name, &reset).await?)
        }
    })
}

/// Runs in the child process: sends the requests of each writer from a given one on, and reports each result,
/// until the process is killed.
pub(crate) fn write_until_killed(folder: &Path, from: &str, form: Form) -> Proven<()> {
    let fs = opened(folder)?;
    say("ready")?;
    let writers = (0..).zip(from.split(',').map(str::to_owned)).map(|(writer, first)| {
        let fs = Arc::clone(&fs);
        std::thread::spawn(move || -> Proven<()> {
            let first: u64 = first.parse().map_err(|_| Broken::because("a writer begins with no number"))?;
            for n in first.. {
                let answer = block_on(send(&fs, writer, n, form))?;
                say(&format!("{writer} {n} {answer}"))?;
            }
            Ok(())
        })
    });
    for thread in writers.collect::<Vec<_>>() {
        thread.join().map_err(|_| Broken::because("a writer panicked"))??;
    }
    Ok(())
}

/// Kills of a process that writes under idempotency keys. The size is the number of kills.
#[derive(Clone, Copy, Debug)]
pub struct RetryKills {
    /// Form of the requests.
    pub form: Form,
}

impl Proof for RetryKills {
    fn about(&self) -> About {
        About {
            name: "retry-kills",
            claim: "A write that is killed and sent again under its key has one effect and one answer.",
            full: 100,
            ci: 8,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        killed(setting.folder, &agent_worker(setting), setting.size, setting.seed, self.form)
    }
}

const COUNTS: [&str; 4] =
    ["kills", "requests answered", "repeats answered as the first try", "requests under way when killed"];

/// Kills a writing process `kills` times. After each kill sends the acknowledged and the pending requests
/// again.
///
/// # Errors
/// An effect that is missing or exists twice, or a repeat with another result.
fn killed(folder: &Path, binary: &Path, kills: u64, seed: u64, form: Form) -> Proven<Report> {
    let (mut random, mut report) = (Random::new(seed), Report::of(COUNTS));
    let fs = opened(folder)?;
    run(async {
        for writer in 0..WRITERS {
            let Handles { sessions, .. } = Handles::new(&*fs, &Once::default())?;
            sessions.create(&Create::new(session(writer, 0))).await?;
        }
        Ok(())
    })?;
    drop(fs);
    let folder_text = folder.to_str().ok_or_else(|| Broken::because("the folder's path is no text"))?;
    let verb = if form == Form::Keyed { "retries" } else { "plain-retries" };
    let mut next: Vec<u64> = (0..WRITERS).map(|_| 0).collect();
    for _ in 0..kills {
        let from = next.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let mut heard: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        let mut child = Worker::start(binary, &[verb, folder_text, &from])?;
        for _ in 0..1 + random.below(HEARD) {
            let line = child.hear()?;
            let mut words = line.splitn(3, ' ');
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
            let (Some(writer), Some(n), Some(answer)) = (number(), number(), line.splitn(3, ' ').nth(2))
            else {
                return Err(Broken::because(format!("the writer said `{line}`")));
            };
            heard.insert(writer, (n, answer.to_owned()));
            report.add("requests answered", 1);
        }
        Env::system().sleep(Duration::from_micros(random.below(LONGEST)));
        drop(child);
        report.add("kills", 1);
        let fs = opened(folder)?;
        run(async {
            for (writer, next) in (0..).zip(&mut next) {
                *next = settle(&fs, writer, *next, heard.remove(&writer), form, &mut report).await?;
            }
            Ok(())
        })?;
    }
    sound(&*opened(folder)?)?;
    Ok(report)
}

/// Sends the last acknowledged request again, finishes the pending ones, and counts the effects of all.
/// Returns the next request of the writer.
async fn settle(
    fs: &Arc<dyn AccountStore>,
    writer: u64,
    first: u64,
    heard: Option<(u64, String)>,
    form: Form,
    report: &mut Report,
) -> Proven<u64> {
    let mut next = first;
    if let Some((n, answer)) = heard {
        let again = send(fs, writer, n, form).await?;
        hold(again == answer, || format!("request {n} of {writer} was answered {answer}, now {again}"))?;
        report.add("repeats answered as the first try", 1);
        next = n + 1;
    }
    // These were acknowledged but not read, or pending: the process may have ended after some of their steps.
    loop {
        let record = fs.recorded(&format!("{writer}-{next}")).await?;
        report.add("requests under way when killed", u64::from(record.is_some()));
        let answer = send(fs, writer, next, form).await?;
        let again = send(fs, writer, next, form).await?;
        hold(again == answer, || format!("request {next} of {writer} was answered {answer}, now {again}"))?;
        report.add("repeats answered as the first try", 1);
        next += 1;
        // Without a record the process had not begun this request, so the effects of all requests can be
        // counted.
        if record.is_none() {
            counted(fs, writer, next - 1).await?;
            return Ok(next);
        }
    }
}

/// Fails unless the effects of a writer's requests up to `last` each exist once.
async fn counted(fs: &Arc<dyn AccountStore>, writer: u64, last: u64) -> Proven<()> {
    let Handles { sessions, memories, .. } = Handles::new(&**fs, &Once::default())?;
    let round = last / ROUND;
    // Earlier rounds were counted after earlier kills.
    for round in round.saturating_sub(1)..=round {
        let done = |of: u64| last >= round * ROUND + of;
        let name = session(writer, round);
        let lines = sessions.end(&name, Log::Messages).await?.lines;
        let due = u64::from(done(0)) + if done(3) { IMPORTED } else { 0 };
        hold(lines == due, || format!("{name} has {lines} messages, not {due}"))?;
        let next = sessions.get(&name).await?.meta.next;
        let due = done(4).then(|| session(writer, round + 1));
        hold(next == due, || format!("{name} goes on as {next:?}, not {due:?}"))?;
        for (moved, due) in [(false, done(1) && !done(2)), (true, done(2))] {
            let (uri, there) =
                (memory(writer, round, moved)?, memories.exists(&memory(writer, round, moved)?).await?);
            hold(there == due, || format!("{uri}: there is {there}, not {due}"))?;
        }
    }
    Ok(())
}
