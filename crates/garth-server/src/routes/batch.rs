//! Several operations on files in one commit.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use garth_agent::files::{BatchLine, BatchLines, BatchRequest, BatchResult, ContentForm, Files};
use garth_engine::FileSystem;
use garth_engine::compute::go_on;
use garth_engine::home::Scope;
use garth_engine::model::{MAX_OPS, Seq, VersionId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::call::Call;
use super::respond::{IntoBody as _, raw};
use crate::answers::held;
use crate::errors::Refusal;
use crate::fields::{array, fields, object, string};

/// Bytes of a result in the answer without its path, at most.
const RESULT: usize = 96;

fields! {
    /// Applies several operations on files in one commit: all of them, in order, or none.
    pub(super) struct BatchFields<'a> {
        /// Operations, at least one, as lines of `garth batch` without `file`.
        ops: Vec<&'a RawValue> = array("operations").at_most(MAX_OPS);
        /// Versions that paths must have before the first operation; otherwise `CONFLICT`.
        if_version: BTreeMap<String, String> = object("versions by path").at_most(MAX_OPS), or BTreeMap::new();
        /// Reason for the commit, stored with it.
        message: Cow<'a, str> = string(), or Cow::Borrowed("");
    }
}

/// Answer of `batch`.
#[derive(Serialize, JsonSchema)]
pub(super) struct BatchAnswer<'a> {
    /// `true`.
    ok: bool,
    /// Commit.
    seq: Seq,
    /// Time of the commit.
    #[schemars(extend("format" = "date-time"))]
    time: String,
    /// Result of each operation, in order.
    results: Vec<BatchResult<'a>>,
}

pub(super) async fn batch(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: BatchFields<'_>,
) -> Result<Bytes, Refusal> {
    let lines = lines(&fields.ops)?;
    let may_read = call.key.allows(Scope::FilesRead);
    // Without reading, each check and copy would tell something about content.
    if !may_read && lines.iter().any(BatchLine::reads) {
        return Err(Refusal::forbidden("files:read"));
    }
    let mut request = BatchRequest::new(lines, call.env.now());
    for (path, version) in fields.if_version {
        let version: VersionId = version.parse().map_err(|_| {
            let shown: String = path.chars().take(100).collect();
            Refusal::validation(format!(
                "\"if_version\" must have versions such as ver_7-3, also for {shown:?}"
            ))
        })?;
        request = request.if_version(path, version);
    }
    // Before the commit: once it is made, it must be answered.
    let length: usize = request.lines.iter().map(result_length).sum();
    let room = call.answers.answer_if_long(call.key.share(), length).await?;
    let files = Files::new(&**fs).message(fields.message).once(call.once.clone()).writes_only(!may_read);
    let done = files.batch(&request).await?;
    let results = done.results(&request);
    let (seq, time) = (done.commit.seq, done.commit.time.to_rfc3339());
    let answer = raw(&BatchAnswer { ok: true, seq, time, results })?.into_body();
    Ok(held(answer, room))
}

/// Returns the bytes of the result of an operation in the answer, at most.
fn result_length(line: &BatchLine) -> usize {
    let escaped = |byte: u8| match byte {
        // `\u0001`
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    RESULT + line.path().bytes().map(escaped).sum::<usize>()
}

/// Parses the operations. An error names the operation, from 1.
fn lines(ops: &[&RawValue]) -> Result<Vec<BatchLine>, Refusal> {
    if ops.is_empty() {
        return Err(Refusal::validation("\"ops\" must have at least one operation"));
    }
    let mut parser = BatchLines::new(ContentForm::Staged);
    let mut lines = Vec::with_capacity(ops.len());
    for op in ops {
        // A long batch is given up once nobody waits for it.
        go_on()?;
        let line = parser.parse(op.get().as_bytes());
        let line = line.map_err(|error| {
            Refusal::validation(format!("\"ops\": operation {}: {}", error.line, error.reason))
        })?;
        lines.extend(line);
    }
    Ok(lines)
}
