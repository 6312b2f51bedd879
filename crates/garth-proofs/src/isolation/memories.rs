//! Attempts of an agent, in a chat with a user, to reach the memories of others: by URI, relation, prefix,
//! move, replacement, search, recall and events in the name of others.

mod forged_events;
mod hidden_memories;

use std::path::Path;

use garth_agent::memory::{Around, Direction, Level, List, Memories, Prefix, Put, Status, Uri};
use garth_agent::recall::{Key, Recall, Recaller};
use garth_agent::{Access, Caller, Class, Request};
use garth_engine::model::{Confinement, Owner, SearchQuery, WalkPage, Within};
use garth_engine::{DataDir, Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Proof, Proven, Report, Setting, hold, path, run};

use self::forged_events::Told;
use self::hidden_memories::{CANARY, OTHER, OWN, edge, hide};

/// Attempts between two deliveries to the sink.
const ROUND: u64 = 500;

/// Attempts through the memories of an agent to reach those of other users, agents and accounts. The size is
/// the number of attempts.
#[derive(Clone, Copy, Debug, Default)]
pub struct AgentMemories {
    /// True to use the memories of the complete account: a negative control.
    pub leaky: bool,
}

impl Proof for AgentMemories {
    fn about(&self) -> About {
        About {
            name: "memory-isolation",
            claim: "The memories of an agent reach those of no other user, agent or account.",
            full: 100_000,
            ci: 3_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        memories(setting.folder, setting.size, setting.seed, self.leaky)
    }
}

/// Makes `tries` attempts from the memories of an agent. With `leaky` they use the complete account: the
/// negative control, which must be detected.
///
/// # Errors
/// A canary that was seen, or one that is missing afterwards; with the seed of the attempt.
fn memories(folder: &Path, tries: u64, seed: u64, leaky: bool) -> Proven<Report> {
    let home = DataDir::open(folder, Env::system(), garth_agent::registry())?;
    run(async {
        for account in [OWN, OTHER] {
            home.create_account(account).await?;
            hide(&*home.account(account).await?, account).await?;
        }
        let (own, other) = (home.account(OWN).await?, home.account(OTHER).await?);
        let told = Told::default();
        // Events of others about their own memories.
        told.drain(&*own, None).await?;
        let mut before = (state(&*own).await?, state(&*other).await?);
        let kept = texts(&before.0);
        let env = Env::system();
        let request = Request::new("bot").user("alice").chat("trip").class(Class::Main);
        let access = Access::open(&own, &env, Caller::Holder, &request).await?;
        access.make().await?;
        let tree = access.tree().open().await?;
        // Events are written as files next to the memories.
        let at = |place: &str| path(place);
        let reach = Within::new([
            at("/users/alice/memories")?,
            at("/agents/bot/memories")?,
            at("/agents/bot/skills")?,
        ]);
        let reach = own.raw().confined(&Confinement::new(reach, Owner::new("tries")?)).await?;
        let tries_of = match leaky {
            true => Tries {
                memories: Memories::new(&*own, OWN).env(env.clone()),
                recaller: Recaller::new(&*own, OWN).env(env.clone()),
                fs: &*own,
                tree: &*own,
            },
            false => Tries {
                memories: access.memories(OWN),
                recaller: access.recaller(&*tree, OWN),
                fs: &*reach,
                tree: &*tree,
            },
        };
        let mut report = Report::of(["tries", "answered", "events delivered"]);
        for n in 0..tries {
            let seed = seed.wrapping_add(n);
            let (asked, answer) = tries_of.one(&mut Random::new(seed)).await;
            hold(!answer.contains(CANARY), || format!("seed {seed}: a canary is seen: {asked}: {answer}"))?;
            report.add("answered", answer.starts_with("Ok"));
            report.add("tries", 1);
            if report["tries"].is_multiple_of(ROUND) || report["tries"] == tries {
                let after = (state(&*own).await?, state(&*other).await?);
                hold(before == after, || format!("before seed {seed}: what others keep has changed"))?;
                told.drain(&*own, Some(seed)).await?;
                // Edges to moved or deleted memories follow them, and these changes are delivered.
                before = (state(&*own).await?, state(&*other).await?);
                hold(texts(&before.0) == kept, || {
                    format!("before seed {seed}: texts of others have changed")
                })?;
            }
        }
        report.set("events delivered", told.count());
        Ok(report)
    })
}

/// Draws a URI of the own owners, of another user or agent, or of another account.
fn any(random: &mut Random) -> Uri {
    let account = random.pick(&[OWN, OWN, OWN, OTHER]);
    let owner = random.pick(&[
        "users/alice",
        "users/alice",
        "agents/bot",
        "users/bob",
        "agents/eve",
        "users/alic",
        "users/alice2",
    ]);
    let slug = random.pick(&["a", "b", "c"]);
    let category = random.pick(&["events", "events", "cases", "profile", "skills"]);
    let text = match category {
        "profile" => format!("ctx://{account}/{owner}/memories/profile"),
        "skills" if owner.starts_with("agents") => format!("ctx://{account}/{owner}/skills/{slug}"),
        _ => format!("ctx://{account}/{owner}/memories/{category}/{slug}"),
    };
    text.parse().expect("the parts of a URI make one")
}

/// Interfaces by which an agent reaches memories.
struct Tries<'a> {
    memories: Memories<'a>,
    recaller: Recaller<'a>,
    /// Directories of the agent's memories, by their paths in the account.
    fs: &'a dyn FileSystem,
    /// Complete tree that the agent sees.
    tree: &'a dyn FileSystem,
}

