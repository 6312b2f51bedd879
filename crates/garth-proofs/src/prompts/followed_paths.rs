//! Paths that prompts name are valid: each is followed through the tree that the prompt is for. It names the
//! file that the account has there, or a path where the reader may write what the next prompt then contains.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use garth_agent::session::Create;
use garth_agent::workspace::{Init, PathsOf, Prompt, PromptOptions, Workspace};
use garth_agent::{Access, Caller, Request};
use garth_engine::env::Env;
use garth_engine::error::{ErrorKind, OptionalExt as _};
use garth_engine::fs::{AccountStore, FileSystem, FileSystemExt as _};
use garth_engine::model::{At, ByteRange, Kind, Moment, Op, Timestamp};
use garth_engine::{DataDir, TreePath};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold, path, run};

use super::workspaces::{CLASSES, Making, world};
use crate::reference::civil_time;
use crate::reference::prompt::{World, audience};

/// Reads each path that the prompts of random workspaces name. The size is the number of prompts.
#[derive(Clone, Copy, Debug, Default)]
pub struct FollowedPaths {
    /// Names the paths of the account to a reader of a chat's tree: a negative control.
    pub of_account: bool,
}

impl Proof for FollowedPaths {
    fn about(&self) -> About {
        About {
            name: "prompt-paths",
            claim: "Each path in a prompt is read through the tree that the prompt is for.",
            full: 1_000,
            ci: 60,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        run(self.random(setting))
    }
}

const COUNTS: [&str; 5] =
    ["prompts", "prompts of first runs", "paths read", "paths written and shown", "prompts built again"];

impl FollowedPaths {
    async fn random(&self, setting: &Setting<'_>) -> Proven<Report> {
        let data = DataDir::open(&setting.folder.join("data"), Env::system(), garth_agent::registry())?;
        data.create_account("default").await?;
        let account = data.account("default").await?;
        let (mut report, mut number) = (Report::of(COUNTS), 0);
        let skills = [("pdf", "Reads."), ("calendar", "Knows days."), ("web search", "Finds `it`.")];
        for (directory, text) in skills {
            let file = path(&format!("/skills/{directory}/SKILL.md"))?;
            account.commit(Op::write(file, text).with_parents().into()).await?;
        }
        while report["prompts"] < setting.size {
            let seed = setting.seed.wrapping_mul(1_000_003).wrapping_add(number);
            let done = self.workspace(&account, (number, seed), &mut report).await;
            done.map_err(|broken| Broken::because(format!("workspace {number}, seed {seed}: {broken}")))?;
            number += 1;
        }
        Ok(report)
    }

    /// Creates a random workspace and follows the paths of its prompts, of each class and for the account.
    async fn workspace(
        &self,
        account: &Arc<dyn AccountStore>,
        (number, seed): (u64, u64),
        report: &mut Report,
    ) -> Proven<()> {
        let mut random = Random::new(seed);
        // From 2012 to 2035.
        let now = 1_325_376_000 + random.below(24 * 365 * 86_400).cast_signed();
        let (env, clock) = Env::manual(Timestamp(now * 1_000_000_000));
        let agent = format!("a{number}");
        let of_templates = random.one_in(3);
        let world = world(agent.clone(), now, &BTreeMap::new());
        let mut making = Making { fs: &**account, random, world, env: env.clone(), clock };
        if of_templates {
            Workspace::new(&**account, &agent)?.env(env.clone()).init(&Init::default()).await?;
        } else {
            making.all(true).await?;
        }
        for class in CLASSES {
            let request = Request::new(&agent);
            let request = match class {
                "main" => request,
                "dm" => request.user(audience(class)),
                _ => request.key(format!("agent:{agent}{}", audience(class)).parse()?),
            };
            let access = Access::open(account, &env, Caller::ApiKey, &request).await?;
            access.make().await?;
            let tree = access.tree().open().await?;
            let of = if self.of_account { PathsOf::Account } else { PathsOf::Chat };
            let reader =
                Reader { account, tree: &*tree, agent: &agent, audience: audience(class), chat: true };
            let workspace = access.workspace().paths_of(of);
            let prompt = workspace.prompt(&PromptOptions::default()).await?;
            reader.follow(&workspace, &prompt, &making.world, report).await.map_err(|broken| {
                Broken::because(format!("class {class}: {broken}; the prompt is {:?}", prompt.text))
            })?;
            again(&access, report).await?;
        }
        let reader = Reader { account, tree: &**account, agent: &agent, audience: "", chat: false };
        let workspace = Workspace::new(&**account, &agent)?.env(env);
        let prompt = workspace.prompt(&PromptOptions::default()).await?;
        reader.follow(&workspace, &prompt, &making.world, report).await
    }
}

/// Fails unless the prompt of a session can be built again byte for byte.
async fn again(access: &Access, report: &mut Report) -> Proven<()> {
    let (sessions, workspace) = (access.sessions(), access.workspace());
    let mut create = Create::new("work");
    create.key = access.identity().key().cloned();
    sessions.create(&create).await?;
    let of = PromptOptions::default().session(access.identity().audience(), "work");
    let told = workspace.prompt(&of).await?;
    let again = workspace.prompt(&of.at(Moment::Time(Timestamp(i64::MAX)))).await?;
    hold(again.text == told.text && again.replayed.is_some_and(|of| of.same), || {
        format!("built again it is {:?}, and was {:?}", again.text, told.text)
    })?;
    report.add("prompts built again", 1);
    Ok(())
}

/// Reader of a prompt, and the tree that it works in.
struct Reader<'a> {
    account: &'a Arc<dyn AccountStore>,
    tree: &'a dyn FileSystem,
    agent: &'a str,
    audience: &'a str,
    /// False for a reader of the account's root.
    chat: bool,
}

