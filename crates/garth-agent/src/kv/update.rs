//! Changes values in place: increments and changes of the expiry. A repeat of a recorded request changes
//! nothing and returns the first result.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Kv;
use super::error::{KvCode, KvError, KvResult};
use super::key::Key;
use super::read::parse;
use super::write::{Condition, Put, Written, written};
use crate::boxed;
use crate::once::{Outcome, PENDING};
use crate::retry::{ATTEMPTS, yield_now};
use garth_engine::error::ErrorKind;
use garth_engine::model::{Batch, ByteRange, Commit, Ino, Op, SetAttrs, Timestamp, VersionId};
use garth_engine::path::TreePath;

/// Range read of the file of a counter. A longer file holds no integer of 64 bits, so that an attempt costs
/// the same whatever the value is.
const INTEGER: ByteRange = ByteRange { offset: 0, length: 64 };

/// Result of an increment, as recorded for repeats.
#[derive(Serialize, Deserialize)]
struct Sum {
    value: i64,
    #[serde(skip, default = "unwritten")]
    written: Written,
}

/// Result of a change of the expiry, as recorded for repeats.
#[derive(Serialize, Deserialize)]
struct Expiry {
    /// False for a key without a value.
    found: bool,
    expires_at: Option<Timestamp>,
    #[serde(skip, default = "unwritten")]
    written: Written,
}

/// Returns the write of a commit that is not made yet.
const fn unwritten() -> Written {
    Written { version: VersionId { seq: PENDING, ino: Ino::NONE }, created_at: Timestamp(0) }
}

impl Outcome for Sum {
    fn committed(self, commit: &Commit) -> Self {
        // The directories that a put clears out of its way come first.
        Self { written: written(commit, commit.outcomes.len().saturating_sub(1)), ..self }
    }
}

impl Outcome for Expiry {
    fn committed(self, commit: &Commit) -> Self {
        Self { written: written(commit, 0), ..self }
    }
}

impl Kv<'_> {
    /// Adds `by` to the integer value of a key (0 if it has none) and returns the sum. Atomic: concurrent
    /// increments are never lost. Attributes and expiry stay as they are.
    ///
    /// # Errors
    /// - `Validation`: the value is not an integer of 64 bits, or the sum exceeds one.
    /// - `FileSystem(Conflict)`: other writers change the key without end.
    /// - Otherwise as for [`Kv::put`].
    #[boxed]
    pub async fn increment(&self, path: &str, by: i64) -> KvResult<(i64, Written)> {
        let sum: Sum = self.once.run(self.add(path, by)).await?;
        Ok((sum.value, sum.written))
    }

    async fn add(&self, path: &str, by: i64) -> KvResult<Sum> {
        let file = self.base.file(&Key::parse_value(path)?)?;
        for _ in 0..ATTEMPTS {
            let (old, condition) = self.counter(&file).await?;
            let value = old.checked_add(by);
            let value = value.ok_or_else(|| KvError::validation("the sum is not an integer of 64 bits"))?;
            let text = RawValue::from_string(value.to_string());
            let text = text.map_err(|_| KvError::validation("the sum cannot be written as JSON"))?;
            // Without this condition, two increments that read the same value would write the same sum.
            let put = Put { condition, ..Put::new(path, &text) };
            let sum = Sum { value, written: unwritten() };
            let record = self.once.record_of(&sum)?;
            match self.commit_puts(std::slice::from_ref(&put), record.as_ref()).await {
                Err(error) if error.code() == KvCode::FileSystem(ErrorKind::Conflict) => yield_now().await,
                commit => return Ok(self.once.outcome_of(&commit?, sum)?),
            }
        }
        let message = "other writers keep changing the key; try again";
        Err(KvError::new(KvCode::FileSystem(ErrorKind::Conflict), message))
    }

    /// Returns the integer in a file, and the condition under which it is still the value of the key.
    async fn counter(&self, file: &TreePath) -> KvResult<(i64, Condition)> {
        let (entry, bytes) = match self.fs.fetch(&file.into(), INTEGER).await {
            Ok(read) => read,
            // A put fails at a directory that holds keys.
            Err(error) if error.is_absent() || error.is(ErrorKind::IsADirectory) => {
                return Ok((0, Condition::Absent));
            }
            Err(error) => return Err(self.refused(error)),
        };
        let whole = parse(&bytes).filter(|_| bytes.len() as u64 == entry.size);
        let integer = whole.and_then(|text| text.get().parse::<i64>().ok());
        let integer = integer.ok_or_else(|| KvError::validation("the value is not an integer of 64 bits"))?;
        Ok((integer, Condition::Version(entry.version)))
    }

    /// Sets or removes the expiry time of a key, and nothing else. Returns the expiry time and the write;
    /// `None` if the key has no value.
    ///
    /// # Errors
    /// `InvalidPath`; errors of the filesystem.
    #[boxed]
    pub async fn expire(
        &self,
        path: &str,
        at: Option<Timestamp>,
    ) -> KvResult<Option<(Option<Timestamp>, Written)>> {
        let expiry: Expiry = self.once.run(self.set_expiry(path, at)).await?;
        Ok(expiry.found.then_some((expiry.expires_at, expiry.written)))
    }

    async fn set_expiry(&self, path: &str, at: Option<Timestamp>) -> KvResult<Expiry> {
        let file = self.base.file(&Key::parse_value(path)?)?;
        if self.is_value(&file).await? {
            let expiry = Expiry { found: true, expires_at: at, written: unwritten() };
            let record = self.once.record_of(&expiry)?;
            let attrs = SetAttrs { expires_at: Some(at), ..SetAttrs::default() };
            match self.commit(vec![Op::set_attrs(file, attrs)], Vec::new(), record.as_ref()).await {
                Ok(commit) => return Ok(self.once.outcome_of(&commit, expiry)?),
                // The value was removed after the look.
                Err(error) if error.is_absent() => {}
                Err(error) => return Err(self.refused(error)),
            }
        }
        let nothing = Expiry { found: false, expires_at: None, written: unwritten() };
        let batch = Batch::default().author(self.author.clone());
        Ok(self.once.unchanged(self.fs, batch, nothing).await?)
    }
}
