//! Bytes of files: `/v1/fs/{path}`. They are stored while they arrive, and read while they are sent.

mod conditions;
mod metadata;

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, ETAG};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use garth_agent::files::{FileWrite, FileWritten, Files};
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::fs::{FileSystem, OpenFile};
use garth_engine::home::Scope;
use garth_engine::model::{At, ByteRange, Entry, Seq, SetAttrs, Timestamp, VersionId};
use garth_engine::{Error, ErrorKind, TreePath};
use hyper::body::Body as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use self::conditions::Conditions;
use super::call::Call;
use super::header::Header;
use super::open::files;
use super::range::{Part, part};
use super::respond::{self, confine};
use super::retry::RETRY_HEADER;
use super::transfer::{expected, incoming, outgoing, refuse_content};
use crate::errors::{Code, Refusal};
use crate::fields::{FieldGroup as _, MAX_INTEGER, fields, flag, integer, moment, of_field, string_of};

const IF_MATCH_HEADER: Header = Header {
    name: "if-match",
    is_required: false,
    meaning: "`ETag`s, one of which the file must have; `*` for any.",
};
const IF_NONE_MATCH_HEADER: Header = Header {
    name: "if-none-match",
    is_required: false,
    meaning: "`ETag`s, none of which the file may have; `*`: the file must be missing.",
};
const EXPIRES_HEADER: Header = Header {
    name: metadata::EXPIRES,
    is_required: false,
    meaning: "Time from which the file is absent, or `never`. Without it the expiry stays.",
};
const METADATA_HEADER: Header = Header {
    name: "x-garth-meta-*",
    is_required: false,
    meaning: "Custom metadata to set, name and value percent-encoded. Other metadata stays.",
};

/// Headers of a read.
pub(super) static READ_HEADERS: &[Header] = &[
    Header { name: "if-match", is_required: false, meaning: "`ETag`s, one of which the file must have." },
    Header { name: "if-none-match", is_required: false, meaning: "`ETag`s of bytes that the client has." },
    Header { name: "if-range", is_required: false, meaning: "`ETag` of bytes that `Range` continues." },
    Header { name: "range", is_required: false, meaning: "One range of bytes." },
];
/// Headers of a write of a complete file.
pub(super) static PUT_HEADERS: &[Header] = &[
    Header {
        name: "content-type",
        is_required: false,
        meaning: "MIME type, stored with the file. Without it the type stays.",
    },
    RETRY_HEADER,
    IF_MATCH_HEADER,
    IF_NONE_MATCH_HEADER,
    EXPIRES_HEADER,
    METADATA_HEADER,
];
/// Headers of a write of a part.
pub(super) static PATCH_HEADERS: &[Header] =
    &[RETRY_HEADER, IF_MATCH_HEADER, IF_NONE_MATCH_HEADER, EXPIRES_HEADER, METADATA_HEADER];
/// Headers of a removal.
pub(super) static DELETE_HEADERS: &[Header] = &[RETRY_HEADER, IF_MATCH_HEADER, IF_NONE_MATCH_HEADER];

/// Limit on `ttl_seconds`, 100 years.
const MAX_TTL: u64 = 100 * 366 * 24 * 60 * 60;

fields! {
    /// Returns the bytes of a file, or of one range of it.
    pub(super) struct ReadFields<'a> {
        /// Time of the tree: time, sequence or name of a snapshot. Default: now.
        at: Option<Cow<'a, str>> = moment();
        /// Version of the file. Default: the one of that time.
        version: Option<Cow<'a, str>> = string_of("version");
    }
}

