//! Cost of rules, quotas and projections for a commit, compared with the same commit without them.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use garth_engine::model::quota::Limits;
use garth_engine::model::{Batch, Op, SetAttrs};
use garth_engine::rule::{Constraint, PathPattern, Rule};

use super::content::text;
use crate::figures::Figures;
use crate::side::garth::{Garth, path};
use crate::size::Size;

/// Commits of one repetition.
const TIMES: usize = 200;
/// Rules and quotas of a tree for other paths.
const ELSEWHERE: usize = 20;

pub(crate) async fn rules(folder: &Path, size: Size, runs: usize) -> Result<Figures> {
    let data = garth::builder().open(folder)?;
    let mut accounts = Vec::new();
    for account in ["plain", "ruled"] {
        data.create_account(account).await?;
        accounts.push(Garth(data.account(account).await?));
    }
    let mut figures = Figures::default();
    guarded(&accounts[0], size, runs, &mut figures).await?;
    for n in 0..ELSEWHERE {
        set(&accounts[1], &format!("/elsewhere-{n}/**/*.jsonl"), "json-lines").await?;
        let elsewhere = path(&format!("/elsewhere-{n}"));
        accounts[1].0.set_quota(&elsewhere, Limits::default().bytes(1 << 40)).await?;
    }
    beside(&accounts, runs, &mut figures).await?;
    Ok(figures)
}

async fn set(garth: &Garth, pattern: &str, constraint: &str) -> Result<()> {
    let rule = Rule::new(PathPattern::parse(pattern)?, Constraint::parse(constraint, "{}")?);
    ensure!(garth.0.set_rule(rule, false).await?.set, "nothing breaks it");
    Ok(())
}

/// Appends a line to files of 1 MB and of 100 MB, each with and without a rule for its lines.
async fn guarded(garth: &Garth, size: Size, runs: usize, figures: &mut Figures) -> Result<()> {
    let line = format!("{{\"text\": \"{}\"}}\n", "x".repeat(187));
    let long = size.of(100, 2);
    for (dir, guards) in [("free", false), ("guarded", true)] {
        for (name, megabytes) in [("short", 1), ("long", long)] {
            let at = path(&format!("/{dir}/{name}.jsonl"));
            for n in 0..megabytes {
                let lines = line.repeat(1_000_000 / line.len());
                let op = if n == 0 { Op::write(&at, lines).with_parents() } else { Op::append(&at, lines) };
                garth.0.commit(Batch::from(op).visible()).await?;
            }
        }
        if guards {
            set(garth, "/guarded/*", "json-lines").await?;
        }
    }
    for _ in 0..runs {
        for dir in ["free", "guarded"] {
            for name in ["short", "long"] {
                let at = path(&format!("/{dir}/{name}.jsonl"));
                let start = Instant::now();
                for _ in 0..TIMES {
                    garth.0.commit(Batch::from(Op::append(&at, line.clone())).visible()).await?;
                }
                figures.time(format!("{dir} {name}"), start.elapsed(), TIMES);
            }
        }
    }
    Ok(())
}

/// Creates small files that no pattern matches, in an account without its own rules and quotas and in one
/// with some for other paths; and files with a tag, which is projected.
async fn beside(accounts: &[Garth], runs: usize, figures: &mut Figures) -> Result<()> {
    for garth in accounts {
        garth.0.commit(Op::mkdir(path("/notes")).into()).await?;
    }
    for run in 0..runs {
        for (name, garth, tags) in
            [("plain", &accounts[0], false), ("ruled", &accounts[1], false), ("tagged", &accounts[0], true)]
        {
            let start = Instant::now();
            for i in 0..TIMES {
                let body = text((run * TIMES + i) as u64);
                let op = Op::write(path(&format!("/notes/{name}-{run}-{i}")), body);
                let op = if tags { op.with_attrs(SetAttrs::new().tags(["one"])) } else { op };
                garth.0.commit(Batch::from(op).visible()).await?;
            }
            figures.time(name, start.elapsed(), TIMES);
        }
    }
    Ok(())
}
