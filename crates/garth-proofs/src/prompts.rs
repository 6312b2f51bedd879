//! Prompts of random workspaces are, byte by byte, those of a reference implementation that follows the table
//! of sections naively. The manifest agrees, and recorded prompts can be rebuilt.

pub mod followed_paths;
mod workspaces;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bpe_openai::o200k_base;
use garth_agent::session::{Create, Format, Sessions};
use garth_agent::workspace::{Inputs, Prompt, PromptCache, PromptOptions, Workspace};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::env::Env;
use garth_engine::model::{Batch, Moment, Op, Timestamp};
use garth_engine::{DataDir, FileSystem};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold, path, run};
use serde_json::{Value, json};

use self::workspaces::{CLASSES, Making, author, world};
use crate::reference::civil_time;
pub use crate::reference::prompt::Misread;
use crate::reference::prompt::{Naive, World, audience, seen, sha256, whole};

/// Prompts of random workspaces compared with a reference implementation. The size is the number of
/// workspaces.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prompts {
    /// Mistake of the reference implementation: a negative control.
    pub misread: Option<Misread>,
}

impl Proof for Prompts {
    fn about(&self) -> About {
        About {
            name: "prompts",
            claim: "Prompts are, byte for byte, those of a second implementation.",
            full: 1_000,
            ci: 120,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        random(setting.folder, setting.size, setting.seed, true, self.misread)
    }
}

/// Counts of a run.
const COUNTS: [&str; 4] = ["workspaces", "prompts", "prompts of first runs", "prompts built again"];

/// Compares the prompts of `count` random workspaces, on SQLite and in memory; with skills or without.
///
/// # Errors
/// The difference, with the seed.
fn random(folder: &Path, count: u64, seed: u64, skills: bool, misread: Option<Misread>) -> Proven<Report> {
    run(async {
        let data = DataDir::open(&folder.join("data"), Env::system(), garth_agent::registry())?;
        data.create_account("default").await?;
        let sqlite = data.account("default").await?;
        let (mut report, cache) = (Report::of(COUNTS), PromptCache::default());
        let mut of_all = BTreeMap::new();
        for number in 0..count {
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(number);
            let is_sqlite = number % 2 == 1;
            let fs: Arc<dyn FileSystem> = if is_sqlite {
                Arc::clone(&sqlite) as _
            } else {
                Arc::new(MemoryFs::new(Env::system(), garth_agent::registry()))
            };
            let mut random = Random::new(seed);
            // From 2012 to 2035.
            let now = 1_325_376_000 + random.below(24 * 365 * 86_400).cast_signed();
            let (env, clock) = Env::manual(Timestamp(now * 1_000_000_000));
            let mut global = if is_sqlite { of_all.clone() } else { BTreeMap::new() };
            let world = world(format!("a{number}"), now, &BTreeMap::new());
            let mut making = Making { fs: &*fs, random, world, env: env.clone(), clock };
            if skills && global.is_empty() {
                for directory in ["pdf", "calendar"] {
                    let (text, told) = making.skill(directory);
                    let file = path(&format!("/skills/{directory}/SKILL.md"))?;
                    fs.commit(Op::write(file, text).with_parents().into()).await?;
                    global.insert(directory.to_owned(), told);
                }
            }
            if is_sqlite {
                of_all.clone_from(&global);
            }
            making.world.skills[1] = global;
            let done = async {
                making.all(skills).await?;
                compare(&mut making, &cache, misread, &mut report).await
            };
            done.await
                .map_err(|broken| Broken::because(format!("workspace {number}, seed {seed}: {broken}")))?;
            report.add("workspaces", 1);
        }
        Ok(report)
    })
}

/// Compares the prompts of a workspace for each class, which the cache may know in part, and for a session.
async fn compare(
    making: &mut Making<'_>,
    cache: &PromptCache,
    misread: Option<Misread>,
    report: &mut Report,
) -> Proven<()> {
    let fs = making.fs;
    for class in CLASSES {
        let mut world = making.world.clone();
        world.class = class.to_owned();
        let workspace = workspace(making, class)?.cache(cache, "default");
        let prompt = workspace.prompt(&PromptOptions::default().inputs(inputs(&world)?)).await?;
        same(&prompt, &world, misread, report)?;
    }
    let class = making.random.pick(&CLASSES);
    let agent = making.world.agent.clone();
    let audience = audience(class);
    let sessions = Sessions::new(fs, audience, &agent)?.env(making.env.clone()).author(author(&agent, class));
    let mut create = Create::new("work");
    let key = match class {
        "main" => making.random.one_in(2).then(|| format!("agent:{agent}:main")),
        "dm" => making.random.one_in(2).then(|| format!("agent:{agent}:dm:x")),
        _ => Some(format!("agent:{agent}{audience}")),
    };
    create.key = key.as_deref().map(str::parse).transpose()?;
    create.model = making.random.one_in(2).then(|| "a-model".to_owned());
    let mut world = making.world.clone();
    world.class = class.to_owned();
    world.session = Some([Some(audience.to_owned()), Some("work".to_owned()), key, create.model.clone()]);
    sessions.create(&create).await?;
    let of = PromptOptions::default().session(audience, "work");
    // The class of the session counts, not that of the caller.
    let workspace = Workspace::new(fs, &agent)?.env(making.env.clone());
    let told = workspace.prompt(&of.clone().inputs(inputs(&world)?)).await?;
    same(&told, &world, misread, report)?;
    let home = format!("/agents/{agent}");
    let changes = [
        Op::write(path(&format!("{home}/SOUL-new.md"))?, "another soul"),
        // The recorded prompt must not depend on the present files.
        Op::rename(path(&home)?, path(&format!("/away/{agent}"))?),
    ];
    fs.commit(Batch::new([Op::mkdir_all(path("/away")?)]).visible()).await?;
    fs.commit(Batch::new(changes).visible()).await?;
    let again = workspace.prompt(&of.at(Moment::Seq(fs.head().await?.seq))).await?;
    hold(again.text == told.text && again.replayed.is_some_and(|of| of.same), || {
        format!("built again it is {:?}, and was {:?}", again.text, told.text)
    })?;
    report.add("prompts built again", 1);
    Ok(())
}

fn workspace<'a>(making: &Making<'a>, class: &str) -> Proven<Workspace<'a>> {
    let author = author(&making.world.agent, class);
    Ok(Workspace::new(making.fs, &making.world.agent)?.env(making.env.clone()).author(author))
}

