//! Failures as clients of the protocol see them: errors of JSON-RPC, and answers of tools that say why they
//! failed.

use std::borrow::Cow;
use std::iter;

use garth_engine::error::Advice;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value};

use super::hints::Unseen;
use super::line::one_line;
use crate::errors::{Code, Refusal};

/// Limit on the bytes of a URI that an error repeats. The longest path has fewer, also if each of its bytes
/// is percent-encoded.
const MAX_URI: usize = 16 << 10;

/// Returns the error of a request that fails. Its data have the code of the API, and the id of the request
/// for the log.
pub(super) fn error_of(refusal: &Refusal, unseen: &Unseen, request_id: Option<String>) -> ErrorData {
    let data = Some(Value::Object(data_of(refusal, request_id)));
    let message = message_of(refusal, unseen);
    let (is_missing, is_clients) = (refusal.code == Code::NotFound, refusal.status.is_client_error());
    match (is_missing, is_clients) {
        (true, _) => ErrorData::resource_not_found(message, data),
        (false, true) => ErrorData::invalid_params(message, data),
        (false, false) => ErrorData::internal_error(message, data),
    }
}

/// Adds the URI of the resource that was asked for to the data of an error.
pub(super) fn naming_uri(mut error: ErrorData, uri: String) -> ErrorData {
    if let Some(data) = error.data.as_mut().and_then(Value::as_object_mut)
        && uri.len() <= MAX_URI
    {
        data.insert("uri".to_owned(), uri.into());
    }
    error
}

/// Returns the answer of a tool that failed: a text that a model reads.
pub(super) fn failed_tool(refusal: &Refusal, unseen: &Unseen, request_id: Option<String>) -> CallToolResult {
    let code = refusal.code.as_str();
    let request = match request_id.filter(|_| refusal.status.is_server_error()) {
        Some(id) => format!(", request {id}"),
        None => String::new(),
    };
    let message = message_of(refusal, unseen);
    CallToolResult::error(vec![ContentBlock::text(format!("{message} ({code}{request})"))])
}

/// Returns the message of a refusal as one line: what failed, and the advice and hints that the client can
/// follow.
pub(super) fn message_of(refusal: &Refusal, unseen: &Unseen) -> String {
    let advice = refusal.advice().and_then(|(advice, _)| for_models(advice));
    let hints = advice.into_iter().chain(refusal.hints()).filter_map(|hint| unseen.hint(hint));
    let parts: Vec<Cow<'_, str>> = iter::once(Cow::Borrowed(&*refusal.message)).chain(hints).collect();
    one_line(&parts.join("; "))
}

/// Returns advice of the library for models; `None` for advice that they cannot follow. They have no command
/// line and no other caller, and send nothing but the arguments of their tools.
const fn for_models(advice: Advice) -> Option<&'static str> {
    match advice {
        Advice::OtherCaller => Some("only people change this file: ask your user"),
        Advice::UploadLimit => Some("split it into several files"),
        Advice::StoredBytes => Some("tell your user, who can make room, or have the limit raised"),
        Advice::Recall => Some("`recall` finds memories, and shows their URIs"),
        Advice::Command | Advice::LowerLayer => None,
    }
}

fn data_of(refusal: &Refusal, request_id: Option<String>) -> Map<String, Value> {
    let mut data = Map::new();
    data.insert("code".to_owned(), refusal.code.as_str().into());
    data.insert("kind".to_owned(), refusal.kind.as_str().into());
    if let Some(path) = refusal.subject() {
        data.insert("path".to_owned(), path.into());
    }
    if let Some(id) = request_id {
        data.insert("request_id".to_owned(), id.into());
    }
    data
}

#[cfg(test)]
mod tests {
    use garth_engine::{Error, ErrorKind, TreePath};
    use rmcp::model::ErrorCode;

    use super::*;

    #[test]
    fn failures_have_the_codes_of_json_rpc() {
        for (code, due) in [
            (Code::NotFound, ErrorCode::RESOURCE_NOT_FOUND),
            (Code::Validation, ErrorCode::INVALID_PARAMS),
            (Code::Forbidden, ErrorCode::INVALID_PARAMS),
            (Code::Unavailable, ErrorCode::INTERNAL_ERROR),
        ] {
            let error = error_of(&Refusal::new(code, "why"), &Unseen::default(), Some("req_1".to_owned()));
            assert_eq!((error.code, &*error.message), (due, "why"));
            let data = error.data.unwrap();
            assert_eq!((&data["code"], &data["request_id"]), (&code.as_str().into(), &"req_1".into()));
        }
    }

    #[test]
    fn error_names_a_uri_that_is_no_longer_than_a_path() {
        let named = |uri: String| {
            let error = error_of(&Refusal::new(Code::NotFound, "why"), &Unseen::default(), None);
            naming_uri(error, uri).data.unwrap()
        };
        let data = named("garth:///a".to_owned());
        assert_eq!((&data["uri"], &data["code"]), (&"garth:///a".into(), &"NOT_FOUND".into()));
        assert!(named("x".repeat(MAX_URI + 1)).get("uri").is_none());
    }

    #[test]
    fn failed_tool_names_the_request_if_the_server_failed() {
        let text = |code| {
            let refusal = Refusal::new(code, "why");
            let failed = failed_tool(&refusal, &Unseen::default(), Some("req_1".to_owned()));
            assert_eq!(failed.is_error, Some(true));
            failed.content[0].as_text().unwrap().text.clone()
        };
        assert_eq!(text(Code::Conflict), "why (CONFLICT)");
        assert_eq!(text(Code::Internal), "why (INTERNAL, request req_1)");
    }

    /// Texts of commands, options, routes and fields.
    const OF_OTHERS: [&str; 5] = ["garth ", "--", "/v1/", "POST", "\""];

    #[test]
    fn failures_have_no_advice_for_others() {
        let path = TreePath::parse("/a; `ls`").unwrap();
        let text = "run `garth fsck --all`, or send \"skip\" to `POST /v1/x`";
        for kind in ErrorKind::ALL {
            for advice in Advice::ALL {
                let error = Error::at(*kind, &path, "is; `grep`; wrong").advising(*advice, text);
                let refusal = Refusal::from(error).naming_path();
                let shown = message_of(&refusal, &Unseen::default());
                let found = OF_OTHERS.into_iter().find(|part| shown.contains(*part));
                assert_eq!(found, None, "{kind} {advice:?}: {shown}");
                // It may quote anything.
                let rest = shown.strip_prefix(&*refusal.message).unwrap();
                let due = refusal.advice().and_then(|(advice, _)| for_models(advice));
                assert_eq!(rest.strip_prefix("; "), due, "{kind} {advice:?}");
                let failed = failed_tool(&refusal, &Unseen::default(), None);
                let due = format!("{shown} ({})", refusal.code.as_str());
                assert_eq!(failed.content[0].as_text().unwrap().text, due);
                assert_eq!(&*error_of(&refusal, &Unseen::default(), None).message, &*shown);
            }
        }
    }

    #[test]
    fn hints_follow_the_failure_if_the_client_sees_their_tools() {
        let refusal = Refusal::new(Code::NotFound, "/a; `ls`: no such file")
            .hinting("read it with `read_file`")
            .hinting("set `limit`");
        let due = "/a; `ls`: no such file; read it with `read_file`; set `limit`";
        assert_eq!(message_of(&refusal, &Unseen::default()), due);
        let due = "/a; `ls`: no such file; set `limit`";
        assert_eq!(message_of(&refusal, &Unseen::new(|_| false)), due);
    }
}
