//! State and page that a read asks for, as groups of fields that calls share. A page of a past state carries
//! it in its cursor, so that all pages of `"at": "1h"` read the same state.

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::model::{Moment, Seq, Timestamp};
use garth_engine::{Env, FileSystem};
use serde_json::json;

use crate::errors::Refusal;
use crate::fields::{Field, FieldGroup, Fields, integer, moment, string_of};
use crate::routes::call::Call;
use crate::seal::SealingKey;

/// Declaration of the field `at`.
const AT: Field = Field::of::<Option<Cow<'static, str>>>(
    "at",
    moment(),
    None,
    " Reads an earlier state: a time, a sequence or the name of a snapshot. Default: the newest.",
);
/// Declaration of the field `cursor`.
const CURSOR: Field = Field::of::<Option<Cow<'static, str>>>(
    "cursor",
    string_of("cursor"),
    None,
    " `next_cursor` of the page before. Default: the first page.",
);

/// State that a read asks for.
#[derive(Debug)]
pub(crate) struct Past {
    at: Option<String>,
}

impl<'a> FieldGroup<'a> for Past {
    const OWN: &'static [Field] = &[AT];
    const FIELDS: &'static [&'static [Field]] = &[Self::OWN];
    const SUMMARY: &'static str = "";

    fn read(fields: &Fields<'a>) -> Result<Self, Refusal> {
        Ok(Self { at: text(fields, &AT)? })
    }
}

impl Past {
    /// Returns the tree in this state.
    pub(super) async fn of(
        &self,
        fs: &Arc<dyn FileSystem>,
        call: &Call<'_>,
    ) -> Result<Arc<dyn FileSystem>, Refusal> {
        past(fs, call.moment_of(self.at.as_deref()).await?.as_ref()).await
    }
}

/// State and page that a read asks for: at most `MAX` items, by default `DEFAULT`.
#[derive(Debug)]
pub(crate) struct Paged<const MAX: usize, const DEFAULT: usize> {
    at: Option<String>,
    pub(super) limit: usize,
    /// Position where the page begins, with its state.
    cursor: Option<String>,
}

impl<'a, const MAX: usize, const DEFAULT: usize> FieldGroup<'a> for Paged<MAX, DEFAULT> {
    const OWN: &'static [Field] = &[
        AT,
        Field::of::<usize>(
            "limit",
            integer(1, MAX as u64),
            Some(|| json!(DEFAULT)),
            " Limit on the items of the page.",
        ),
        CURSOR,
    ];
    const FIELDS: &'static [&'static [Field]] = &[Self::OWN];
    const SUMMARY: &'static str = "";

    fn read(fields: &Fields<'a>) -> Result<Self, Refusal> {
        let at = text(fields, &AT)?;
        let limit = fields.read("limit", &integer(1, MAX as u64), Some(DEFAULT))?;
        let cursor = text(fields, &CURSOR)?;
        Ok(Self { at, limit, cursor: cursor.map(|cursor| fields.position(&cursor)).transpose()? })
    }
}

/// Beginning of a page.
pub(super) struct PageStart {
    /// Tree in the state of the page.
    pub(super) fs: Arc<dyn FileSystem>,
    /// That state; `None` for the newest.
    moment: Option<Moment>,
    /// Position after which the page begins; `None` for the first page.
    pub(super) after: Option<String>,
}

impl<const MAX: usize, const DEFAULT: usize> Paged<MAX, DEFAULT> {
    /// Returns the beginning of the page.
    pub(super) async fn start(
        &self,
        fs: &Arc<dyn FileSystem>,
        call: &Call<'_>,
    ) -> Result<PageStart, Refusal> {
        PageStart::of(fs, call, self.at.as_deref(), self.cursor.as_deref()).await
    }
}

