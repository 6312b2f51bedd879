//! Call that restores a path to an earlier state.

use std::borrow::Cow;
use std::sync::Arc;

use garth_agent::files::{FileRestore, Files, RestoreReport};
use garth_engine::fs::restore::{Restoration, RestoreAction, RestorePlan};
use garth_engine::model::{Seq, VersionId};
use garth_engine::{FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::errors::Refusal;
use crate::fields::{fields, flag, moment, of_field, shell_path_field, string, string_of};
use crate::routes::call::Call;
use crate::routes::respond::raw;

/// Limit on the changes that the answer to a dry run lists.
const MAX_CHANGES: usize = 100;

fields! {
    /// Restores a path to an earlier state: names, content, links and attributes, with everything below.
    pub(crate) struct RestoreFields<'a> {
        /// Path to restore; a symbolic link itself, not its target.
        path: Cow<'a, str> = string_of("path");
        /// State to restore: a time, a sequence or the name of a snapshot.
        at: Cow<'a, str> = moment();
        /// Version that the path must have; any other one is a conflict. Default: any.
        if_version: Option<Cow<'a, str>> = string_of("version");
        /// `true` returns the changes that would be made, and makes none.
        dry: bool = flag(), or false;
        /// Reason for the commit. Default: the path and the sequence.
        message: Option<Cow<'a, str>> = string();
    }
}

pub(in crate::routes) async fn restore(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: RestoreFields<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let version = fields.if_version.map(|version| of_field("if_version", version.parse::<VersionId>()));
    let (path, version) = (shell_path_field("path", &fields.path)?, version.transpose()?);
    let asked = match call.once.is_repeat() {
        // Its record has the state. A snapshot of that name may be gone, or another one.
        true => FileRestore::repeat(),
        false => FileRestore::to(call.moment(&fields.at).await?),
    };
    let asked = asked.if_version(version);
    let (now, message) = (call.env.now(), fields.message.unwrap_or_default());
    let files = Files::new(&**fs).message(message).once(call.once.clone());
    if fields.dry {
        let planned = files.plan_restore(path, &asked, now).await;
        let (path, plan) = planned?;
        return raw(&RestoredAnswer::Planned(PlannedRestore::of(&path, &plan)));
    }
    let report = files.restore(path, &asked, now).await?;
    raw(&RestoredAnswer::Restored(RestoreAnswer { ok: true, report }))
}

/// Answer of `restore`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RestoreAnswer")]
#[serde(untagged)]
pub(in crate::routes) enum RestoredAnswer<'a> {
    /// Restore.
    Restored(RestoreAnswer),
    /// Dry run.
    Planned(PlannedRestore<'a>),
}

/// Answer to a restore that was made.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RestoreMade")]
pub(in crate::routes) struct RestoreAnswer {
    /// `true`.
    ok: bool,
    #[serde(flatten)]
    report: RestoreReport,
}

/// Answer to a dry run.
#[derive(Serialize, JsonSchema)]
pub(in crate::routes) struct PlannedRestore<'a> {
    /// `true`.
    ok: bool,
    /// `true` for a dry run.
    dry: bool,
    /// Path, without links on the way.
    path: &'a TreePath,
    /// Commit whose state would be restored.
    at: Seq,
    /// True if the path does not exist now.
    created: bool,
    /// Number of names that would come back, or whose nodes would change.
    restored: u64,
    /// Number of names that would be removed.
    removed: u64,
    /// Number of names that would stay as they are.
    unchanged: u64,
    /// Number of names whose files would be left as they are, or missing, because the content that they had
    /// is no longer stored.
    gone: u64,
    /// First 20 of these names.
    gone_paths: &'a [TreePath],
    /// First changes that a dry run found.
    changes: Vec<PlannedChange<'a>>,
    /// True if there are more changes.
    has_more: bool,
}

/// Change that a restore would make.
#[derive(Serialize, JsonSchema)]
struct PlannedChange<'a> {
    /// Path.
    path: &'a TreePath,
    /// `created`, `changed`, `moved`, `linked`, `removed` or `other`.
    action: &'static str,
    /// Path from which it would be moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a TreePath>,
}

impl<'a> PlannedRestore<'a> {
    fn of(path: &'a TreePath, plan: &'a RestorePlan) -> Self {
        Self {
            ok: true,
            dry: true,
            path,
            at: plan.at,
            created: plan.created,
            restored: plan.restored,
            removed: plan.removed,
            unchanged: plan.unchanged,
            gone: plan.gone,
            gone_paths: &plan.gone_paths,
            changes: plan.changes.iter().take(MAX_CHANGES).map(PlannedChange::of).collect(),
            has_more: plan.changes.len() > MAX_CHANGES,
        }
    }
}

impl<'a> PlannedChange<'a> {
    fn of(Restoration { path, action }: &'a Restoration) -> Self {
        let (action, from) = match action {
            RestoreAction::Created => ("created", None),
            RestoreAction::Changed => ("changed", None),
            RestoreAction::Moved { from } => ("moved", Some(from)),
            RestoreAction::Linked => ("linked", None),
            RestoreAction::Removed => ("removed", None),
            _ => ("other", None),
        };
        Self { path, action, from }
    }
}