impl Reader<'_> {
    /// Follows each path of a prompt.
    async fn follow(
        &self,
        workspace: &Workspace<'_>,
        prompt: &Prompt,
        world: &World,
        report: &mut Report,
    ) -> Proven<()> {
        report.add("prompts", 1);
        report.add("prompts of first runs", prompt.bootstrap);
        let today = civil_time::name(civil_time::day(world.zone.as_deref().unwrap_or("UTC"), world.now));
        for named in paths_of(&prompt.text) {
            hold(named.starts_with('/'), || format!("`{named}` is not a path of a tree"))?;
            let named = path(&named.replace("YYYY-MM-DD", &today))?;
            let lies = self.in_account(&named)?;
            let is = self.tree.stat(&At::from(&named)).await.optional()?;
            let due = self.account.stat(&At::from(&lies)).await.optional()?;
            match (is, due) {
                // An overlay merges the entries of several directories, so the inode of a directory need not
                // match.
                (Some(is), Some(due)) if due.is_dir() => {
                    hold(is.is_dir(), || format!("{named} is {:?}", is.kind))?;
                }
                (Some(is), Some(due)) => {
                    // The same node, not an equal copy.
                    hold(is.ino == due.ino, || format!("{named} is another file than {lies}"))?;
                    if is.kind == Kind::File {
                        let read = self.tree.read(&At::from(&named), ByteRange::ALL).await?;
                        let due = self.account.read(&At::from(&lies), ByteRange::ALL).await?;
                        hold(read == due, || format!("{named} has other bytes than {lies}"))?;
                    }
                }
                (None, None) if !prompt.bootstrap => {
                    self.write(workspace, &named, &lies).await?;
                    report.add("paths written and shown", 1);
                    continue;
                }
                (None, None) => continue,
                (is, due) => {
                    let [is, due] = [is.is_some(), due.is_some()];
                    let what = format!("{named} is there: {is}, and {lies}: {due}");
                    return Err(Broken::because(what));
                }
            }
            report.add("paths read", 1);
        }
        Ok(())
    }

    /// Writes a missing file that a prompt names. The next prompt contains it.
    async fn write(&self, workspace: &Workspace<'_>, named: &TreePath, lies: &TreePath) -> Proven<()> {
        let text = format!("Written to {}.", lies.as_str().replace('/', " "));
        let write = Op::write(named.clone(), text.clone()).with_parents();
        self.tree.commit(write.into()).await?;
        let written = self.account.read_to_string(lies.as_str()).await?;
        hold(written == text, || format!("{named} was written, and {lies} says {written:?}"))?;
        let next = workspace.prompt(&PromptOptions::default()).await?;
        hold(next.text.contains(&text), || {
            format!("{named} was written, and the next prompt is without it")
        })?;
        // The readers of the other classes must find the workspace unchanged.
        match self.account.commit(Op::remove(lies.clone()).into()).await {
            Err(error) if error.is(ErrorKind::NotFound) => Ok(()),
            removed => Ok(removed.map(drop)?),
        }
    }

    /// Returns the account's path of a path of the tree.
    fn in_account(&self, named: &TreePath) -> Proven<TreePath> {
        if !self.chat {
            return Ok(named.clone());
        }
        let Self { agent, audience, .. } = self;
        for (shown, lies) in [
            ("/.agent", format!("/agents/{agent}")),
            ("/.user", format!("/users/{audience}/agents/{agent}")),
            ("/ctx/skills", "/skills".to_owned()),
        ] {
            match named.as_str().strip_prefix(shown) {
                Some("") => return path(&lies),
                Some(rest) if rest.starts_with('/') => return path(&format!("{lies}{rest}")),
                _ => {}
            }
        }
        Err(Broken::because(format!("{named} is at no place of the tree")))
    }
}

/// Returns the words between backticks of a prompt that look like paths.
fn paths_of(text: &str) -> BTreeSet<String> {
    let looks =
        |text: &&str| text.contains('/') || [".md", ".json", ".jsonl"].iter().any(|end| text.ends_with(end));
    // Every second part of a line is between backticks.
    let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted.filter(looks).map(str::to_owned).collect()
}
