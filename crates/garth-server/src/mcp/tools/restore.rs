//! The tool `restore`: an earlier state of a path.

use std::borrow::Cow;
use std::sync::Arc;

use garth_agent::files::{FileRestore, Files, RestoreReport};
use garth_agent::memory::Uri;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{Moment, VersionId};
use garth_engine::{FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{ToolAnswer, counted};
use super::paths::{place, shown};
use super::versions::{IfVersion, expected};
use crate::errors::Refusal;
use crate::fields::{fields, moment, string_of};
use crate::routes::call::Call;

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
        Ok(version) => Moment::Seq(version.seq),
        Err(_) => call.moment(&fields.at).await?,
    };
    let required = match fields.required.version()? {
        Some(version) => {
            let path = resolve::resolve(fs, &asked, Follow::No).await?;
            Some(expected(fs, &path, version).await?.version)
        }
        None => None,
    };
    let restore = FileRestore::to(moment).if_version(required);
    let files = Files::new(fs).once(call.once.clone());
    let report = files.restore(&asked, &restore, call.env.now()).await?;
    let RestoreReport { path, at, version, restored, removed, .. } = &report;
    let version_text = version.map(|version| format!(", version {version}")).unwrap_or_default();
    let text = match report.seq {
        Some(_) => format!(
            "Restored {} as of commit {at}{version_text}: {} restored, {} removed.",
            shown(path.as_str()),
            counted(*restored, "name", "names"),
            removed
        ),
        None => format!("{} already is as it was at commit {at}{version_text}.", shown(path.as_str())),
    };
    let (restored, removed) = (*restored, *removed);
    ToolAnswer::new(text, &Restored { path, version: *version, restored, removed })
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct Restored<'a> {
    path: &'a TreePath,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<VersionId>,
    restored: u64,
    removed: u64,
}
