//! Comparison of messages when a transcript is imported again. White space, the order of keys, and fields in
//! which an SDK describes how a message was made do not count.

use std::collections::BTreeMap;

use super::format::TranscriptFormat;
use super::surrogates::whole_pairs;
use crate::session::log::canonical::Json;
use crate::session::log::draft::Draft;

/// SHA-256 of the compared content.
pub(super) type Digest = [u8; 32];

/// Fields of a message in which an SDK or provider notes how it was made. They contain no content, and can be
/// absent from a repeat. `docs/specs/transcripts.md` lists them, too.
const IGNORED: [(TranscriptFormat, &[&str]); 3] = [
    (
        TranscriptFormat::OpenAi,
        &[
            "annotations",
            "created",
            "finish_reason",
            "id",
            "index",
            "logprobs",
            "model",
            "object",
            "parsed",
            "provider_specific_fields",
            "reasoning",
            "reasoning_content",
            "reasoning_details",
            "usage",
        ],
    ),
    (
        TranscriptFormat::Anthropic,
        &["container", "id", "model", "stop_reason", "stop_sequence", "type", "usage"],
    ),
    (
        TranscriptFormat::Pi,
        &[
            "api",
            "errorMessage",
            "id",
            "model",
            "provider",
            "responseId",
            "stopReason",
            "timestamp",
            "toolName",
            "usage",
        ],
    ),
];

type Members<'a> = BTreeMap<std::borrow::Cow<'a, str>, Json<'a>>;

/// Returns the digest of a message in its original form, without the fields that are not compared. `None` for
/// a format whose messages are not stored in their original form.
pub(super) fn as_it_came(format: TranscriptFormat, text: &str) -> Option<Digest> {
    let (_, ignored) = IGNORED.iter().find(|(of, _)| *of == format)?;
    let mended = whole_pairs(text);
    let Json::Object(mut members) = Json::parse(mended.as_deref().unwrap_or(text))? else { return None };
    members.retain(|name, _| name != "cache_control" && !ignored.contains(&&**name));
    // `developer` is the newer name of the role `system`. A session knows only one.
    if members.get("role").and_then(Json::as_str) == Some("developer") {
        members.insert("role".into(), Json::String("system".into()));
    }
    // A message without calls has an empty list, or no such field.
    if let Some(calls) = members.remove("tool_calls")
        && let Json::Array(calls) = calls
        && !calls.is_empty()
    {
        members.insert("tool_calls".into(), Json::Array(calls.into_iter().map(call).collect()));
    }
    for (name, same_as_absent) in [("refusal", Json::String("".into())), ("isError", Json::Bool(false))] {
        if members.get(name) == Some(&same_as_absent) {
            members.remove(name);
        }
    }
    Some(Json::Object(with_content(members)).digest())
}

/// Returns the digest of role and content of a message of a session.
pub(super) fn as_said(draft: &Draft) -> Digest {
    let field = |name: &'static str| Some((name.into(), Json::parse(draft.raw(name)?)?));
    let members: Members<'_> = ["role", "content"].into_iter().filter_map(field).collect();
    Json::Object(with_content(members)).digest()
}

/// Returns the paths of the images in a content.
pub(super) fn image_paths(content: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut look = |block: &Json<'_>| {
        paths.extend(member(block, "path").filter(|_| is_image(block)).map(str::to_owned));
    };
    if let Some(Json::Array(blocks)) = Json::parse(content) {
        for block in &blocks {
            look(block);
            if let Json::Object(members) = block
                && let Some(Json::Array(inner)) = members.get("content")
            {
                inner.iter().for_each(&mut look);
            }
        }
    }
    paths
}

