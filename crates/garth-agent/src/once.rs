//! Requests that may be sent again: each runs once, and a repeat gets the result of the first attempt.
//!
//! Handles carry an [`Once`]. An operation stores its outcome as the note of the idempotency record, in the
//! transaction of its commit, so that both exist or neither does. `docs/decisions/one-record-for-retries.md`
//! has the reasons.

mod body_hash;

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use self::body_hash::{BodyHash, Threads};
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::{FileSystem, FileSystemExt as _};
use garth_engine::model::{At, Batch, Body, Commit, Idempotency, MAX_INLINE_BODY, Op, Seq, StagedBody};
use garth_engine::path::TreePath;

/// Outcome of an operation, in the form stored for repeats.
pub(crate) trait Outcome: Serialize + DeserializeOwned + Send {
    /// Sets the fields that are only known after the commit.
    #[must_use]
    fn committed(self, _commit: &Commit) -> Self {
        self
    }
}

/// Request that may be sent again. The default is a request that is not.
///
/// The first commit of the request is recorded under its key, each further one under the key, `#` and the
/// name of the step. Failures are not recorded.
#[derive(Clone, Debug, Default)]
pub struct Once(Option<Arc<Request>>);

#[derive(Debug)]
struct Request {
    /// Filesystem that stores the records, whichever view of it the request writes through.
    keeper: Arc<dyn FileSystem>,
    record: Idempotency,
    /// Commit of an earlier attempt, found when the request began.
    first: Option<Commit>,
    /// Threads that hash the body; `None` if the program may use its own.
    threads: Option<Threads>,
}

impl Once {
    /// Begins a request. Its record is stored in the key space of `keeper`.
    ///
    /// # Errors
    /// `IdempotencyMismatch` if the key was used with another request; `Unsupported` for a tree without a
    /// log; from the filesystem.
    pub async fn begin(keeper: Arc<dyn FileSystem>, record: Idempotency) -> Result<Self> {
        let Some(keys) = keeper.key_space() else {
            return Err(Error::new(ErrorKind::Unsupported, "requests cannot be recorded on this filesystem"));
        };
        let mut request = Request { keeper, record: record.kept_in(keys), first: None, threads: None };
        // A mismatch of the key is reported before any work is done.
        request.first = request.look_up().await?;
        Ok(Self(Some(Arc::new(request))))
    }

    /// Begins a request whose body is still to be received; [`Once::with_body`] completes it. The body is
    /// hashed on the threads of `env`, in the turns of `account`.
    pub fn before_body(keeper: Arc<dyn FileSystem>, record: Idempotency, env: &Env, account: &str) -> Self {
        let threads = Some(Threads { env: env.clone(), account: account.to_owned() });
        Self(Some(Arc::new(Request { keeper, record, first: None, threads })))
    }

    /// Returns the hash of a body that is still to be received, for [`Once::with_body`].
    pub(crate) fn body_hash(&self) -> BodyHash {
        match &self.0 {
            Some(request) => BodyHash::on(request.threads.clone()),
            None => BodyHash::unneeded(),
        }
    }

    /// Completes a request with the hash of its body.
    pub(crate) async fn with_body(&self, hash: &[u8; 32]) -> Result<Self> {
        let Some(request) = &self.0 else { return Ok(Self::default()) };
        let whole = Sha256::new().chain_update(request.record.request_hash).chain_update(hash).finalize();
        let mut record = request.record.clone();
        record.request_hash = whole.into();
        Self::begin(Arc::clone(&request.keeper), record).await
    }

    /// Returns true if an earlier attempt of the request has committed.
    pub fn is_repeat(&self) -> bool {
        self.0.as_ref().is_some_and(|request| request.first.is_some())
    }

    /// Returns true if a request under the key has committed, with this body or another one.
    pub(crate) async fn is_known(&self) -> Result<bool> {
        let Some(request) = &self.0 else { return Ok(false) };
        Ok(request.keeper.recorded(&request.record.key).await?.is_some())
    }