fn inputs(world: &World) -> Proven<Inputs> {
    let hosts: Vec<Value> = world.hosts.iter().map(|id| json!({"id": id})).collect();
    let inputs = json!({"hosts": hosts, "runtime": world.runtime});
    serde_json::from_value(inputs).map_err(|error| Broken::because(error.to_string()))
}

/// Fails unless a prompt and its manifest equal those of the second implementation.
fn same(prompt: &Prompt, world: &World, misread: Option<Misread>, report: &mut Report) -> Proven<()> {
    let due = crate::reference::prompt::prompt(world, misread);
    hold(prompt.text == due.text, || {
        let at = prompt.text.bytes().zip(due.text.bytes()).take_while(|(is, due)| is == due).count();
        format!(
            "for {} the prompt differs at byte {at}:\n{:?}\nand not\n{:?}",
            world.class, prompt.text, due.text
        )
    })?;
    let manifest = prompt.manifest();
    let expect = |what: &str, is: Value, due: Value| {
        hold(is == due, || format!("for {} {what} is {is}, and not {due}", world.class))
    };
    let included: Vec<_> = prompt.parts.iter().filter(|part| part.included).map(|part| part.name).collect();
    expect("what is in it", json!(included), json!(due.parts))?;
    expect("the hash", manifest["sha256"].clone(), json!(sha256(&due.text)))?;
    expect("the number of tokens", manifest["tokens"].clone(), json!(o200k_base().count(&due.text)))?;
    let stable = json!({"bytes": due.stable, "sha256": sha256(&due.text[..due.stable])});
    expect("the stable prefix", manifest["stable"].clone(), stable)?;
    let is_first = world.class == "main" && world.files.contains_key("BOOTSTRAP.md");
    expect("whether it is a first run", manifest["bootstrap"].clone(), json!(is_first))?;
    let mut tokens = 0;
    for part in &prompt.parts {
        let said = prompt.said(part);
        if part.included {
            // Each part begins with its heading, if it has one. The parts before it have all tokens up to
            // that heading.
            let before = &prompt.text[..part.range.start];
            let heading = format!("## {}\n\n", part.section);
            let before = before.strip_suffix(&heading).unwrap_or(before);
            expect("the tokens before a part", json!(tokens), json!(o200k_base().count(before)))?;
        }
        tokens += part.tokens;
        let (file, content) = file_of(world, part.name);
        expect(part.name, json!(part.file), json!(file))?;
        expect(part.name, json!(part.sha256), json!(content.map(|content| sha256(&content))))?;
        hold(part.included != said.is_empty() && !part.reason.is_empty(), || {
            format!("{part:?} says {said:?}")
        })?;
    }
    lists(prompt, &due)?;
    report.add("prompts", 1);
    report.add("prompts of first runs", is_first);
    for name in due.parts {
        report.add_in("prompts with the part", name, 1);
    }
    Ok(())
}

