//! The tool `restore`: an earlier state of a path.

use std::borrow::Cow;
use std::sync::Arc;

use garth_agent::files::{FileRestore, Files, RestoreReport};
use garth_agent::memory::Uri;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::fs::restore::{Restoration, RestoreAction};
use garth_engine::model::{Moment, Timestamp, VersionId};
use garth_engine::{ErrorKind, FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{Lines, ToolAnswer, counted};
use super::past::{check_restorable, not_there};
use super::paths::{place, shown};
use super::versions::{IfVersion, expected};
use crate::errors::Refusal;
use crate::fields::{fields, moment, string_of};
use crate::routes::call::Call;

/// Limit on the paths that an answer names.
const MAX_PATHS: usize = 20;

fields! {
    /// Makes a file, or a directory with all below it, what it was before; also brings back what was deleted.
    /// The present state is kept.
    pub(crate) struct RestoreFields<'a> {
        /// Path.
        path: Cow<'a, str> = string_of("path");
        /// State to bring back: version (not that of the deletion), restore_at of a deletion, or time such as
        /// 2026-01-31T12:00:00Z.
        at: Cow<'a, str> = moment();
        ..required: IfVersion<'a>;
    }
}

/// Runs the tool.
pub(super) async fn restore(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: RestoreFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    // The files of a memory belong together.
    let (fs, asked) = (&**fs, place(call, &fields.path, Uri::dir).await?);
    let moment = match fields.at.parse::<VersionId>() {
        Ok(version) => {
            check_restorable(fs, &asked, version).await?;
            Moment::Seq(version.seq)
        }
        Err(_) => moment_at(call, &fields.at).await?,
    };
    let required = match fields.required.version()? {
        Some(version) => {
            let path = resolve::resolve(fs, &asked, Follow::No).await?;
            Some(expected(fs, call, &path, version).await?.version)
        }
        None => None,
    };
    let restore = FileRestore::to(moment).if_version(required);
    let files = Files::new(fs).once(call.once.clone());
    let report = match files.restore(&asked, &restore, call.env.now()).await {
        Err(error) if error.is(ErrorKind::NotFound) && error.path().is_some() => {
            return Err(not_there(&asked, &fields.at));
        }
        report => report?,
    };
    answer(&report, &fields.at)
}

/// Parses the state to restore, if it is not a version.
async fn moment_at(call: &Call<'_>, at: &str) -> Result<Moment, Refusal> {
    let wrong = || {
        let message = "\"at\" must be a version, the restore_at of a deletion, or a time with seconds such as \
                       2026-01-31T12:00:00Z";
        Refusal::validation(message).hinting("`history` returns versions and times")
    };
    match call.moment(at).await {
        Ok(Moment::Time(_)) if is_cut_to_minute(at) => Err(wrong()),
        // Answers show times to the second, rounded down.
        Ok(Moment::Time(time)) if is_cut_to_second(at) => {
            Ok(Moment::Time(Timestamp(time.0.saturating_add(999_999_999))))
        }
        // No snapshot has this name, and few models know that there are any.
        Err(refusal) if matches!(refusal.kind, ErrorKind::NotFound | ErrorKind::InvalidArgument) => {
            Err(wrong())
        }
        moment => moment,
    }
}

/// Returns the time of day in a time: `12:00:00.000` of `2026-01-31T12:00:00.000+01:00`.
fn time_of_day(time: &str) -> &str {
    let rest = time.get(11..).unwrap_or_default();
    rest.split(['Z', 'z', '+', '-']).next().unwrap_or_default().trim_end()
}

fn is_cut_to_minute(time: &str) -> bool {
    time_of_day(time).matches(':').count() == 1
}

fn is_cut_to_second(time: &str) -> bool {
    let time = time_of_day(time);
    time.matches(':').count() == 2 && !time.contains('.')
}

/// Returns the answer for a restore of the state that `at` names.
fn answer(report: &RestoreReport, at: &str) -> Result<ToolAnswer, Refusal> {
    let RestoreReport { path, version, restored, removed, gone, .. } = report;
    let version_text = version.map(|version| format!(", version {version}")).unwrap_or_default();
    let (name, at) = (shown(path.as_str()), shown(at));
    let text = match report.seq {
        Some(_) => format!(
            "Restored {name} as of {at}{version_text}: {} restored, {removed} removed.",
            counted(*restored, "name", "names"),
        ),
        None if *gone > 0 => format!("Nothing else of {name} differs from {at}{version_text}."),
        None => format!("{name} already is as it was at {at}{version_text}."),
    };
    let changes = changes(report);
    let mut lines = Lines::default();
    lines.push(&text);
    if *gone > 0 {
        let files = counted(*gone, "file was", "files were");
        lines.push(&format!("{files} left as now, because the earlier content is no longer stored."));
    }
    let shown = changes.iter().take_while(|change| lines.push(change)).count();
    // Those below a directory that came back or was removed as a whole are not listed one by one.
    let is_cut = shown < changes.len() || report.changes.len() > MAX_PATHS;
    let (version, restored, removed) = (*version, *restored, *removed);
    let restored = Restored { path, version, restored, removed, changes };
    let answer = ToolAnswer::new(lines.into_text(), &restored)?;
    Ok(match is_cut {
        true => answer.hint("There are more; `history` of the path lists them.".to_owned()),
        false => answer,
    })
}

/// Returns the first changes of a restore, each as one line. Removals come first: they may be a surprise.
fn changes(report: &RestoreReport) -> Vec<String> {
    let is_removal = |change: &&Restoration| change.action == RestoreAction::Removed;
    let (removed, other): (Vec<&Restoration>, Vec<&Restoration>) =
        report.changes.iter().partition(is_removal);
    let line = |change: &Restoration| {
        let path = shown(change.path.as_str());
        match &change.action {
            RestoreAction::Removed => format!("removed {path}"),
            RestoreAction::Created => format!("brought back {path}"),
            RestoreAction::Moved { from } => format!("moved {} back to {path}", shown(from.as_str())),
            _ => format!("changed {path}"),
        }
    };
    let left = report.gone_paths.iter().map(|path| format!("left {}", shown(path.as_str())));
    removed.into_iter().chain(other).take(MAX_PATHS).map(line).chain(left).collect()
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct Restored<'a> {
    path: &'a TreePath,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<VersionId>,
    restored: u64,
    removed: u64,
    changes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_of_a_time_is_that_of_its_text() {
        for (time, is_minute, is_second) in [
            ("2026-01-31T12:00Z", true, false),
            ("2026-01-31 12:00", true, false),
            ("2026-01-31T12:00+01:00", true, false),
            ("2026-01-31T12:00:00Z", false, true),
            ("2026-01-31T12:00:00-01:00", false, true),
            ("2026-01-31T12:00:00.5Z", false, false),
            ("2026-01-31", false, false),
            ("1h", false, false),
        ] {
            assert_eq!((is_cut_to_minute(time), is_cut_to_second(time)), (is_minute, is_second), "{time}");
        }
    }
}
