//! `garth watch`: changes, as they become durable.

use clap::Args;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Changes, ChangesQuery, LogPosition, Seq};
use garth_engine::{Error, FileSystem};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::{App, resolve_path};
use crate::args::TREE_PATH;
use crate::fail::{Failure, Result};
use crate::history::{change_json, change_text};
use crate::out::{author_text, commit_json};
use crate::terminal;

/// Print each change of files as it becomes durable, until Ctrl-C
///
/// Prints one line for each change: sequence, time, author, kind and path. A directory that is moved, copied
/// or removed is one change. It runs until Ctrl-C or until its output is closed, and then prints a cursor on
/// stderr: with --since, a later run goes on after it and misses nothing. After Ctrl-C it repeats nothing
/// either; a reader that closes the output may get its last lines again.
///
/// With --json, prints one object per change (seq, time, author, message, kind, path, cursor), and at the end
/// an object with the cursor on stderr. After a crash of the reader, go on with the cursor of the last line
/// that it has handled; changes of a commit that it has not read completely are printed again.
///
/// Changes that retention has removed cannot be printed: it fails, and prints the first cursor that works.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth watch\n  \
        garth watch /notes --since yesterday\n  \
        garth watch /notes --json | while read -r change; do echo \"$change\"; done")]
pub(crate) struct Watch {
    /// File or directory to watch, with everything below it. It need not exist
    #[arg(value_hint = TREE_PATH, default_value = "/")]
    path: String,
    /// Begin after this cursor, or this time (as for --at) [default: now]
    #[arg(long, value_name = "CURSOR|SEQUENCE|TIME|NAME")]
    since: Option<String>,
}

impl Watch {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.tree().await?.fs;
        let path = resolve_path(&*fs, &self.path, Follow::No).await?;
        // Before the first read, so that no signal ends it without its cursor.
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::stdio)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::stdio)?;
        let mut query = ChangesQuery::since(self.start(app, &*fs).await?);
        if !path.is_root() {
            query = query.within(path);
        }
        let ended = tokio::select! {
            ended = follow(app, &*fs, &mut query) => ended,
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        };
        if let Err(Failure::Tree(error)) = &ended
            && let Some(oldest) = error.oldest()
        {
            // The changes up to it are no longer stored: a run from the same cursor would fail again.
            query.since = Seq(oldest).into();
        }
        let cursor = cursor_text(query.since);
        match app.out.is_json() {
            true => terminal::tell_json(&json!({"cursor": cursor})),
            false => terminal::tell(format_args!("to continue, add --since {cursor}")),
        }
        ended
    }

    /// Returns the position where to begin.
    async fn start(&self, app: &App, fs: &dyn FileSystem) -> Result<LogPosition> {
        let head = fs.head().await?.seq;
        let Some(text) = &self.since else {
            // A position after a commit that a crash undoes would miss the commit in its place.
            fs.view_base().settle(head).await?;
            return Ok(head.into());
        };
        let start = match cursor(text) {
            Some(position) => position,
            None => app.as_of(fs, text).await?.head().await?.seq.into(),
        };
        if start.seq > head {
            let message =
                format!("--since {text}: the last commit is {head}; the cursor is one of another log");
            return Err(Error::invalid(message).into());
        }
        Ok(start)
    }
}

/// Prints changes, and waits for more. Moves the position of the query after the changes that were printed.
async fn follow(app: &mut App, fs: &dyn FileSystem, query: &mut ChangesQuery) -> Result {
    loop {
        let page = fs.changes(query).await?;
        let last = Seq(page.until.seq.0 + u64::from(page.until.changes > 0));
        fs.view_base().settle(last).await?;
        show(app, query.since, &page)?;
        app.out.flush()?;
        query.since = page.until;
        if page.until.seq >= page.head {
            fs.wait(page.until.seq).await?;
        }
    }
}

/// Prints a page that begins at a position.
fn show(app: &mut App, start: LogPosition, page: &Changes) -> Result {
    let mut before = start;
    for (number, commit) in page.commits.iter().enumerate() {
        // Only the last commit may be cut.
        let is_last = number + 1 == page.commits.len();
        let after = if is_last { page.until } else { commit.commit.seq.into() };
        let info = &commit.commit;
        let (time, author) = (info.time.to_rfc3339(), author_text(&info.author));
        for (number, change) in commit.changes.iter().enumerate() {
            let is_complete = number + 1 == commit.changes.len();
            let mut json = commit_json(info);
            if let (Some(line), Some(change)) = (json.as_object_mut(), change_json(change).as_object()) {
                line.extend(change.clone());
                line.insert(
                    "cursor".to_owned(),
                    cursor_text(if is_complete { after } else { before }).into(),
                );
            }
            let text = format!("{:<6}  {time}  {author}  {}", info.seq.0, change_text(change));
            app.out.item(&json, text)?;
        }
        before = after;
    }
    Ok(())
}

/// Returns a position as a cursor: a sequence, and the number of changes after it if there are any.
fn cursor_text(position: LogPosition) -> String {
    match position.changes {
        0 => position.seq.to_string(),
        changes => format!("{}+{changes}", position.seq),
    }
}

/// Returns the position of a cursor; `None` for any other text.
fn cursor(text: &str) -> Option<LogPosition> {
    let (seq, changes) = text.split_once('+').unwrap_or((text, "0"));
    Some(LogPosition { seq: Seq(seq.parse().ok()?), changes: changes.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_read_back() {
        for position in [LogPosition::from(Seq(41)), LogPosition { seq: Seq(41), changes: 7 }] {
            assert_eq!(cursor(&cursor_text(position)), Some(position));
        }
        for other in ["", "+1", "yesterday", "1h", "41+", "41+x", "2026-01-27T00:00:00+01:00"] {
            assert_eq!(cursor(other), None, "{other}");
        }
    }
}
