//! Commit of a batch.

use garth_engine::error::{Advice, Error, ErrorKind, Result};
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{At, Batch, Commit, Ino, MAX_INLINE_BODY, Precondition, Timestamp, VersionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::line::BatchLine;
use super::operation::find;
use crate::boxed;
use crate::files::error_context::{version_conditions, with_current_version};
use crate::files::handle::Files;
use crate::once::Outcome;

/// Batch to commit.
#[derive(Clone, Debug, Default)]
pub struct BatchRequest {
    /// Operations, in order.
    #[doc(hidden)]
    pub lines: Vec<BatchLine>,
    /// Paths, as they are written, with the versions that they must have before the first operation.
    #[doc(hidden)]
    pub if_version: Vec<(String, VersionId)>,
    /// Time from which a time to live counts.
    #[doc(hidden)]
    pub now: Timestamp,
}

/// Batch that was committed.
#[derive(Clone, Debug)]
pub struct CommittedBatch {
    /// Commit, with an outcome for each operation.
    pub commit: Commit,
}

/// Result of one operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum BatchResult<'a> {
    /// Result of `rm`.
    Removal {
        /// Path as it was written.
        path: &'a str,
        /// True if the path existed.
        removed: bool,
    },
    /// Result of another operation.
    Change {
        /// Path as it was written; of `mv`, `cp` and `ln` the new one.
        path: &'a str,
        /// Version of the node after the operation.
        version: VersionId,
        /// True if the operation created the node.
        created: bool,
    },
}

impl BatchRequest {
    /// Returns the batch of these operations. A time to live counts from `now`.
    pub fn new(lines: impl IntoIterator<Item = BatchLine>, now: Timestamp) -> Self {
        Self { lines: lines.into_iter().collect(), if_version: Vec::new(), now }
    }

    /// Requires that this is the last version of a path.
    #[must_use]
    pub fn if_version(mut self, path: impl Into<String>, version: VersionId) -> Self {
        self.if_version.push((path.into(), version));
        self
    }
}

impl CommittedBatch {
    /// Returns the results of the operations of `request`, in order. A check has none.
    pub fn results<'a>(&self, request: &'a BatchRequest) -> Vec<BatchResult<'a>> {
        let lines = request.lines.iter().enumerate().filter(|(_, line)| !line.is_check());
        let results = lines.map(|(op, line)| {
            let (path, outcome) = (line.path(), self.commit.outcomes.get(op));
            if line.removes() {
                let removed = outcome.is_some_and(|outcome| outcome.ino != Ino::NONE);
                return BatchResult::Removal { path, removed };
            }
            let created = outcome.is_some_and(|outcome| outcome.created);
            BatchResult::Change { path, version: self.commit.version(op), created }
        });
        results.collect()
    }
}

impl Files<'_> {
    /// Applies the operations of a batch in one commit: all of them, in order, or none. Links on the way to a
    /// path are followed as they are before the first operation. A batch of checks commits, too.
    ///
    /// # Errors
    /// - `Conflict`: a condition does not hold. For a version, the message names the current one.
    /// - `InvalidArgument`: there is no operation, or the content of a line was not read.
    /// - `TooLarge`: the content that was not uploaded before has more than [`MAX_INLINE_BODY`] bytes.
    /// - As [`FileSystem::commit`](garth_engine::FileSystem::commit).
    #[boxed]
    pub async fn batch(&self, request: &BatchRequest) -> Result<CommittedBatch> {
        if request.lines.is_empty() {
            return Err(Error::invalid("a batch has at least one operation"));
        }
        let inline: u64 = request.lines.iter().map(BatchLine::inline_bytes).sum();
        if inline > MAX_INLINE_BODY as u64 {
            let message = format!(
                "the content of one batch has at most {MAX_INLINE_BODY} bytes together; upload longer content first"
            );
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let committed = self.once.run(self.batch_once(request)).await?;
        match committed.commit {
            Some(commit) => Ok(CommittedBatch { commit }),
            None => Err(Error::new(ErrorKind::Corrupt, "the recorded outcome of a batch has no commit")),
        }
    }

    async fn batch_once(&self, request: &BatchRequest) -> Result<Committed> {
        // Paths are resolved again if one became a link in between.
        resolve::retry(self.fs, "/", Follow::No, |_| self.attempt(request)).await
    }

    async fn attempt(&self, request: &BatchRequest) -> Result<Committed> {
        let mut batch = Batch::new([]).author(self.author.clone()).message(self.message.clone());
        batch = batch.writes_only(self.writes_only);
        for (path, version) in &request.if_version {
            let path = find(self.fs, path, Follow::Yes).await?;
            batch.preconditions.push((At::Path(path), Precondition::Version(*version)));
        }
        for line in &request.lines {
            batch.ops.push(line.op(self.fs, request.now).await?.0);
        }
        let conditions = version_conditions(&batch.preconditions, &batch.ops);
        match self.once.commit(self.fs, batch, Committed { commit: None }).await {
            Err(error) if error.is(ErrorKind::Conflict) => {
                Err(with_current_version(self.fs, &conditions, error).await)
            }
            Err(error) if error.is(ErrorKind::NotFound) => Err(self.naming_directory(request, error).await),
            done => done,
        }
    }

    /// Names the missing directory of a new path, if a batch failed for it.
    async fn naming_directory(&self, request: &BatchRequest, error: Error) -> Error {
        let Some(path) = error.path() else { return error };
        let lacks = |line: &BatchLine| line.lacks_parents() && line.path() == path.as_str();
        if !request.lines.iter().any(lacks) {
            return error;
        }
        let Some(dir) = path.parent() else { return error };
        match self.fs.stat(&At::Path(dir.clone())).await {
            Err(missing) if missing.is(ErrorKind::NotFound) => {
                let message = format!("the directory {dir} does not exist");
                Error::at(ErrorKind::NotFound, path, message)
                    .advising(Advice::Command, "set \"parents\": true")
            }
            _ => error,
        }
    }
}

/// Commit of a batch. A repeat gets the commit of the first attempt with its outcomes, so nothing else is
/// recorded.
#[derive(Debug, Serialize, Deserialize)]
struct Committed {
    #[serde(skip)]
    commit: Option<Commit>,
}

impl Outcome for Committed {
    fn committed(self, commit: &Commit) -> Self {
        Self { commit: Some(commit.clone()) }
    }
}