impl PageStart {
    /// Returns the beginning of a page: that of a cursor, or of the first page of the state `at`.
    async fn of(
        fs: &Arc<dyn FileSystem>,
        call: &Call<'_>,
        at: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<Self, Refusal> {
        let (moment, after) = match cursor {
            Some(cursor) => {
                let (moment, after) = cursor.split_once('|').ok_or_else(Refusal::cursor)?;
                (moment_from(moment)?, Some(after.to_owned()))
            }
            None => (call.moment_of(at).await?, None),
        };
        let fs = past(fs, moment.as_ref()).await?;
        let moment = match moment {
            Some(Moment::Snapshot(_)) => Some(Moment::Seq(fs.head().await?.seq)),
            moment => moment,
        };
        Ok(Self { fs, moment, after })
    }

    /// Returns the cursor of a position in the same state.
    pub(super) fn cursor(&self, call: &Call<'_>, position: &str) -> String {
        call.fields.cursor_of(&self.position(position))
    }

    /// Returns the cursor of a position in the same state, sealed, for [`SealedPage`].
    pub(super) fn sealed_cursor(&self, call: &Call<'_>, position: &str) -> Result<String, Refusal> {
        seal(call, self.position(position).as_bytes())
    }

    fn position(&self, position: &str) -> String {
        format!("{}|{position}", moment_text(self.moment.as_ref()))
    }

    /// Returns true for a page of a past state.
    pub(super) fn is_past(&self) -> bool {
        self.moment.is_some()
    }

    /// Returns the position as a number.
    pub(super) fn number(&self) -> Result<Option<u64>, Refusal> {
        self.after.as_ref().map(|after| after.parse().map_err(|_| Refusal::cursor())).transpose()
    }
}

/// Returns a position as a cursor that only the same request of the same caller opens. The position may name
/// or count what the caller does not reach.
pub(super) fn seal(call: &Call<'_>, position: &[u8]) -> Result<String, Refusal> {
    CursorSeal::of(call).seal(position)
}

/// Returns the position of a cursor of [`seal`].
pub(super) fn open(call: &Call<'_>, cursor: &str) -> Result<Vec<u8>, Refusal> {
    CursorSeal::of(call).open(cursor)
}

/// Seal of the cursors of one request, also for an answer that goes on after its call.
#[derive(Clone, Debug)]
pub(super) struct CursorSeal {
    key: Arc<SealingKey>,
    env: Env,
    request: [u8; 32],
    account: String,
    binding: String,
}

impl CursorSeal {
    /// Returns the seal of a request.
    pub(super) fn of(call: &Call<'_>) -> Self {
        Self {
            key: Arc::clone(call.sealing_key),
            env: call.env.clone(),
            request: call.fields.hash_for_cursors(),
            account: call.key.share().to_owned(),
            binding: call.key.binding.digest(),
        }
    }

    /// Returns a position as a cursor, as [`seal`] does.
    pub(super) fn seal(&self, position: &[u8]) -> Result<String, Refusal> {
        self.key.seal(&self.env, &self.parts(), position)
    }

    /// Returns the position of a cursor.
    pub(super) fn open(&self, cursor: &str) -> Result<Vec<u8>, Refusal> {
        self.key.open(&self.parts(), cursor)
    }

    fn parts(&self) -> [&[u8]; 3] {
        [&self.request, self.account.as_bytes(), self.binding.as_bytes()]
    }
}

/// State and page that a read asks for, with sealed cursors: at most `MAX` items, by default `DEFAULT`.
#[derive(Debug)]
pub(crate) struct SealedPage<const MAX: usize, const DEFAULT: usize> {
    at: Option<String>,
    pub(super) limit: usize,
    /// Cursor as it was sent.
    cursor: Option<String>,
}

impl<'a, const MAX: usize, const DEFAULT: usize> FieldGroup<'a> for SealedPage<MAX, DEFAULT> {
    const OWN: &'static [Field] = <Paged<MAX, DEFAULT> as FieldGroup<'a>>::OWN;
    const FIELDS: &'static [&'static [Field]] = &[Self::OWN];
    const SUMMARY: &'static str = "";

