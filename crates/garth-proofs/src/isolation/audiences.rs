//! Visibility in an account: owners, session keys, users, classes and chats are drawn, settings change, and
//! sessions write, reset and spawn. Sessions are removed and their names taken by sessions of other classes,
//! also while others look, and looks go to the past. No tree, prompt, pack, transcript, archive, media file,
//! child, memory or source of a session ever has a word of another audience, or of a session with fewer
//! listeners. A main session sees what others remember as evidence in its prompt, and the archives of its
//! agent.

mod looks;
mod moves;
mod requests;

use std::path::Path;
use std::sync::Arc;

use garth_agent::media::MediaKey;
use garth_agent::{Access, Caller, Class, Request};
use garth_engine::{AccountStore, DataDir, Env};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold, run, sound};

/// Agent of the sessions, and one that works for them.
const AGENT: &str = "bot";
const HELPER: &str = "cook";
/// Number of ids of children.
const CHILDREN: u64 = 12;
/// Audience of the main sessions of an agent, whoever talks in them.
const OF_AGENT: &str = "the agent";
/// States of one account: its history grows, and each look reads it.
const STATES_OF_ONE: u64 = 200;

/// A request, with the audience and class that it was given.
#[derive(Clone, Debug)]
struct Asks {
    request: Request,
    audience: String,
    class: Class,
}

/// Part of an account to look at. As a leak, another audience looks: a negative control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Trees.
    Tree,
    /// Prompts.
    Prompt,
    /// Messages of sessions.
    Session,
    /// Packs, with their images.
    Pack,
    /// Media files.
    Media,
    /// Archives.
    Archive,
    /// Children.
    Child,
    /// Memories.
    Memory,
    /// Sources.
    Source,
    /// Exports.
    Export,
}

impl Way {
    /// All ways.
    pub const ALL: [Self; 10] = [
        Self::Tree,
        Self::Prompt,
        Self::Session,
        Self::Pack,
        Self::Media,
        Self::Archive,
        Self::Child,
        Self::Memory,
        Self::Source,
        Self::Export,
    ];
}

/// Origin of words: the audience and class of the session that wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Label {
    audience: String,
    class: Class,
    /// True for messages of a session, which are in its archive after a reset.
    said: bool,
}

impl Label {
    fn new(audience: &str, class: Class, said: bool) -> Self {
        Self { audience: audience.to_owned(), class, said }
    }

    /// Returns the word in every text of this label. It contains no letters that base64 or JSON encodes
    /// differently, and its length is a multiple of three bytes.
    fn canary(&self) -> String {
        let hash =
            garth_agent::memory::sha256(format!("{} {} {}", self.audience, self.class, self.said).as_bytes());
        format!("canary{}", &hash[..18])
    }
}

/// An account of the proof.
struct World {
    account: Arc<dyn AccountStore>,
    env: Env,
    random: Random,
    leak: Option<Way>,
    by_list: bool,
    /// Number of sessions of the class `main` that were created while others looked.
    interfered: u64,
    /// Labels of the words that were written.
    labels: Vec<Label>,
    /// Sessions: audience, agent, name and id.
    sessions: Vec<[String; 4]>,
    media: Vec<MediaKey>,
}

/// Looks of sessions at data of other audiences. The size is the number of attempts of each way: calls that
/// looks make.
#[derive(Clone, Copy, Debug, Default)]
pub struct Audiences {
    /// Way that leads to data of another audience: a negative control.
    pub leak: Option<Way>,
    /// Hides sessions in trees by a list of their paths, made before the look: a negative control for
    /// sessions that are created later or were removed before.
    pub by_list: bool,
}