pub(super) async fn read(call: &Call<'_>, head: &Parts) -> Result<Response, Refusal> {
    let fields = ReadFields::read(&call.fields)?;
    let (path, conditions) = (path_of(call, head)?, Conditions::read(&head.headers)?);
    let version = fields.version.map(|version| of_field("version", version.parse::<VersionId>()));
    let version = version.transpose()?;
    let now = files(call, false).await?;
    let fs = match call.moment_of(fields.at.as_deref()).await? {
        Some(moment) => now.as_of(&moment).await?,
        None => now,
    };
    let (entry, file) = opened(&*fs, &path, version).await?;
    let etag = quoted(entry.etag);
    if !conditions.matches(entry.etag) {
        let reason = "its `ETag` is none of those in `If-Match`; read its current `ETag`, and try again";
        return Err(unmet(&path, reason));
    }
    if conditions.knows(entry.etag) {
        // A body of unknown length: otherwise `HEAD` would answer that the file is empty.
        let body = Body::from_stream(futures::stream::empty::<Result<Bytes, Infallible>>());
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, etag)], body).into_response());
    }
    let (status, range) = match part(head, &etag, entry.size) {
        Part::Whole => (StatusCode::OK, 0..entry.size),
        Part::Range(range) => (StatusCode::PARTIAL_CONTENT, range),
        Part::Beyond => return Err(Refusal::range_beyond(entry.size)),
    };
    let asked = ByteRange { offset: range.start, length: range.end - range.start };
    // The answer to `HEAD` has the length of a body that is not sent.
    let body = outgoing(call, &head.method, file, asked).await?;
    let mut response = (status, body).into_response();
    let answer = response.headers_mut();
    metadata::add(answer, &entry.attributes, entry.expires_at);
    answer.insert(CONTENT_LENGTH, HeaderValue::from(asked.length));
    answer.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    confine(answer);
    // An invalid value leaves the header out.
    answer.extend(HeaderValue::from_str(&etag).map(|etag| (ETAG, etag)));
    if status == StatusCode::PARTIAL_CONTENT {
        let value = format!("bytes {}-{}/{}", range.start, range.end.saturating_sub(1), entry.size);
        answer.extend(HeaderValue::from_str(&value).map(|value| (CONTENT_RANGE, value)));
    }
    Ok(response)
}

/// Opens a file, or a version of it. Content and entry are of one state.
async fn opened(
    fs: &dyn FileSystem,
    path: &TreePath,
    version: Option<VersionId>,
) -> Result<(Entry, Arc<dyn OpenFile>), Refusal> {
    let (path, entry) = resolve::stat(fs, path.as_str(), Follow::Yes).await?;
    check_file(&path, &entry)?;
    if let Some(version) = version.filter(|version| *version != entry.version) {
        let missing = || {
            let message = format!("{path} has no version {version}; list them with `POST /v1/tree/history`");
            Refusal::new(Code::NotFound, message).naming(path.as_str())
        };
        // A version belongs to one node, and only the versions of this file are asked for.
        if version.ino != entry.ino {
            return Err(missing());
        }
        let file = match fs.open_version(version).await {
            Err(error) if error.is(ErrorKind::NotFound) => return Err(missing()),
            file => file.map_err(|error| about(&path, error))?,
        };
        let past = file.stat().await?;
        check_file(&path, &past)?;
        return Ok((past, file));
    }
    match fs.open_version(entry.version).await {
        // An overlay has no versions. The handle tells its own state.
        Err(error) if error.is(ErrorKind::Unsupported) => {
            let file = fs.open(&At::from(&path)).await?;
            Ok((file.stat().await?, file))
        }
        file => Ok((entry, file.map_err(|error| about(&path, error))?)),
    }
}

/// Names the path in the error of a version whose content is gone. It has the first path of the file, which
/// may be another one.
fn about(path: &TreePath, error: Error) -> Error {
    if error.is(ErrorKind::Gone) { error.mapped(|_| Some(path.clone())) } else { error }
}

fn check_file(path: &TreePath, entry: &Entry) -> Result<(), Refusal> {
    match (entry.is_file(), entry.is_dir()) {
        (true, _) => Ok(()),
        (_, true) => {
            let message = format!("{path} is a directory; list it with `POST /v1/tree/list`");
            Err(in_the_way(path, ErrorKind::IsADirectory, message))
        }
        _ => {
            let message = format!("{path} is not a file; see what it is with `POST /v1/tree/stat`");
            Err(in_the_way(path, ErrorKind::NotPermitted, message))
        }
    }
}

