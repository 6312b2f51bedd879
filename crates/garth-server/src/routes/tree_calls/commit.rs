//! Calls that write: one batch, and the commit of an id.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use garth_engine::compute::working;
use garth_engine::home::Scope;
use garth_engine::model::{
    At, Batch, Commit, CommitId, Idempotency, Ino, MAX_OPS, MAX_SET_ATTRIBUTES, Op, Outcome, Precondition,
    Seq, Timestamp, VersionId, json_flaw,
};
use garth_engine::{Error, ErrorKind, FileSystem, FileSystemExt as _, TreePath};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::answers::held;
use crate::errors::{Code, Refusal};
use crate::fields::{array, fields, items, json as any_json, of_field, string, string_of, words};
use crate::routes::call::Call;
use crate::routes::respond::{IntoBody as _, raw};

/// Bytes of an outcome in the answer, at most.
const OUTCOME: usize = 160;

fields! {
    /// Applies operations as one commit, completely or not at all.
    pub(crate) struct CommitFields<'a> {
        /// Operations, in order.
        ops: Vec<&'a RawValue> = array("operations").at_most(MAX_OPS);
        /// Array of at most 100,000 pairs of an address and a condition, which must hold before the first
        /// operation. Default: none.
        preconditions: Option<&'a RawValue> = any_json();
        /// Id that the caller chose at random, 32 hexadecimal digits: a batch with a known id is a repeat.
        /// Default: none.
        id: Option<Cow<'a, str>> = string_of("id");
        /// Reason for the commit.
        message: Cow<'a, str> = string(), or Cow::Borrowed("");
        /// Time of the answer: once the commit survives loss of power, or once every reader sees it.
        durability: Cow<'a, str> = words(&["durable", "visible"]), or Cow::Borrowed("durable");
    }
}

pub(in crate::routes) async fn commit(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: CommitFields<'_>,
) -> Result<Bytes, Refusal> {
    let ops: Vec<Op> = parsed("ops", &fields.ops, Op::weight)?;
    let preconditions = fields.preconditions.map(conditions).transpose()?.unwrap_or_default();
    let may_read = call.key.allows(Scope::FilesRead);
    if !may_read {
        refuse_questions(&ops, &preconditions)?;
    }
    // Before the commit: once it is made, it must be answered.
    let (account, asked) = (call.key.share(), ops.len());
    let mut room = call.answers.answer_if_long(account, asked * OUTCOME).await?;
    let is_durable = fields.durability == "durable";
    let mut batch = Batch::new(ops).message(fields.message).writes_only(!may_read);
    batch.preconditions = preconditions;
    batch.id = fields.id.map(|id| of_field("id", id.parse::<CommitId>())).transpose()?;
    let records = Records::of(call).await?;
    batch.idempotency = records.as_ref().map(Records::record);
    let batch = if is_durable { batch } else { batch.visible() };
    let first = match &records {
        Some(records) if call.once.is_repeat() => records.first().await?,
        _ => None,
    };
    let mut commit = match first {
        Some(first) => first,
        None => match fs.commit(batch).await {
            Ok(commit) => commit,
            Err(error) => return Err(with_missing_parent(&**fs, error).await),
        },
    };
    if call.retry.is_some() {
        // A repeat gets the bytes of the first answer.
        commit.replayed = false;
        commit.durable &= is_durable;
    }
    if commit.outcomes.len() > asked {
        // A repeat by its id can have fewer operations than the commit that answers it. It has changed
        // nothing, so it may be refused; it does not wait, because the outcomes take memory already.
        drop(room);
        room = call.answers.answer_now_if_long(account, commit.outcomes.len() * OUTCOME)?;
    }
    let answer = match may_read {
        true => CommitAnswer::Complete { ok: true, commit: &commit },
        false => CommitAnswer::Bare { commit: BareCommit::of(&commit), ok: true },
    };
    Ok(held(raw(&answer)?.into_body(), room))
}