impl Proof for Audiences {
    fn about(&self) -> About {
        About {
            name: "audience-isolation",
            claim: "No session sees a word of another audience, or of a session that fewer listen to.",
            full: 200_000,
            ci: 800,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        isolation(setting.folder, setting.size, setting.seed, *self)
    }
}

/// Counts of a run.
const COUNTS: [&str; 8] = [
    "looks",
    "looks that saw words",
    "tries",
    "answered",
    "moves",
    "moves refused",
    "identities refused",
    "sessions created during looks",
];

/// Makes `tries` attempts of each way.
///
/// # Errors
/// A word that was seen, with the seed of its account.
fn isolation(folder: &Path, tries: u64, seed: u64, proof: Audiences) -> Proven<Report> {
    run(async {
        let data = DataDir::open(&folder.join("data"), Env::system(), garth_agent::registry())?;
        let (mut report, mut round) = (Report::of(COUNTS), 0);
        while next_way(&report).1 < tries {
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(round);
            let id = format!("r{round}");
            data.create_account(&id).await?;
            let mut world = World::new(data.account(&id).await?, Random::new(seed), proof);
            world.settings().await?;
            for state in 0..STATES_OF_ONE {
                if next_way(&report).1 >= tries {
                    break;
                }
                world.state(&mut report).await.map_err(|broken| {
                    Broken::because(format!("account {round}, seed {seed}, state {state}: {broken}"))
                })?;
            }
            if round.is_multiple_of(20) {
                sound(&*world.account)?;
            }
            drop(world);
            data.delete_account(&id).await?;
            round += 1;
        }
        Ok(report)
    })
}

/// Returns the way with the fewest attempts, and their number.
fn next_way(report: &Report) -> (Way, u64) {
    let tried = Way::ALL.map(|way| (way, report.in_group("tries", &format!("{way:?}"))));
    tried.into_iter().min_by_key(|(_, tries)| *tries).unwrap_or((Way::Tree, 0))
}

impl World {
    fn new(account: Arc<dyn AccountStore>, random: Random, proof: Audiences) -> Self {
        let (env, Audiences { leak, by_list }) = (Env::system(), proof);
        let (labels, sessions, media) = (Vec::new(), Vec::new(), Vec::new());
        Self { account, env, random, leak, by_list, interfered: 0, labels, sessions, media }
    }

    /// Makes some moves, then some looks.
    async fn state(&mut self, report: &mut Report) -> Proven<()> {
        for _ in 0..2 {
            let Some(asks) = self.asks(report).await? else { continue };
            let done = self.moves(&asks).await?;
            report.add("moves", 1);
            report.add("moves refused", !done);
        }
        for _ in 0..3 {
            let Some(asks) = self.asks(report).await? else { continue };
            let (way, _) = next_way(report);
            let seen = self.look(&asks, way).await?;
            report.add("looks", 1);
            report.add("looks that saw words", seen.text.contains("canary"));
            report.add("tries", seen.calls);
            report.add("answered", seen.answered);
            report.add_in("tries", format!("{way:?}"), seen.calls);
            report.add("sessions created during looks", std::mem::take(&mut self.interfered));
            self.clean(&asks, way, &seen.text)?;
        }
        Ok(())
    }

    /// Opens the access of a request.
    async fn open(account: &Arc<dyn AccountStore>, env: &Env, asks: &Asks) -> garth_engine::Result<Access> {
        let access = Access::open(account, env, Caller::ApiKey, &asks.request).await?;
        access.make().await?;
        Ok(access)
    }

    /// Fails if a text has a word that the looking session must not see.
    fn clean(&self, asks: &Asks, way: Way, text: &str) -> Proven<()> {
        let is_main = asks.class == Class::Main;
        // Memories of others are evidence in a main prompt, and the archives of its agent belong to main.
        let is_wide = is_main && matches!(way, Way::Prompt | Way::Archive | Way::Export);
        for label in &self.labels {
            let own = label.audience == asks.audience && asks.class.sees(label.class);
            let of_agent = is_main && label.audience == OF_AGENT;
            // Archives and their media are files of the agent, which a source may name.
            let archived = is_main && matches!(way, Way::Tree | Way::Source) && label.said;
            if own || of_agent || is_wide || archived {
                continue;
            }
            hold(!text.contains(&label.canary()), || {
                format!("a word of {label:?} is seen by {asks:?}, way {way:?}: {text}")
            })?;
        }
        Ok(())
    }
}
