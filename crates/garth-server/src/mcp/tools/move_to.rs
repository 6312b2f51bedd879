//! The tool `move`: another path for a file or directory.

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{Batch, Op, VersionId};
use garth_engine::{ErrorKind, FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::ToolAnswer;
use super::paths::{absolute, refuse_slash, shown};
use super::versions::{IfVersion, commit_at};
use crate::errors::Refusal;
use crate::fields::{fields, string_of};
use crate::routes::call::Call;

fields! {
    /// Moves or renames a file or directory. Creates missing directories; fails if the new path is taken.
    pub(crate) struct MoveFields<'a> {
        /// From.
        from: Cow<'a, str> = string_of("path");
        /// Complete new path.
        to: Cow<'a, str> = string_of("path");
        ..required: IfVersion<'a>;
    }
}

/// Runs the tool.
pub(super) async fn move_to(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: MoveFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    let fs = &**fs;
    let version = fields.required.version()?;
    let from = resolve::resolve(fs, &absolute(call, &fields.from), Follow::No).await?;
    let to = absolute(call, &fields.to);
    refuse_slash("to", &to)?;
    let to = resolve::resolve(fs, &to, Follow::No).await?;
    if from == to {
        return Err(Refusal::validation("\"from\" and \"to\" are the same path; nothing was moved"));
    }
    let batch = Batch::new([Op::rename(&from, &to).no_replace().with_parents()]);
    let commit = match commit_at(fs, call, (&from, version), batch).await? {
        Err(error) if error.is(ErrorKind::AlreadyExists) => {
            let hint = "\"to\" is the complete new path: name one that is free";
            return Err(Refusal::from(error).hinting(hint).hinting("or `delete` this one first"));
        }
        commit => commit?,
    };
    let version = commit.version(0);
    let text = format!("Moved {} to {}, version {version}.", shown(from.as_str()), shown(to.as_str()));
    ToolAnswer::new(text, &Moved { from: &from, path: &to, version })
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct Moved<'a> {
    from: &'a TreePath,
    path: &'a TreePath,
    version: VersionId,
}