    /// Returns true if outcomes are recorded.
    pub(crate) fn records(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the outcome of an earlier attempt that has committed.
    pub(crate) fn recorded<T: Outcome>(&self) -> Result<Option<T>> {
        self.0.as_ref().and_then(|request| request.first.as_ref()).map(read).transpose()
    }

    /// Returns a further step of the request, with a record of its own.
    pub(crate) async fn step(&self, name: impl std::fmt::Display) -> Result<Self> {
        let Some(request) = &self.0 else { return Ok(Self::default()) };
        let mut record = request.record.clone();
        // Each commit needs a key of its own, or the second one would be taken for a repeat of the first.
        record.key = format!("{}#{name}", record.key);
        Self::begin(Arc::clone(&request.keeper), record).await
    }

    /// Runs an operation that ends with [`Once::commit`] or [`Once::unchanged`], unless its outcome is
    /// recorded.
    ///
    /// A failure may be due to an earlier or concurrent attempt of the same request, which has already
    /// created or removed the same objects. The record is therefore looked up again before the failure is
    /// returned.
    pub(crate) async fn run<T: Outcome, E: From<Error>>(
        &self,
        operation: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let Some(request) = &self.0 else { return operation.await };
        if let Some(first) = &request.first {
            return Ok(read(first)?);
        }
        match operation.await {
            Ok(outcome) => Ok(outcome),
            Err(failure) => match request.look_up().await? {
                Some(first) => Ok(read(&first)?),
                None => Err(failure),
            },
        }
    }

    /// Commits the batch of an operation with its outcome. Returns the outcome, or that of an earlier
    /// attempt.
    pub(crate) async fn commit<T: Outcome>(
        &self,
        fs: &dyn FileSystem,
        batch: Batch,
        outcome: T,
    ) -> Result<T> {
        let (batch, staged) = bounded(fs, batch).await?;
        let batch = self.with_record(batch, &outcome)?;
        let commit = fs.commit(batch).await;
        let is_used = commit.as_ref().is_ok_and(|commit| !commit.replayed);
        if !is_used {
            for (at, body) in &staged {
                discard(fs, at, body).await;
            }
        }
        self.outcome_of(&commit?, outcome)
    }

    /// Returns the record of the request with an outcome, for an operation that commits by itself and ends
    /// with [`Once::outcome_of`].
    pub(crate) fn record_of(&self, outcome: &impl Outcome) -> Result<Option<Idempotency>> {
        let Some(request) = &self.0 else { return Ok(None) };
        Ok(Some(request.record.clone().note(note_of(outcome)?)))
    }

    /// Returns a batch with the record of the request.
    fn with_record(&self, batch: Batch, outcome: &impl Outcome) -> Result<Batch> {
        Ok(match self.record_of(outcome)? {
            Some(record) => batch.idempotency(record),
            None => batch,
        })
    }

    /// Returns the outcome of an operation after its commit, or that of an earlier attempt.
    pub(crate) fn outcome_of<T: Outcome>(&self, commit: &Commit, outcome: T) -> Result<T> {
        // Another attempt was faster. Its outcome counts, because its objects are the ones that exist.
        let is_repeat = self.0.is_some() && commit.replayed;
        if is_repeat { read(commit) } else { Ok(outcome.committed(commit)) }
    }

    /// Returns the outcome of an operation that changes nothing, and records it. `batch` has author and
    /// message, but no operations; it is only committed if outcomes are recorded.
    pub(crate) async fn unchanged<T: Outcome>(
        &self,
        fs: &dyn FileSystem,
        batch: Batch,
        outcome: T,
    ) -> Result<T> {
        if self.0.is_none() {
            return Ok(outcome);
        }
        self.commit(fs, batch, outcome).await
    }

    /// Commits a batch by `commit` with the record of the request. Returns `answer`, or that of an earlier
    /// attempt. The fields `seq` and `time` of an answer that has them are set after the commit.
    ///
    /// # Errors
    /// From the commit.
    #[doc(hidden)]
    pub async fn answer_with<F: Future<Output = Result<Commit>>>(
        &self,
        batch: Batch,
        answer: Value,
        commit: impl FnOnce(Batch) -> F,
    ) -> Result<Value> {
        let answer = CommitAnswer(answer);
        let answered = self.run::<CommitAnswer, Error>(async {
            let commit = commit(self.with_record(batch, &answer)?).await?;
            self.outcome_of(&commit, answer)
        });
        Ok(answered.await?.0)
    }

    /// Returns the answer of an earlier attempt of [`Once::answer_with`] that has committed.
    ///
    /// # Errors
    /// `Corrupt` if the record cannot be read.
    #[doc(hidden)]
    pub fn recorded_answer(&self) -> Result<Option<Value>> {
        Ok(self.recorded::<CommitAnswer>()?.map(|answer| answer.0))
    }

    /// Runs an operation that cannot be part of a commit, and records its answer after it, in a commit of its
    /// own: `batch` has author and message, but no operations. A crash between the two loses the record, and
    /// a full account has no room for it, so a repeat must do no harm.
    ///
    /// # Errors
    /// From the operation; from the filesystem.
    #[doc(hidden)]
    pub async fn answer_after<E: From<Error>>(
        &self,
        fs: &dyn FileSystem,
        batch: Batch,
        operation: impl Future<Output = Result<Value, E>>,
    ) -> Result<Value, E> {
        self.run::<Value, E>(async {
            let answer = operation.await?;
            match self.unchanged(fs, batch, answer.clone()).await {
                // Records of calls that change nothing else would make a full account grow with each key.
                Err(error) if error.is(ErrorKind::QuotaExceeded) => Ok(answer),
                recorded => recorded.map_err(E::from),
            }
        })
        .await
    }
}

impl Request {
    /// Returns the commit of an earlier attempt.
    async fn look_up(&self) -> Result<Option<Commit>> {
        match self.keeper.recorded(&self.record.key).await? {
            Some(found) if found.request_hash != self.record.request_hash => Err(Error::new(
                ErrorKind::IdempotencyMismatch,
                "the idempotency key was used before with another request; use a new key",
            )),
            found => Ok(found.map(|found| found.commit)),
        }
    }
}

/// Gives up content that no commit will use. A failure is only logged: the content is collected when its
/// lease ends.
pub(crate) async fn discard(fs: &dyn FileSystem, at: &At, staged: &StagedBody) {
    if let Err(error) = fs.discard(at, staged).await {
        tracing::warn!(%error, "unused content could not be removed");
    }
}

/// Stages bodies of a batch that is too large for a commit, the longest first, and returns them with the
/// batch. A long message of the assistant, for example, is both in its log and in `latest.md`.
async fn bounded(fs: &dyn FileSystem, mut batch: Batch) -> Result<(Batch, Vec<(At, StagedBody)>)> {
    let mut all = Vec::new();
    let inline = |op: &Op| match op.body() {
        Some(Body::Bytes(bytes)) => bytes.len(),
        _ => 0,
    };
    while batch.ops.iter().map(inline).sum::<usize>() > MAX_INLINE_BODY {
        let takes_staged = |op: &&mut Op| matches!(op, Op::Write { .. } | Op::Append { .. });
        let longest = batch.ops.iter_mut().filter(takes_staged).max_by_key(|op| inline(op));
        let Some(Op::Write { at, body, .. } | Op::Append { at, body, .. }) = longest else { break };
        let Body::Bytes(bytes) = &*body else { break };
        let mut upload = fs.stage(at).await?;
        upload.write(bytes.clone()).await?;
        let staged = upload.finish().await?;
        all.push((at.clone(), staged.clone()));
        *body = Body::Staged(staged);
    }
    for op in &mut batch.ops {
        // A staged body was cut when it was uploaded.
        if let Op::Append { body: Body::Staged(_), cuts, .. } = op {
            cuts.clear();
        }
    }
    Ok((batch, all))
}

/// Returns the note that records an outcome.
fn note_of(outcome: &impl Serialize) -> Result<String> {
    serde_json::to_string(outcome).map_err(|error| {
        Error::new(ErrorKind::Io, "the outcome of a request cannot be recorded").with_source(error)
    })
}

/// Reads the outcome that was recorded with a commit.
fn read<T: Outcome>(commit: &Commit) -> Result<T> {
    let outcome: T = serde_json::from_str(&commit.note).map_err(|error| {
        let message = "the recorded outcome of a request cannot be read; send it under a new key";
        Error::new(ErrorKind::Corrupt, message).with_source(error)
    })?;
    Ok(outcome.committed(commit))
}

impl Outcome for Seq {
    fn committed(self, commit: &Commit) -> Self {
        commit.seq
    }
}

/// Outcome of an operation that may change nothing.
impl Outcome for Option<Seq> {
    fn committed(self, commit: &Commit) -> Self {
        self.map(|_| commit.seq)
    }
}

/// Written path.
impl Outcome for (TreePath, Seq) {
    fn committed(self, commit: &Commit) -> Self {
        (self.0, commit.seq)
    }
}

/// Number of changed items, such as bytes or edges.
impl Outcome for usize {}

/// Answer in JSON.
impl Outcome for Value {}

/// Answer in JSON with the fields `seq` and `time` of the commit.
#[derive(Serialize, Deserialize)]
struct CommitAnswer(Value);

impl Outcome for CommitAnswer {
    fn committed(mut self, commit: &Commit) -> Self {
        if let Some(seq) = self.0.get_mut("seq") {
            *seq = commit.seq.0.into();
        }
        if let Some(time) = self.0.get_mut("time") {
            *time = commit.time.to_rfc3339().into();
        }
        self
    }
}

/// Placeholder of a commit that is not made yet.
pub(crate) const PENDING: Seq = Seq(0);
