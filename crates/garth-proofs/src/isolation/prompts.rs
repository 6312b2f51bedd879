//! Memory in prompts: through random states in which sessions of several audiences write and attack, no
//! prompt for a session of a class other than `main`, and nothing in its tree, ever has a word of `MEMORY.md`
//! or of the memory of another audience.

mod attacks;
mod moves;
mod reads;

use std::path::Path;
use std::sync::Arc;

use garth_agent::session::Create;
use garth_agent::{Access, Caller, Request};
use garth_engine::model::{Author, Batch, Op};
use garth_engine::{AccountStore, DataDir, Env, FileSystem};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold, path, run, sound};

/// Agent, and the classes of its sessions. Each session is named after its class.
const AGENT: &str = "bot";
const MAIN: &str = "main";
const OTHERS: [&str; 2] = ["dm", "group"];

/// Returns the audience of a class: the owner, a user in direct messages, a channel.
fn audience(class: &str) -> &'static str {
    match class {
        MAIN => "default",
        "dm" => "ann",
        _ => ":room:channel:work",
    }
}

/// Returns the request of a session of a class.
fn request(class: &str) -> Proven<Request> {
    let request = Request::new(AGENT).session(class);
    Ok(match class {
        MAIN => request,
        "dm" => request.user("ann"),
        _ => request.key(format!("agent:{AGENT}:room:channel:work").parse()?),
    })
}

/// Returns the author of writes of a session of a class.
fn author(class: &str) -> Author {
    Author::agent(AGENT).with_class(class).with_audience(audience(class))
}

/// Canaries: in everything that is only for main sessions, and in the daily memory of a class.
const LONG_TERM: &str = "canary-of-long-term-memory";
fn canary(class: &str) -> String {
    format!("canary-remembered-in-{class}")
}

/// States of one account: its history grows, and each look reads it.
const STATES_OF_ONE: u64 = 250;

/// Way that is left open: a negative control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// The prompts of others are built as those of main sessions.
    Prompt,
    /// The trees of others are those of main sessions.
    Tree,
    /// Others remember words that only main sessions have.
    Text,
}

/// An account of the proof.
struct World {
    account: Arc<dyn AccountStore>,
    env: Env,
    /// Trees of the other classes, in their order.
    trees: Vec<Arc<dyn FileSystem>>,
    main: Arc<dyn FileSystem>,
    open: Option<Open>,
    random: Random,
}

/// Prompts and trees of sessions of other classes than `main`. The size is the number of states.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prompts {
    /// Way to the words of main sessions that is left open: a negative control.
    pub open: Option<Open>,
}

impl Proof for Prompts {
    fn about(&self) -> About {
        About {
            name: "prompt-isolation",
            claim: "No prompt or tree of another audience has a word that is for main sessions.",
            full: 200_000,
            ci: 600,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        isolation(setting.folder, setting.size, setting.seed, self.open)
    }
}

/// Counts of a run.
const COUNTS: [&str; 7] = [
    "states",
    "prompts for others",
    "of these with memory of their class",
    "prompts for main with long-term memory",
    "calls in trees of others",
    "calls answered",
    "attacks",
];

/// Checks `states` random states.
///
/// # Errors
/// A canary that was seen, with the seed of its account.
fn isolation(folder: &Path, states: u64, seed: u64, open: Option<Open>) -> Proven<Report> {
    run(async {
        let data = DataDir::open(&folder.join("data"), Env::system(), garth_agent::registry())?;
        let mut report = Report::of(COUNTS);
        let mut round = 0;
        while report["states"] < states {
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(round);
            let id = format!("r{round}");
            data.create_account(&id).await?;
            let mut world = World::new(data.account(&id).await?, Random::new(seed), open).await?;
            for state in 0..STATES_OF_ONE.min(states - report["states"]) {
                world.state(&mut report).await.map_err(|broken| {
                    Broken::because(format!("account {round}, seed {seed}, state {state}: {broken}"))
                })?;
                report.add("states", 1);
            }
            if round.is_multiple_of(20) {
                sound(&*world.account)?;
            }
            drop(world);
            // The disk would fill with hundreds of accounts.
            data.delete_account(&id).await?;
            round += 1;
        }
        Ok(report)
    })
}

impl World {
    async fn new(account: Arc<dyn AccountStore>, random: Random, open: Option<Open>) -> Proven<Self> {
        let env = Env::system();
        for class in [MAIN].into_iter().chain(OTHERS) {
            let access = Access::open(&account, &env, Caller::ApiKey, &request(class)?).await?;
            access.make().await?;
            access.sessions().create(&Create::new(class)).await?;
        }
        let tree = async |class: &str| {
            let shown = if open == Some(Open::Tree) { MAIN } else { class };
            let access = Access::open(&account, &env, Caller::ApiKey, &request(shown)?).await?;
            access.make().await?;
            Ok::<_, Broken>(access.tree().open().await?)
        };
        let main = tree(MAIN).await?;
        let mut trees = Vec::new();
        for class in OTHERS {
            trees.push(tree(class).await?);
        }
        let mut world = Self { account, env, trees, main, open, random };
        let settings = path(&format!("/agents/{AGENT}/settings.json"))?;
        world.account.commit(Batch::new([Op::write(settings, "{}").with_parents()])).await?;
        world.long_term().await?;
        Ok(world)
    }

    /// Changes something, then checks what each class sees.
    async fn state(&mut self, report: &mut Report) -> Proven<()> {
        for _ in 0..=self.random.below(2) {
            if self.random.one_in(2) {
                report.add("attacks", self.attack().await?);
            } else {
                self.happens().await?;
            }
        }
        if self.random.one_in(10) {
            self.main_sees_all(report).await?;
        }
        for (at, class) in OTHERS.into_iter().enumerate() {
            self.look_at_prompts(class, report).await?;
            for _ in 0..2 {
                self.look_into(class, at, report).await?;
            }
        }
        Ok(())
    }

    /// Fails if a text contains anything that the class must not see.
    fn clean(&self, class: &str, what: &str, text: &str) -> Proven<()> {
        let foreign = [MAIN].into_iter().chain(OTHERS).filter(|other| *other != class).map(canary);
        let foreign = foreign.chain([LONG_TERM.to_owned()]);
        for canary in foreign {
            hold(!text.contains(&canary), || format!("`{canary}` is seen by {class} in {what}: {text}"))?;
        }
        Ok(())
    }
}