/// Returns the refusal of a commit. If the directory of the path is missing, it says so: the error about the
/// path itself would not tell which of its names is.
async fn with_missing_parent(fs: &dyn FileSystem, error: Error) -> Refusal {
    let parent = error.path().and_then(TreePath::parent).filter(|_| error.is(ErrorKind::NotFound));
    let Some(parent) = parent else { return error.into() };
    match fs.exists(&parent).await {
        Ok(false) => Refusal::from(error).advising(&format!(
            "the directory {parent} does not exist; create it by an operation `mkdir` before this one"
        )),
        Ok(true) | Err(_) => error.into(),
    }
}

/// Answer of `commit`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::routes) enum CommitAnswer<'a> {
    /// Answer for a key that may read.
    Complete {
        /// `true`.
        ok: bool,
        /// Commit. Without the scope `files:read`, an outcome has only `ino`, `version` and `created`.
        commit: &'a Commit,
    },
    /// Answer for a key that may only write: the size of a file that had content before is stored data.
    Bare {
        /// Commit.
        commit: BareCommit,
        /// `true`.
        ok: bool,
    },
}

/// Commit without stored data.
#[derive(Serialize, JsonSchema)]
pub(in crate::routes) struct BareCommit {
    /// True if the commit survives loss of power.
    durable: bool,
    /// One outcome for each operation, in order.
    outcomes: Vec<BareOutcome>,
    /// True if this is the answer of an earlier commit.
    replayed: bool,
    /// Sequence number.
    seq: Seq,
    /// Time of the commit.
    time: Timestamp,
}

/// Outcome without stored data.
#[derive(Serialize, JsonSchema)]
struct BareOutcome {
    /// True if the operation created the node.
    created: bool,
    /// Node.
    ino: Ino,
    /// Version of the node after the operation.
    version: VersionId,
}

impl BareCommit {
    fn of(commit: &Commit) -> Self {
        let Commit { seq, time, outcomes, replayed, durable, .. } = commit;
        let outcomes = outcomes.iter().map(BareOutcome::of).collect();
        Self { durable: *durable, outcomes, replayed: *replayed, seq: *seq, time: *time }
    }
}

impl BareOutcome {
    fn of(done: &Outcome) -> Self {
        Self { created: done.created, ino: done.ino, version: done.version }
    }
}

/// Parses the items of an array. `name` is its field, `weight` returns the bytes of memory that the
/// attributes of an item take.
fn parsed<T: DeserializeOwned>(
    name: &str,
    items: &[&RawValue],
    weight: impl Fn(&T) -> usize,
) -> Result<Vec<T>, Refusal> {
    let read = |json: &str| serde_json::from_str::<T>(json);
    let (mut parsed, mut sum) = (Vec::with_capacity(items.len()), 0);
    for (at, item) in items.iter().enumerate() {
        working(item.get().len());
        let item = read(item.get()).map_err(|error| {
            let again = |json: &str| read(json).err();
            Refusal::validation(json_flaw(&format!("{name}[{at}]"), item.get(), &error, &again))
        })?;
        // Now and not when all are parsed: tags of two bytes take thirty times as much.
        sum += weight(&item);
        if sum > MAX_SET_ATTRIBUTES {
            let message = format!(
                "the attributes that a batch sets have at most {MAX_SET_ATTRIBUTES} bytes, and \"{name}[{at}]\" \
                 exceeds that; send it in parts"
            );
            return Err(Error::new(ErrorKind::TooLarge, message).into());
        }
        parsed.push(item);
    }
    Ok(parsed)
}

/// Records of idempotency keys, and that of the request. The tree of a call has a key space of its own, which
/// is not where repeats are looked up.
struct Records {
    keeper: Arc<dyn FileSystem>,
    record: Idempotency,
}

impl Records {
    /// Returns the records for a request with an idempotency key.
    async fn of(call: &Call<'_>) -> Result<Option<Self>, Refusal> {
        let Some(record) = call.record() else { return Ok(None) };
        Ok(Some(Self { keeper: call.reach.records().await?, record }))
    }

    fn record(&self) -> Idempotency {
        let record = self.record.clone();
        match self.keeper.key_space() {
            Some(keys) => record.kept_in(keys),
            None => record,
        }
    }