    fn read(fields: &Fields<'a>) -> Result<Self, Refusal> {
        let RawPage { limit, cursor } = RawPage::<MAX, DEFAULT>::read(fields)?;
        Ok(Self { at: text(fields, &AT)?, limit, cursor })
    }
}

impl<const MAX: usize, const DEFAULT: usize> SealedPage<MAX, DEFAULT> {
    /// Returns the beginning of the page.
    pub(super) async fn start(
        &self,
        fs: &Arc<dyn FileSystem>,
        call: &Call<'_>,
    ) -> Result<PageStart, Refusal> {
        let opened = self.cursor.as_deref().map(|cursor| open(call, cursor)).transpose()?;
        let position = opened.map(String::from_utf8).transpose().map_err(|_| Refusal::cursor())?;
        PageStart::of(fs, call, self.at.as_deref(), position.as_deref()).await
    }
}

/// Page of at most `MAX` items, by default `DEFAULT`, of a call with cursors of its own.
#[derive(Debug)]
pub(crate) struct RawPage<const MAX: usize, const DEFAULT: usize> {
    pub(super) limit: usize,
    /// Cursor as it was sent.
    pub(super) cursor: Option<String>,
}

impl<'a, const MAX: usize, const DEFAULT: usize> FieldGroup<'a> for RawPage<MAX, DEFAULT> {
    const OWN: &'static [Field] = &[
        Field::of::<usize>(
            "limit",
            integer(1, MAX as u64),
            Some(|| json!(DEFAULT)),
            " Limit on the items of the page.",
        ),
        CURSOR,
    ];
    const FIELDS: &'static [&'static [Field]] = &[Self::OWN];
    const SUMMARY: &'static str = "";

    fn read(fields: &Fields<'a>) -> Result<Self, Refusal> {
        let limit = fields.read("limit", &integer(1, MAX as u64), Some(DEFAULT))?;
        Ok(Self { limit, cursor: text(fields, &CURSOR)? })
    }
}

fn text(fields: &Fields<'_>, field: &Field) -> Result<Option<String>, Refusal> {
    let text = fields.read::<Option<Cow<'_, str>>>(field.name, &field.kind, None)?;
    Ok(text.map(Cow::into_owned))
}

/// Returns the tree at a time; the tree itself for now.
async fn past(fs: &Arc<dyn FileSystem>, moment: Option<&Moment>) -> Result<Arc<dyn FileSystem>, Refusal> {
    match moment {
        Some(moment) => Ok(fs.as_of(moment).await?),
        None => Ok(Arc::clone(fs)),
    }
}

/// Returns a state as a part of a position: a sequence, or `@` and a time in nanoseconds.
pub(super) fn moment_text(moment: Option<&Moment>) -> String {
    match moment {
        Some(Moment::Seq(seq)) => seq.to_string(),
        Some(Moment::Time(time)) => format!("@{}", time.0),
        // Pages name the sequence of a snapshot, because it may be dropped.
        Some(Moment::Snapshot(_)) | None => String::new(),
    }
}

/// Returns the state of [`moment_text`].
pub(super) fn moment_from(text: &str) -> Result<Option<Moment>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    let moment = match text.strip_prefix('@') {
        Some(time) => time.parse().map(|time| Moment::Time(Timestamp(time))),
        None => text.parse().map(|seq| Moment::Seq(Seq(seq))),
    };
    moment.map(Some).map_err(|_| Refusal::cursor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_read_back_from_positions() {
        for moment in [None, Some(Moment::Seq(Seq(42))), Some(Moment::Time(Timestamp(-7)))] {
            assert_eq!(moment_from(&moment_text(moment.as_ref())).unwrap(), moment);
        }
        for other in ["x", "@", "-1", "@x", "18446744073709551616"] {
            assert!(moment_from(other).is_err(), "{other}");
        }
    }
}