fields! {
    /// Stores the request body as the content of a file, and creates the file and its parents if they are
    /// missing.
    pub(super) struct PutFields<'a> {
        /// Seconds from now after which the file is absent. Default: `x-garth-expires`.
        ttl_seconds: Option<u64> = integer(1, MAX_TTL);
        /// `true` gives the file a free name if the path exists: `notes (2).md` for `notes.md`.
        free_name: bool = flag(), or false;
    }
}

pub(super) async fn put(call: &Call<'_>, head: &Parts, body: &mut Body) -> Result<Response, Refusal> {
    let fields = PutFields::read(&call.fields)?;
    let attrs = metadata::attributes(&head.headers)?;
    let content_type = metadata::content_type(&head.headers)?.map(Some);
    let expires_at = match (fields.ttl_seconds, attrs.expires_at) {
        (Some(_), Some(_)) => {
            let message = format!("send \"ttl_seconds\" or `{}`, not both", metadata::EXPIRES);
            return Err(Refusal::validation(message));
        }
        (Some(seconds), None) => Some(Some(after(call.env.now(), seconds))),
        (None, expires_at) => expires_at,
    };
    let write = if fields.free_name { FileWrite::free_name() } else { FileWrite::replace() };
    let write = write.attrs(SetAttrs { content_type, expires_at, ..attrs });
    if fields.free_name && !Conditions::read(&head.headers)?.is_empty() {
        let message = "\"free_name\" takes no `If-Match` and no `If-None-Match`: it never replaces a file";
        return Err(Refusal::validation(message));
    }
    store(call, head, body, write).await
}

fields! {
    /// Adds the request body at the end of a file, or writes it at an offset.
    pub(super) struct PatchFields<'a> {
        /// Offset in bytes, in a file that exists; a gap before it reads as zeros. Default: the end, of a
        /// file that is created with its parents if it is missing.
        offset: Option<u64> = integer(0, MAX_INTEGER);
    }
}

pub(super) async fn patch(call: &Call<'_>, head: &Parts, body: &mut Body) -> Result<Response, Refusal> {
    let write = match PatchFields::read(&call.fields)?.offset {
        Some(offset) => FileWrite::at(offset),
        None => FileWrite::append(),
    };
    store(call, head, body, write.attrs(metadata::attributes(&head.headers)?)).await
}

/// Writes the body of a request, and answers with the file.
async fn store(
    call: &Call<'_>,
    head: &Parts,
    body: &mut Body,
    write: FileWrite,
) -> Result<Response, Refusal> {
    let (path, conditions) = (path_of(call, head)?, Conditions::read(&head.headers)?);
    let write = conditions.preconditions().into_iter().fold(write, FileWrite::require);
    let fs = files(call, true).await?;
    let files = Files::new(&*fs).once(call.once.clone()).expecting(expected(call, body));
    let files = files.writes_only(!call.key.allows(Scope::FilesRead));
    let content = incoming(call, body).await?;
    let written = files.write(&path, &write, content).await;
    let written = written.map_err(|error| match error.kind() {
        ErrorKind::IsADirectory => {
            in_the_way(&path, error.kind(), format!("{path} is a directory; name a file in it"))
        }
        ErrorKind::Conflict if !conditions.is_empty() => unmet(&path, &conditions.unmet()),
        _ => error.into(),
    })?;
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    let answer = json!(StoredAnswer::of(call, &path, &written));
    let mut response = respond::json(Bytes::from(answer.to_string()));
    *response.status_mut() = status;
    if let Some(Ok(etag)) = written.etag.map(|etag| HeaderValue::from_str(&quoted(etag))) {
        response.headers_mut().insert(ETAG, etag);
    }
    Ok(response)
}

/// Answer to a write. The target of a link, and the size of a file that had content before, are content: a
/// key that may not read gets `null`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FileStored")]
pub(super) struct StoredAnswer<'a> {
    /// `true`.
    ok: bool,
    /// Path of the file; `null` if a link led to it, without the scope `files:read`.
    path: Option<&'a TreePath>,
    /// True if the file was created.
    created: bool,
    /// Size of the file in bytes; `null` without the scope `files:read`.
    size: Option<u64>,
    /// Version of the file.
    version: VersionId,
    /// Version of the content, as in `ETag`; `null` if the content stayed as it was.
    etag: Option<VersionId>,
    /// Commit.
    seq: Seq,
}