/// Returns the path and the text of the file that a part shows.
fn file_of(world: &World, part: &str) -> (Option<String>, Option<String>) {
    let home = format!("/agents/{}", world.agent);
    let of_audience = format!("/users/{}{home}", audience(&world.class));
    let is_main = world.class == "main";
    let today = civil_time::day(world.zone.as_deref().unwrap_or("UTC"), world.now);
    let is_shared = world.shares_user && world.files.contains_key("USER.md");
    let (home, name) = match part {
        "bootstrap" if !is_main => return (None, None),
        "memory" if !is_main => (of_audience, "memory/MEMORY.md".to_owned()),
        "user" if !is_main && !is_shared => (of_audience, "USER.md".to_owned()),
        "soul" | "identity" | "user" | "agents" | "memory" | "tools" | "heartbeat" | "bootstrap" => {
            (home, format!("{}.md", part.to_uppercase()))
        }
        "fragments" => (home, "fragments.jsonl".to_owned()),
        "yesterday" | "today" => {
            let day = civil_time::name(if part == "today" { today } else { today - 1 });
            let home = if is_main { home } else { of_audience };
            let shown = seen(world, &day).and_then(|_| whole(world, &world.class, &day));
            return (shown.as_ref().map(|_| format!("{home}/memory/{day}.md")), shown);
        }
        _ => return (None, None),
    };
    let key = if home.starts_with("/users/") { format!("{}/{name}", world.class) } else { name.clone() };
    let content = world.files.get(&key).cloned();
    (content.as_ref().map(|_| format!("{home}/{name}")), content)
}

/// Fails unless the message lists for providers contain the text of the prompt.
fn lists(prompt: &Prompt, due: &Naive) -> Proven<()> {
    let list = |format| {
        serde_json::from_str::<Value>(&prompt.list(format))
            .map_err(|error| Broken::because(error.to_string()))
    };
    let openai = list(Format::OpenAi)?;
    hold(openai == json!([{"role": "system", "content": due.text}]), || format!("the list is {openai}"))?;
    let anthropic = list(Format::Anthropic)?;
    let blocks = anthropic.as_array().cloned().unwrap_or_default();
    let texts: Vec<_> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    let is_first_stable = blocks.len() == 1 || texts.first().is_some_and(|text| text.len() == due.stable);
    hold(texts.concat() == due.text && is_first_stable, || format!("the list is {anthropic}"))
}
