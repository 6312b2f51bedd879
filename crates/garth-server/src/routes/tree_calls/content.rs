//! Calls that return the content of files.

use std::sync::Arc;

use bytes::Bytes;
use garth_engine::FileSystem;
use garth_engine::model::{At, ByteRange, Entry, Seq, json_flaw};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::address::{Address, at};
use super::answer::{Answer, Content, Items, content};
use super::paging::Past;
use crate::errors::Refusal;
use crate::fields::{MAX_INTEGER, array, fields, integer};
use crate::routes::call::Call;
use crate::routes::respond::raw;

/// Limit on the bytes of a file in one answer, 4 MiB.
const MAX_LENGTH: u64 = 4 << 20;
/// Default limit on the bytes of a file in an answer with one file.
const DEFAULT_LENGTH: u64 = 1 << 20;
/// Default limit on the bytes of each file in an answer with several.
const DEFAULT_OF_MANY: u64 = 64 << 10;
/// Limit on the files of one call.
const MAX_FILES: usize = 1000;

fields! {
    /// Returns a file, and bytes of its content in the same state.
    pub(crate) struct FetchFields<'a> {
        /// First byte.
        offset: u64 = integer(0, MAX_INTEGER), or 0;
        /// Limit on the bytes.
        length: u64 = integer(0, MAX_LENGTH), or DEFAULT_LENGTH;
        ..address: Address;
        ..past: Past;
    }
}

pub(in crate::routes) async fn fetch(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: FetchFields<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let fs = fields.past.of(fs, call).await?;
    let (fs, range) = (&*fs, ByteRange { offset: fields.offset, length: fields.length });
    let (entry, bytes) =
        fields.address.of(call).run(fs, |at| async move { fs.fetch(&at, range).await }).await?;
    raw(&FetchedFile { entry: &entry, content: content(&bytes) })
}

/// File, and bytes of its content: `text`, or `base64` for bytes that are not text.
#[derive(Serialize, JsonSchema)]
pub(in crate::routes) struct FetchedFile<'a> {
    /// Node of the file.
    entry: &'a Entry,
    #[serde(flatten)]
    content: Content<'a>,
}

fields! {
    /// Returns several files and their bytes, all of one state. Fewer items are those of the first files.
    pub(crate) struct FetchManyFields<'a> {
        /// Files: objects with `path`, `node` or `child`, and `offset` and `length`. Links are
        /// not followed.
        items: Vec<&'a RawValue> = array("files").at_most(MAX_FILES);
        ..past: Past;
    }
}

pub(in crate::routes) async fn fetch_many(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: FetchManyFields<'_>,
) -> Result<Bytes, Refusal> {
    let items = fields.items.iter().enumerate().map(|(at, item)| asked(at, item.get()));
    let items = items.collect::<Result<Vec<_>, _>>()?;
    let fetched = fields.past.of(fs, call).await?.fetch_many(&items).await?;
    let mut shown = Items::default();
    for item in fetched.items {
        let has_room = match item {
            Ok((entry, bytes)) => shown.push(&FetchedFile { entry: &entry, content: content(&bytes) })?,
            Err(error) => shown.push(&FailedItem::of(Refusal::from(error).naming_path()))?,
        };
        if !has_room {
            break;
        }
    }
    Answer::of("items", shown).with("seq", &fetched.seq)?.page(None)
}

/// Files of one state. There may be fewer items than were asked for.
#[allow(dead_code)] // It only describes the answer, which is written item by item.
#[derive(JsonSchema)]
pub(in crate::routes) struct FetchManyAnswer {
    /// Files, in the order in which they were asked for.
    items: Vec<FetchedItem<'static>>,
    /// Commit of the state; `null` if the files are of several accounts.
    seq: Option<Seq>,
}

/// File, or the error that occurred.
#[allow(dead_code)] // As `FetchManyAnswer`.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum FetchedItem<'a> {
    /// File.
    File(FetchedFile<'a>),
    /// Error.
    Failed(FailedItem),
}

/// File that is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedFile<'a> {
    path: Option<String>,
    node: Option<u64>,
    #[serde(borrow)]
    child: Option<&'a RawValue>,
    #[serde(default)]
    offset: u64,
    #[serde(default = "default_of_many")]
    length: u64,
}

fn default_of_many() -> u64 {
    DEFAULT_OF_MANY
}

/// Parses a file that is asked for. `index` is its number among the items, from 0.
fn asked(index: usize, json: &str) -> Result<(At, ByteRange), Refusal> {
    let file: AskedFile<'_> = serde_json::from_str(json).map_err(|error| {
        let again = |json: &str| serde_json::from_str::<AskedFile<'_>>(json).err();
        Refusal::validation(json_flaw(&format!("items[{index}]"), json, &error, &again))
    })?;
    if file.length > MAX_LENGTH {
        let message = format!("\"items[{index}].length\" must be a whole number from 0 to {MAX_LENGTH}");
        return Err(Refusal::validation(message));
    }
    let at = at(file.path.as_deref(), file.node, file.child.map(RawValue::get));
    let at = at.map_err(|refusal| refusal.of_field(format_args!("items[{index}]")))?;
    Ok((at, ByteRange { offset: file.offset, length: file.length }))
}

/// Item that could not be read.
#[derive(Serialize, JsonSchema)]
pub(super) struct FailedItem {
    /// Error, in place of the file.
    error: ItemError,
}

/// Error of one item, as in the envelope of errors.
#[derive(Serialize, JsonSchema)]
pub(super) struct ItemError {
    /// Code, as in the envelope of errors.
    code: &'static str,
    /// Kind of the error.
    kind: &'static str,
    /// Message.
    message: String,
    /// Path that the error is about, where it may be named.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

impl FailedItem {
    /// Returns the item of a refusal, and logs its cause.
    fn of(refusal: Refusal) -> Self {
        Self { error: ItemError::of(refusal) }
    }
}

impl ItemError {
    /// Returns the error of a refusal, and logs its cause.
    pub(super) fn of(mut refusal: Refusal) -> Self {
        refusal.log();
        let (code, kind) = (refusal.code.as_str(), refusal.kind.as_str());
        let path = refusal.subject().map(str::to_owned);
        Self { code, kind, message: refusal.text().into_owned(), path }
    }
}
