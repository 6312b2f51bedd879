//! `garth touch`: sets modification times, and creates empty files.

use clap::Args;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, Body, Create, Moment, Op, SetAttrs, Timestamp};

use crate::app::{App, Plan, stat_optional};
use crate::args::{CommitArgs, TREE_PATH};
use crate::fail::{Failure, Result, suggest_parents};

/// Set the modification time of files and directories; create empty files
///
/// If nothing changes, there is no commit. With --json, prints one object per path that changed:
/// path, version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth touch -d 2026-01-27T09:30Z /notes/today.md")]
pub(crate) struct Touch {
    /// Files and directories; symbolic links are followed
    #[arg(value_hint = TREE_PATH, required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Modification time [default: now]: an RFC 3339 time, a date (its start, UTC), or an age (1h, 7d)
    #[arg(short, long, value_name = "TIME")]
    date: Option<String>,
    /// Create no files
    #[arg(short = 'c', long)]
    no_create: bool,
    /// Create missing parents
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Touch {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let mtime = self.time(app.env.now())?;
        let tree = if self.no_create { app.tree().await? } else { app.tree_or_new().await? };
        app.commit(&tree, &self.commit, async || {
            let mut plan = Plan::default();
            for path in &self.paths {
                let (path, there) = stat_optional(&*tree.fs, path, Follow::Yes).await?;
                let at = At::Path(path.clone());
                let attrs = SetAttrs::new().mtime(mtime);
                match there {
                    Some(entry) if entry.mtime == mtime => {}
                    Some(_) => plan.push(Op::set_attrs(at, attrs), path),
                    None if self.no_create => {}
                    None => {
                        let (body, create) = (Body::from(Vec::new()), Create::IfMissing);
                        plan.push(Op::Write { at, body, create, parents: self.parents, attrs }, path);
                    }
                }
            }
            Ok(plan)
        })
        .await
        .map_err(suggest_parents)
    }

    fn time(&self, now: Timestamp) -> Result<Timestamp> {
        let Some(text) = &self.date else { return Ok(now) };
        // Exactly as written: as a past time of the tree, it would mean the end of its millisecond.
        if let Ok(time) = Timestamp::parse_rfc3339(text) {
            return Ok(time);
        }
        match Moment::parse(text, now)? {
            Some(Moment::Time(time)) => Ok(time),
            _ => Err(Failure::Usage(format!(
                "{text}: not a time; give an RFC 3339 time (2026-01-27T09:30Z), a date, or an age (1h, 7d)"
            ))),
        }
    }
}