impl<'a> StoredAnswer<'a> {
    /// Returns the answer to a write of `path`.
    fn of(call: &Call<'_>, path: &TreePath, written: &'a FileWritten) -> Self {
        let may_read = call.key.allows(Scope::FilesRead);
        Self {
            ok: true,
            path: Some(&written.path).filter(|written| may_read || *written == path),
            created: written.created,
            size: may_read.then_some(written.size),
            version: written.version,
            etag: written.etag,
            seq: written.seq,
        }
    }
}

fields! {
    /// Removes a file.
    pub(super) struct DeleteFields<'a> {
        /// `true` also removes a directory, with everything below it.
        recursive: bool = flag(), or false;
    }
}

pub(super) async fn delete(call: &Call<'_>, head: &Parts, body: &mut Body) -> Result<Response, Refusal> {
    let fields = DeleteFields::read(&call.fields)?;
    let (path, conditions) = (path_of(call, head)?, Conditions::read(&head.headers)?);
    if !body.is_end_stream() {
        refuse_content(call, body).await?;
    }
    let fs = files(call, false).await?;
    let files = Files::new(&*fs).once(call.once.clone());
    let removed = files.remove(&path, fields.recursive, &conditions.preconditions()).await;
    let (removed, seq) = removed.map_err(|error| match error.kind() {
        ErrorKind::IsADirectory => {
            let message =
                format!("{path} is a directory; remove it and everything below it with `recursive=true`");
            in_the_way(&path, error.kind(), message)
        }
        ErrorKind::Conflict if !conditions.is_empty() => unmet(&path, &conditions.unmet()),
        _ => error.into(),
    })?;
    let may_read = removed == path || call.key.allows(Scope::FilesRead);
    let answer = RemovedAnswer { ok: true, path: may_read.then_some(&removed), removed: true, seq };
    Ok(respond::json(Bytes::from(json!(answer).to_string())))
}

/// Answer to a removal.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FileRemoved")]
pub(super) struct RemovedAnswer<'a> {
    /// `true`.
    ok: bool,
    /// Path of the file; `null` if a link led to it, without the scope `files:read`.
    path: Option<&'a TreePath>,
    /// `true`.
    removed: bool,
    /// Commit.
    seq: Seq,
}

/// Returns the path that a request names. It is decoded once and taken as it is: nothing is folded or
/// normalised. An encoded slash separates names like any other, since no name contains one.
fn path_of(call: &Call<'_>, head: &Parts) -> Result<TreePath, Refusal> {
    let invalid = |reason: &str| Refusal::new(Code::InvalidPath, reason);
    // A decoder leaves a broken escape as it is, so that two addresses would name one file.
    let mut escapes = head.uri.path().split('%').skip(1);
    let is_escape = |text: &str| text.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !escapes.all(is_escape) {
        return Err(invalid("the path has a `%` without two hexadecimal digits; a percent sign is `%25`"));
    }
    TreePath::parse(&format!("/{}", call.argument("path"))).map_err(|error| invalid(&error.to_string()))
}

/// Returns the time `seconds` after `now`, or the last one that can be stored.
fn after(now: Timestamp, seconds: u64) -> Timestamp {
    now.plus_seconds(i64::try_from(seconds).unwrap_or(i64::MAX))
}

fn quoted(etag: VersionId) -> String {
    format!("\"{etag}\"")
}

/// Returns the refusal of a path at which there is something else than a file.
fn in_the_way(path: &TreePath, kind: ErrorKind, message: String) -> Refusal {
    Refusal::new(Code::PathConflict, message).with_kind(kind).naming(path.as_str())
}

fn unmet(path: &TreePath, reason: &str) -> Refusal {
    let message = format!("{path}: {reason}");
    let refusal = Refusal::new(Code::Conflict, message).with_status(StatusCode::PRECONDITION_FAILED);
    refusal.naming(path.as_str())
}