/// Returns the digest of role and content of a message in which each image is the digest of its bytes.
/// `of_paths` has the digests of images that are given by path. An image without a digest, such as a URL, is
/// compared as it is.
pub(super) fn as_said_with_images(
    draft: &Draft,
    of_paths: &BTreeMap<String, Digest>,
    of_data: impl Fn(&str) -> Option<Digest>,
) -> Option<Digest> {
    let digest = |block: &Json<'_>| {
        let path = member(block, "path").and_then(|path| of_paths.get(path).copied());
        path.or_else(|| of_data(member(block, "data")?))
    };
    let put = |block: &mut Json<'_>| {
        if let Some(digest) = is_image(block).then(|| digest(block)).flatten() {
            *block = Json::String(garth_engine::model::hex(&digest).into());
        }
    };
    let Some(Json::Array(mut blocks)) = Json::parse(draft.raw("content")?) else { return None };
    for block in &mut blocks {
        put(block);
        if let Json::Object(members) = block
            && let Some(Json::Array(inner)) = members.get_mut("content")
        {
            inner.iter_mut().for_each(put);
        }
    }
    let members =
        [("role".into(), Json::parse(draft.raw("role")?)?), ("content".into(), Json::Array(blocks))];
    Some(Json::Object(with_content(members.into())).digest())
}

fn is_image(block: &Json<'_>) -> bool {
    member(block, "type") == Some("image")
}

/// Returns a member of a block that is text.
fn member<'j>(block: &'j Json<'_>, name: &str) -> Option<&'j str> {
    match block {
        Json::Object(members) => members.get(name)?.as_str(),
        _ => None,
    }
}

/// Normalizes content: a text equals one block of text, and an empty text equals missing content.
fn with_content(mut members: Members<'_>) -> Members<'_> {
    let blocks = match members.remove("content") {
        Some(Json::String(text)) => vec![text_block(text)],
        Some(Json::Array(blocks)) => blocks,
        Some(other) => vec![other],
        None => Vec::new(),
    };
    let blocks: Vec<_> = blocks.into_iter().filter_map(block).collect();
    if !blocks.is_empty() {
        members.insert("content".into(), Json::Array(blocks));
    }
    members
}

fn text_block(text: std::borrow::Cow<'_, str>) -> Json<'_> {
    let members = [("type".into(), Json::String("text".into())), ("text".into(), Json::String(text))];
    Json::Object(members.into())
}

/// Returns the compared form of a block; `None` for an empty block of text.
fn block(block: Json<'_>) -> Option<Json<'_>> {
    let Json::Object(mut members) = block else { return Some(block) };
    // Clients move this mark to the newest message with each call.
    members.remove("cache_control");
    match members.get("type").and_then(Json::as_str) {
        Some("text") if members.get("text").and_then(Json::as_str) == Some("") => return None,
        Some("tool_result") => {
            // The call names the tool. An export names it where the message does not.
            members.remove("name");
            members.retain(|name, value| {
                !["is_error", "error"].contains(&&**name) || *value != Json::Bool(false)
            });
            members = with_content(members);
        }
        Some("tool_call") => with_arguments(&mut members),
        _ => {}
    }
    Some(Json::Object(members))
}

/// Returns the compared form of a call of Chat Completions.
fn call(call: Json<'_>) -> Json<'_> {
    let Json::Object(mut members) = call else { return call };
    members.remove("index");
    members.entry("type".into()).or_insert_with(|| Json::String("function".into()));
    if let Some(Json::Object(function)) = members.get_mut("function") {
        with_arguments(function);
    }
    Json::Object(members)
}

/// Normalizes arguments: a string equals the object that it contains, and an empty string equals missing
/// arguments.
fn with_arguments(members: &mut Members<'_>) {
    let Some(text) = members.get("arguments").and_then(Json::as_str) else { return };
    let object = match text.trim() {
        "" => Some(Json::Object(BTreeMap::new())),
        text => Json::parse(text).filter(|value| matches!(value, Json::Object(_))),
    };
    if let Some(object) = object {
        // The object borrows from the string that it replaces.
        let owned = owned(object);
        members.insert("arguments".into(), owned);
    }
}

fn owned(value: Json<'_>) -> Json<'static> {
    match value {
        Json::Null => Json::Null,
        Json::Bool(value) => Json::Bool(value),
        Json::Number(number) => Json::Number(number.into_owned().into()),
        Json::String(text) => Json::String(text.into_owned().into()),
        Json::Array(items) => Json::Array(items.into_iter().map(owned).collect()),
        Json::Object(members) => Json::Object(
            members.into_iter().map(|(name, value)| (name.into_owned().into(), owned(value))).collect(),
        ),
    }
}
