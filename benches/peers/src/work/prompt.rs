//! Cost of building a prompt, and the part of it that is stable between the calls of a day.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use garth_agent::session::{Create, Sessions};
use garth_agent::workspace::{PromptCache, PromptOptions, Workspace};
use garth_engine::env::ManualClock;
use garth_engine::model::{Author, Batch, Op, Timestamp};
use garth_engine::{Env, FileSystem, TreePath};

use super::content::text;
use crate::figures::Figures;
use crate::size::Size;

/// Files of a workspace, and the size of one in bytes. With fragments, settings, two daily memories and the
/// facts about the session they are 12.
const FILES: [&str; 7] =
    ["SOUL.md", "IDENTITY.md", "USER.md", "AGENTS.md", "MEMORY.md", "TOOLS.md", "HEARTBEAT.md"];
const FILE: usize = 2048;
/// Skills, half of the agent and half of all agents.
const SKILLS: usize = 50;
/// Prompts of one repetition.
const PROMPTS: usize = 500;
/// Calls of a day, and the interval between those that remember something.
const CALLS: usize = 200;
const REMEMBERED: usize = 10;
/// 2026-01-27 00:10 UTC.
const START: Timestamp = Timestamp(1_769_472_600_000_000_000);

pub(crate) async fn prompt(folder: &Path, size: Size, runs: usize) -> Result<Figures> {
    let data = garth::builder().open(folder)?;
    data.create_account("prompt").await?;
    let account = data.account("prompt").await?;
    let (env, clock) = Env::manual(START);
    let mut figures = Figures::default();
    for (order, agent) in [("normal", "scout"), ("cache", "coder")] {
        fill(&*account, agent, order).await?;
        let author = Author::agent(agent).with_class("main");
        let workspace = Workspace::new(&*account, agent)?.env(env.clone()).author(author);
        clock.set(START);
        day(&workspace, &clock, order, size, &mut figures).await?;
    }
    let sessions = Sessions::new(&*account, "ann", "scout")?.env(env.clone());
    sessions.create(&Create::new("work")).await?;
    let cache = PromptCache::default();
    let workspace = Workspace::new(&*account, "scout")?.env(env.clone()).cache(&cache, "prompt");
    let options = PromptOptions::default().session("ann", "work").dry();
    for _ in 0..runs {
        let mut latencies = Vec::new();
        for _ in 0..size.of(PROMPTS, 20) {
            let start = Instant::now();
            let built = workspace.prompt(&options).await?;
            latencies.push(start.elapsed());
            ensure!(built.parts.iter().filter(|part| part.included).count() == 13, "all sections are there");
        }
        figures.latencies("prompt", latencies);
    }
    Ok(figures)
}

/// Creates the workspace of an agent.
async fn fill(account: &dyn FileSystem, agent: &str, order: &str) -> Result<()> {
    let home = format!("/agents/{agent}");
    let piece = |n: usize| String::from_utf8_lossy(&text(n as u64)[..FILE]).into_owned();
    let settings = format!(r#"{{"prompt":{{"order":"{order}"}}}}"#);
    let fragment = "{\"id\":\"a\",\"type\":\"guardrail\",\"text\":\"Never guess.\"}\n";
    let mut files = vec![
        (format!("{home}/settings.json"), settings),
        (format!("{home}/fragments.jsonl"), fragment.to_owned()),
    ];
    files.extend(FILES.iter().enumerate().map(|(n, name)| (format!("{home}/{name}"), piece(n))));
    files.extend((0..SKILLS).map(|n| {
        let home = if n % 2 == 0 { home.as_str() } else { "" };
        let head = format!("---\nname: skill {n}\ndescription: What to do where {n} is asked for\n---\n");
        (format!("{home}/skills/s{n}/SKILL.md"), head + &piece(n))
    }));
    let write =
        |(path, content): (String, String)| Ok(Op::write(TreePath::parse(&path)?, content).with_parents());
    account.commit(Batch::new(files.into_iter().map(write).collect::<Result<Vec<_>>>()?)).await?;
    Ok(())
}

/// Measures the calls of a day, each minutes after the previous one: the common prefix of a prompt with its
/// predecessor, as a fraction of its bytes.
async fn day(
    workspace: &Workspace<'_>,
    clock: &ManualClock,
    order: &str,
    size: Size,
    figures: &mut Figures,
) -> Result<()> {
    let (mut kept, mut all) = (0, 0);
    let options = PromptOptions::default();
    let today = workspace.day_of(START).await?;
    for day in [today.before(), today] {
        workspace.add_daily(Some(day), "The day began.").await?;
    }
    let mut before = workspace.prompt(&options).await?;
    for call in 0..size.of(CALLS, CALLS) {
        // 200 calls of 7 minutes stay within one day.
        clock.advance(Duration::from_secs(7 * 60));
        if call % REMEMBERED == 0 {
            workspace.add_daily(None, &format!("In call {call} something was learnt.")).await?;
        }
        let next = workspace.prompt(&options).await?;
        kept += next.since(&before).common_bytes;
        all += next.text.len() as u64;
        ensure!(next.stable == before.stable, "what is called stable stays");
        before = next;
    }
    figures.add(format!("kept {order}"), kept as f64 / all as f64);
    Ok(())
}
