//! Isolation: canaries in another account, and of another agent in the same account, are never seen, whatever
//! paths, links, patterns and ids are tried. The attempts are generated from a seed.

mod tries;
mod world;

use std::future::Future;

use futures::executor::block_on;
use garth_agent::kv::{Kv, Put};
use garth_engine::home::{NewKey, Scope};
use garth_engine::model::{Batch, Op, SetAttrs};
use garth_engine::{ErrorKind, FileSystem, Home};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, at, hold, run, sound, write};
use serde_json::value::RawValue;

use self::tries::Tries;
use self::world::{KEYS, TREES, VICTIM, World};

/// Canary in all data of the other account.
const FOREIGN: &str = "canary-of-another-account";
/// Canary in all data of the other agent.
const HIDDEN: &str = "canary-of-another-agent";

/// Attempts of one account, and of one agent, to read data of another. The size is the number of attempts.
#[derive(Clone, Copy, Debug)]
pub struct Accounts;

impl Proof for Accounts {
    fn about(&self) -> About {
        About {
            name: "account-isolation",
            claim: "No path, link, glob or id reaches another account or another agent.",
            full: 200_000,
            ci: 20_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        isolation(setting)
    }
}

/// Makes attempts from one account of a home to reach another one.
///
/// # Errors
/// A canary that was seen, or one that is missing afterwards; with the seed of the attempt.
fn isolation(setting: &Setting<'_>) -> Proven<Report> {
    let home = setting.storage.home(setting.folder, garth_agent::registry())?;
    for id in [VICTIM, TREES, KEYS] {
        block_on(home.create_account(id))?;
    }
    let (victim, trees, keys) =
        (block_on(home.open(VICTIM))?, block_on(home.open(TREES))?, block_on(home.open(KEYS))?);
    let (_, token) = block_on(home.issue_key(NewKey::new(Some(VICTIM), &[Scope::Admin])))?;
    run(async {
        hide(&*victim, FOREIGN, VICTIM).await?;
        hide(&*victim, FOREIGN, "default").await?;
        hide(&*keys, HIDDEN, VICTIM).await
    })?;
    // The head is enough: any change would be a commit.
    let before = run(state(&*victim))?;
    let hidden = run(values(&*keys))?;
    let folders = folders(&*home)?;
    let world = World { home, trees, keys, token: token.reveal().to_owned(), folders };
    let mut report = Report::of(["tries on the tree", "tries on keys", "tries of ids", "answered"]);
    for n in 0..setting.size {
        let seed = setting.seed.wrapping_add(n);
        let told = |error| Broken::because(format!("seed {seed}: {error}"));
        one(&world, seed, &mut report).map_err(told)?;
    }
    hold(run(state(&*victim))? == before, || "the other account was changed".to_owned())?;
    hold(run(values(&*world.keys))? == hidden, || "the other agent's values were changed".to_owned())?;
    sound(&*world.trees)?;
    sound(&*world.keys)?;
    sound(&*victim)?;
    Ok(report)
}

fn one(world: &World, seed: u64, report: &mut Report) -> Proven<()> {
    let mut tries = Tries::new(Random::new(seed), world);
    let (told, counted) = match seed % 4 {
        0 | 1 => (run_here(tries.tree())?, "tries on the tree"),
        2 => (run_here(tries.keys())?, "tries on keys"),
        _ => (tries.ids()?, "tries of ids"),
    };
    report.add(counted, 1);
    report.add("answered", told.answered);
    for canary in [FOREIGN, HIDDEN] {
        hold(!told.text.contains(canary), || format!("`{canary}` is seen in {}", told.text))?;
    }
    Ok(())
}

/// Returns the place of the home, and the folders of the accounts, by name and by complete path.
fn folders(home: &dyn Home) -> Proven<Vec<String>> {
    let mut folders = vec![home.place()];
    for account in block_on(home.accounts("", 100))? {
        let path = home.folder().map(|folder| folder.join("accounts").join(&account.folder));
        folders.extend(path.map(|path| path.to_string_lossy().into_owned()));
        folders.push(account.folder);
    }
    Ok(folders)
}

/// Runs one of thousands of small calls, without a runtime of its own.
fn run_here<T>(work: impl Future<Output = Proven<T>>) -> Proven<T> {
    futures::executor::block_on(work)
}

/// Stores canaries as content, names, link targets, tags, messages and values.
async fn hide(fs: &dyn FileSystem, canary: &str, agent: &str) -> Proven<()> {
    let kv = Kv::new(fs, agent).map_err(|error| Broken::because(error.to_string()))?;
    let text = format!("\"{canary}\"");
    let value: &RawValue = serde_json::from_str(&text).map_err(|error| Broken::because(error.to_string()))?;
    for path in ["/a", "/user/secret", "/canary", "/b/c"] {
        let tags = Some(vec![canary.to_owned()]);
        let put = Put { tags, searchable: Some(true), ..Put::anew(path, value) };
        kv.put(&put, None).await.map_err(|error| Broken::because(error.to_string()))?;
    }
    if canary == FOREIGN && agent == VICTIM {
        let attrs = SetAttrs::new().tags([canary]);
        let target = format!("/{canary}/target");
        let batch = Batch {
            message: canary.to_owned(),
            ..Batch::new([
                write(&format!("/{canary}/note.md"), format!("garden {canary}\n"))?,
                write("/secret.md", format!("secret garden {canary}\n"))?,
                Op::symlink(at("/link")?, target).with_attrs(attrs),
                Op::snapshot(canary),
            ])
        };
        fs.commit(batch).await?;
    }
    Ok(())
}

async fn state(fs: &dyn FileSystem) -> Proven<String> {
    Ok(format!("{:?}", fs.head().await?))
}

/// Returns the files and versions of the other agent, which attempts by keys must not change.
async fn values(fs: &dyn FileSystem) -> Proven<String> {
    let page = garth_engine::model::WalkPage::default().limit(1000).with_entries();
    match fs.walk(&at("/agents/victim/kv")?, &page).await {
        Ok(walk) => Ok(walk.items.iter().map(|item| format!("{} {:?}\n", item.path, item.ino)).collect()),
        Err(error) if error.is(ErrorKind::NotFound) => Ok(String::new()),
        Err(error) => Err(error.into()),
    }
}