impl Tries<'_> {
    /// Makes one attempt. Returns the call and its result.
    async fn one(&self, random: &mut Random) -> (String, String) {
        let (memories, uri, other) = (&self.memories, any(random), any(random));
        let call = random.below(16);
        let answer = match call {
            0 | 1 => {
                let mut put = Put::new(random.pick(&["The garden of Alice is a garden.", "Else."]));
                put.replaces = random.one_in(4).then_some(other.clone());
                put.edges = random.one_in(4).then(|| vec![edge(&uri, &other, "mine")]);
                format!("{:?}", memories.put(&uri, &put).await)
            }
            2 | 3 => {
                let level = random.pick(&[Level::Abstract, Level::Overview, Level::Content]);
                format!("{:?}", memories.get(&uri, level).await)
            }
            4 => format!("{:?}", memories.exists(&uri).await),
            5 => {
                let dir = uri.dir();
                let dirs: Vec<_> = dir.ancestors().chain([dir.clone()]).collect();
                let prefix = random.pick(&dirs);
                let prefix = if prefix.is_root() { Prefix::Account } else { Prefix::Below(prefix) };
                let mut list = List::new(prefix);
                list.status = random.pick(&[Status::Active, Status::Broken]);
                format!("{:?}", memories.list(&list).await)
            }
            6 => format!("{:?}", memories.tag(&uri, &["mine".to_owned()], &[CANARY.to_owned()]).await),
            7 => format!("{:?}", memories.relate(&edge(&uri, &other, "mine")).await),
            8 => format!("{:?}", memories.unrelate(&uri, &other, None).await),
            9 => {
                let direction = random.pick(&[Direction::Outgoing, Direction::Incoming, Direction::Both]);
                format!("{:?}", memories.around(&uri, &Around::new(direction).hops(3)).await)
            }
            10 => format!("{:?}", memories.move_to(&uri, &other).await),
            11 => format!("{:?}", memories.delete(&uri).await),
            12 => format!("{:?}", self.tree.search(&search(random)).await),
            13 => format!("{:?}", self.recaller.recall(&recall(random), &Key::new([7; 32])).await),
            _ => format!("{:?}", forged_events::write(self.fs, random, &uri, &other).await),
        };
        (format!("call {call} on {uri} and {other}"), answer)
    }
}

/// Draws a question that texts of others answer, too.
fn question(random: &mut Random) -> &'static str {
    random.pick(&["garden of Alice", "what is the garden of Alice", "garden", "canary", CANARY])
}

/// Draws own directories, those of others, and missing ones.
fn within(random: &mut Random) -> Vec<TreePath> {
    let some = [
        "/",
        "/ctx",
        "/ctx/users/alice/memories",
        "/ctx/users/bob/memories",
        "/users",
        "/users/bob",
        "/users/alice2/memories/events",
        "/agents/eve/memories",
        "/.agent/memories",
        "/.user",
    ];
    let paths = (0..random.below(3)).map(|_| path(random.pick(&some)).expect("it is a path"));
    paths.collect()
}

fn search(random: &mut Random) -> SearchQuery {
    let query = SearchQuery::new(question(random)).within_any(within(random));
    let tags: Option<String> = random.one_in(3).then(|| CANARY.to_owned());
    query.tags_any(tags).layers(random.one_in(2))
}

fn recall(random: &mut Random) -> Recall {
    let mut asked = Recall::new(question(random)).budget(random.pick(&[100, 500, 2_000]));
    asked.within = within(random);
    asked.tags_any.extend(random.one_in(3).then(|| CANARY.to_owned()));
    asked
}

/// Returns all data of others except relations and events.
fn texts(state: &[String]) -> Vec<String> {
    let is_text = |line: &&String| !line.contains("/.relations.json ") && !line.contains("/.outbox/");
    state.iter().filter(is_text).cloned().collect()
}

/// Returns all data of others.
async fn state(fs: &dyn FileSystem) -> Proven<Vec<String>> {
    let mut lines = Vec::new();
    for top in ["/users/bob", "/agents/eve", "/users/alic", "/users/alice2"] {
        let mut page = WalkPage::default();
        loop {
            let walk = fs.walk(&(&path(top)?).into(), &page).await?;
            for item in &walk.items {
                let content = match fs.read_file(&item.path).await {
                    Ok(content) => content,
                    Err(error) if error.is(ErrorKind::IsADirectory) => continue,
                    Err(error) => return Err(error.into()),
                };
                lines.push(format!("{} {}", item.path, String::from_utf8_lossy(&content)));
            }
            match walk.items.last().filter(|_| walk.more) {
                Some(last) => page.after = Some(last.path.clone()),
                None => break,
            }
        }
    }
    hold(!lines.is_empty(), || "others keep nothing".to_owned())?;
    Ok(lines)
}