    /// Returns the commit of an earlier attempt. It is not made again: the tree may lack what it needs.
    async fn first(&self) -> Result<Option<Commit>, Refusal> {
        Ok(self.keeper.recorded(&self.record.key).await?.map(|found| found.commit))
    }
}

/// Answer of `committed`.
#[derive(Serialize, JsonSchema)]
pub(in crate::routes) struct CommittedAnswer<'a> {
    /// Commit; `null` if there is none with this id.
    commit: Option<&'a Commit>,
}

fn conditions(sent: &RawValue) -> Result<Vec<(At, Precondition)>, Refusal> {
    let pairs: Vec<&RawValue> = items(sent.get(), MAX_OPS).map_err(|_| {
        let of = "pairs of an address and a condition";
        Refusal::validation(format!("\"preconditions\" must be an array of at most {MAX_OPS} {of}"))
    })?;
    parsed("preconditions", &pairs, |_| 0)
}

/// Refuses operations and conditions by which a key that may only write would learn what is stored: each
/// answers a question about content, with success or a conflict, or with a new version or none.
fn refuse_questions(ops: &[Op], conditions: &[(At, Precondition)]) -> Result<(), Refusal> {
    if ops.iter().any(asks) || conditions.iter().any(|(_, condition)| hashes(condition)) {
        let scope = Scope::FilesRead.as_str();
        let message = format!(
            "operations `check`, `copy`, `copy_range` and `punch` and conditions `sha256` need an API key with the \
             scope `{scope}`"
        );
        return Err(Refusal::new(Code::Forbidden, message));
    }
    Ok(())
}

/// Returns true if the outcome of an operation depends on content or a size.
fn asks(op: &Op) -> bool {
    match op {
        // A copy ends where its source ends, and counts against limits and quotas. A hole, and what is beyond
        // the end, cannot be punched.
        Op::Check { .. } | Op::Copy { .. } | Op::CopyRange { .. } | Op::Punch { .. } => true,
        Op::Write { .. }
        | Op::Append { .. }
        | Op::Patch { .. }
        | Op::Truncate { .. }
        | Op::Mkdir { .. }
        | Op::Symlink { .. }
        | Op::Mknod { .. }
        | Op::Link { .. }
        | Op::Remove { .. }
        | Op::Rename { .. }
        | Op::SetAttrs { .. }
        | Op::Snapshot { .. }
        | Op::DropSnapshot { .. }
        | Op::Misused { .. } => false,
    }
}

fn hashes(condition: &Precondition) -> bool {
    match condition {
        Precondition::Sha256(_) => true,
        Precondition::Not(condition) => hashes(condition),
        Precondition::Absent
        | Precondition::Exists
        | Precondition::Version(_)
        | Precondition::Etag(_)
        | Precondition::EtagIn(_) => false,
    }
}

fields! {
    /// Returns the commit with an id that its caller chose.
    pub(crate) struct CommittedFields<'a> {
        /// Id of the commit, 32 hexadecimal digits.
        id: Cow<'a, str> = string_of("id");
    }
}

pub(in crate::routes) async fn committed(
    fs: &Arc<dyn FileSystem>,
    _: &Call<'_>,
    fields: CommittedFields<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let commit = fs.committed(of_field("id", fields.id.parse::<CommitId>())?).await?;
    raw(&CommittedAnswer { commit: commit.as_ref() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_about_content_are_found_in_negations() {
        let hash = Precondition::Sha256([0; 32]);
        assert!(hashes(&hash) && hashes(&hash.clone().negated()));
        assert!(!hashes(&Precondition::Exists.negated()));
        let at = At::Path(TreePath::root());
        for op in [
            Op::check(at.clone(), Precondition::Exists),
            Op::copy(at.clone(), at.clone()),
            Op::copy_range(at.clone(), 0, 1, at.clone(), 0),
            Op::punch(at.clone(), 0, 1),
        ] {
            assert!(refuse_questions(&[op], &[]).is_err());
        }
        assert!(refuse_questions(&[], &[(at.clone(), hash.negated())]).is_err());
        assert!(refuse_questions(&[Op::mkdir(at.clone())], &[(at, Precondition::Absent)]).is_ok());
    }
}
