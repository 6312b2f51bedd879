//! Many retractions in one session: packs and tails need no more reads than with few, and neither they nor a
//! search contain a retracted message.

use std::path::Path;
use std::sync::Arc;

use garth_agent::session::{Append, Create, Draft, Log, PackOptions, Select, Sessions, Source};
use garth_engine::model::SearchQuery;
use garth_engine::{Env, FileSystem};
use garth_testkit::fs::counting::Counting;
use garth_testkit::proof::{About, Proof, Proven, Report, Setting, hold, run};

use crate::support::account;

/// Number of retractions to compare with.
const FEW: u64 = 50;
/// Messages after all retractions.
const LAST: u64 = 100;
/// Messages of a tail. In every session there are as many.
const TAIL: &str = "tail:140";
/// Messages by which packs of two sessions may differ: the numbers of lines take more tokens in a long one.
const NEAR: usize = 30;
/// Reads that a search among more events may need in addition: binary search in each of its runs.
const MORE: usize = 64;

/// Pattern of the retractions.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The last message, repeatedly.
    Back,
    /// Every answer, as when a person asks for another one.
    Regenerate,
    /// Every second message.
    Apart,
    /// One message, each time.
    Again,
}

const WAYS: [Way; 4] = [Way::Back, Way::Regenerate, Way::Apart, Way::Again];

impl Way {
    /// Returns the budget of a pack with which it has as many messages beside few retractions as beside many:
    /// all of them where their number is the same, else fewer than there are beside few.
    fn budget(self) -> u64 {
        match self {
            Self::Back | Self::Regenerate => 8_000,
            Self::Apart | Self::Again => 2_200,
        }
    }
}

/// Reads of a tail and of a pack, and the number of messages in the pack.
#[derive(Clone, Copy, Debug)]
struct Cost {
    tail: usize,
    pack: usize,
    messages: usize,
}

/// Many retractions in one session. The size is the number of retractions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retractions {
    /// Planted fault.
    pub fault: Option<Fault>,
}

/// Fault that the proof has to detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is retracted.
    None,
    /// A pack reads each event that retracts messages.
    EachEvent,
}

impl Proof for Retractions {
    fn about(&self) -> About {
        About {
            name: "retractions",
            claim: "Packs and tails cost the same after many retractions as after few, and show none.",
            full: 50_000,
            ci: 120,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        compared(setting.folder, setting.size, self.fault)
    }
}

fn compared(folder: &Path, size: u64, fault: Option<Fault>) -> Proven<Report> {
    run(async {
        let fs: Arc<dyn FileSystem> = account(&folder.join("data"), Env::system())?;
        let mut report = Report::of(["retractions"]);
        for way in WAYS {
            let few = reads(&fs, way, FEW, fault).await?;
            let many = reads(&fs, way, size, fault).await?;
            report.add("retractions", usize::try_from(size + FEW).unwrap_or(0));
            // Otherwise the reads of different amounts would be compared.
            hold(few.messages.abs_diff(many.messages) <= NEAR, || {
                format!(
                    "{way:?}: a pack has {} messages, and {} beside {FEW} retractions",
                    many.messages, few.messages
                )
            })?;
            for (what, few, many) in [("tail", few.tail, many.tail), ("pack", few.pack, many.pack)] {
                report.add_in("reads", format!("{way:?}: {what}"), many as u64);
                hold(many <= few + MORE, || {
                    format!("{way:?}: a {what} takes {many} reads, and {few} beside {FEW} retractions")
                })?;
            }
        }
        let hits = fs.search(&SearchQuery::new("zretracted").limit(100)).await?.hits;
        hold(hits.iter().all(|hit| !hit.snippet.contains("zretracted")), || {
            "search finds retracted messages".to_owned()
        })?;
        Ok(report)
    })
}

/// Returns the cost of a tail and of a pack in a session with `count` retractions.
async fn reads(fs: &Arc<dyn FileSystem>, way: Way, count: u64, fault: Option<Fault>) -> Proven<Cost> {
    let counting = Counting::new(Arc::clone(fs));
    let agent = format!("{way:?}-{count}").to_lowercase();
    let sessions = Sessions::new(&counting, "ann", &agent)?;
    sessions.create(&Create::new("s")).await?;
    let say = async |text: String| -> Proven<()> {
        sessions.append("s", &Append::messages([Draft::user(text)])).await?;
        Ok(())
    };
    let retract = async |source: String| -> Proven<()> {
        if fault != Some(Fault::None) {
            let source: Source = source.parse()?;
            sessions.retract("s", &source, None).await?;
        }
        Ok(())
    };
    many(&sessions, 200, |number| format!("kept {number}")).await?;
    match way {
        Way::Back => {
            many(&sessions, count, |_| "zretracted".to_owned()).await?;
            for _ in 0..count {
                retract("tail:1".to_owned()).await?;
            }
        }
        Way::Regenerate => {
            for _ in 0..count {
                say("zretracted".to_owned()).await?;
                retract("tail:1".to_owned()).await?;
            }
        }
        Way::Apart => {
            let text = |at: u64| if at.is_multiple_of(2) { "zretracted" } else { "kept apart" };
            many(&sessions, 2 * count, |at| text(at).to_owned()).await?;
            for number in 0..count {
                retract(format!("messages:{}", 201 + 2 * number)).await?;
            }
        }
        Way::Again => {
            many(&sessions, count, |at| if at == 0 { "zretracted" } else { "kept" }.to_owned()).await?;
            for _ in 0..count {
                retract("messages:201".to_owned()).await?;
            }
        }
    }
    many(&sessions, LAST, |number| format!("kept last {number}")).await?;
    counting.reads_since();
    let tail: Source = TAIL.parse()?;
    sessions.resolve("s", &tail).await?;
    let of_tail = counting.reads_since();
    if fault == Some(Fault::EachEvent) {
        for event in 1..=sessions.end("s", Log::Events).await?.lines {
            sessions.lines("s", &Select::events(event..=event)).await?;
        }
    }
    let mut options = PackOptions::default();
    options.budget = Some(way.budget());
    let packed = sessions.pack("s", &options).await?;
    let of_pack = counting.reads_since();
    hold(!packed.markdown.contains("zretracted"), || format!("{way:?}: a pack has retracted messages"))?;
    // An empty pack would contain no retracted message either.
    hold(packed.markdown.contains("kept last 0"), || format!("{way:?}: a pack lacks messages"))?;
    let messages = packed.markdown.matches("kept").count();
    Ok(Cost { tail: of_tail, pack: of_pack, messages })
}

async fn many(sessions: &Sessions<'_>, count: u64, text: impl Fn(u64) -> String) -> Proven<()> {
    for first in (0..count).step_by(1000) {
        let drafts = (first..count.min(first + 1000)).map(|at| Draft::user(text(at)));
        sessions.append("s", &Append::messages(drafts)).await?;
    }
    Ok(())
}
