//! Envelope of a message: the parts that are read before `rmcp` parses it. Messages of wrong forms end here,
//! because the library answers them without their id and without a reason.

use garth_engine::home::Scope;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::tools::TOOLS;
use crate::fields::reworded;
use crate::rate_limit::CallClass;

/// Longest id of a message in bytes that an answer to a broken message repeats.
const MAX_ID: usize = 1 << 10;
/// Tools that read or compute much for a short request, besides those that need `search:read`.
const SEARCHES: [&str; 2] = ["glob", "grep"];

/// Code of JSON-RPC for a text that is not JSON.
pub(super) const PARSE_ERROR: i32 = -32700;
/// Code of JSON-RPC for a message that is no request.
pub(super) const INVALID_REQUEST: i32 = -32600;
/// Code of JSON-RPC for parameters of another type.
const INVALID_PARAMS: i32 = -32602;

/// Message of a wrong form.
#[derive(Debug)]
pub(super) struct BrokenMessage {
    /// Id of the message; null if it has none, or none that can be repeated.
    pub(super) id: Value,
    pub(super) code: i32,
    pub(super) message: String,
}

/// Part of a message by which its limits are chosen.
#[derive(Debug)]
pub(super) struct Envelope {
    /// Id of the message; null if it has none, or none that can be repeated.
    pub(super) id: Value,
    method: String,
    /// Name of the tool that is called.
    tool: Option<String>,
}

#[derive(Deserialize)]
struct SentMessage<'a> {
    #[serde(default)]
    jsonrpc: Value,
    #[serde(default)]
    id: Value,
    #[serde(default)]
    method: String,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct SentParams {
    name: String,
}

impl Envelope {
    pub(super) fn parse(body: &[u8]) -> Result<Self, BrokenMessage> {
        let broken = |code, message: String| BrokenMessage { id: Value::Null, code, message };
        // An array would be read as the fields of the message, in their order.
        if body.trim_ascii_start().starts_with(b"[") {
            let message = "a request has one message; send those of a batch one by one";
            return Err(broken(INVALID_REQUEST, message.to_owned()));
        }
        let sent: SentMessage<'_> = serde_json::from_slice(body).map_err(|error| match error.is_data() {
            true => broken(INVALID_REQUEST, format!("the body is not a message of JSON-RPC: {error}")),
            false => broken(PARSE_ERROR, format!("the body is not valid JSON: {}", reworded(&error))),
        })?;
        let id =
            Some(sent.id).filter(|id| id.is_number() || id.as_str().is_some_and(|id| id.len() <= MAX_ID));
        let id = id.unwrap_or_default();
        if sent.jsonrpc != "2.0" {
            let message = r#"a message of JSON-RPC has "jsonrpc":"2.0""#.to_owned();
            return Err(BrokenMessage { id, code: INVALID_REQUEST, message });
        }
        if sent.params.is_some_and(|params| !params.get().starts_with('{')) {
            let method: String = sent.method.chars().take(100).collect();
            let message = format!("the parameters of {method} must be an object");
            return Err(BrokenMessage { id, code: INVALID_PARAMS, message });
        }
        let params = sent.params.filter(|_| sent.method == "tools/call");
        let params = params.and_then(|params| serde_json::from_str::<SentParams>(params.get()).ok());
        let tool = params.map(|params| params.name);
        Ok(Self { id, method: sent.method, tool })
    }

    /// Returns the class of the call, by which its key is limited.
    pub(super) fn class(&self) -> CallClass {
        let tool = self.tool.as_deref().and_then(|name| TOOLS.iter().find(|tool| tool.name == name));
        match tool {
            Some(tool) if tool.scopes.contains(&Scope::SearchRead) || SEARCHES.contains(&tool.name) => {
                CallClass::Search
            }
            Some(tool) if tool.effect.writes() => CallClass::Write,
            // As the route that builds a prompt.
            None if self.method == "prompts/get" => CallClass::Search,
            _ => CallClass::Read,
        }
    }

    pub(super) fn listens(&self) -> bool {
        self.method == "subscriptions/listen"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a message with these fields besides `jsonrpc`.
    fn envelope(fields: &str) -> Result<Envelope, BrokenMessage> {
        Envelope::parse(format!(r#"{{"jsonrpc":"2.0",{fields}}}"#).as_bytes())
    }

    #[test]
    fn envelope_chooses_the_limits_of_a_message() {
        let ls = envelope(r#""id":"a","method":"tools/call","params":{"name":"ls","arguments":{}}"#).unwrap();
        assert_eq!(
            (ls.id.clone(), ls.tool.as_deref(), ls.class()),
            ("a".into(), Some("ls"), CallClass::Read)
        );
        let listen = envelope(r#""id":1,"method":"subscriptions/listen""#).unwrap();
        assert!(listen.listens() && !ls.listens());
        let prompt = envelope(r#""id":1,"method":"prompts/get","params":{"name":"workspace"}"#).unwrap();
        assert_eq!((prompt.class(), prompt.tool), (CallClass::Search, None));
    }

    #[test]
    fn broken_messages_have_codes_and_their_id() {
        for (body, code, id) in [
            ("", PARSE_ERROR, Value::Null),
            ("{", PARSE_ERROR, Value::Null),
            ("nope", PARSE_ERROR, Value::Null),
            ("[]", INVALID_REQUEST, Value::Null),
            (r#" [{"id":1,"method":"ping"}]"#, INVALID_REQUEST, Value::Null),
            (r#"{"method":1}"#, INVALID_REQUEST, Value::Null),
            ("1", INVALID_REQUEST, Value::Null),
            (r#"{"id":23,"method":"ping"}"#, INVALID_REQUEST, 23.into()),
            (r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#, INVALID_REQUEST, "a".into()),
            (r#"{"jsonrpc":"2.0","id":23,"method":"tools/call","params":"x"}"#, INVALID_PARAMS, 23.into()),
        ] {
            let broken = Envelope::parse(body.as_bytes()).unwrap_err();
            assert_eq!((broken.code, broken.id), (code, id), "{body}");
        }
    }

    #[test]
    fn long_ids_are_not_repeated() {
        let long = format!(r#""id":"{}","method":"ping""#, "x".repeat(MAX_ID + 1));
        assert_eq!(envelope(&long).unwrap().id, Value::Null);
        assert_eq!(envelope(r#""id":{},"method":"ping""#).unwrap().id, Value::Null);
        assert_eq!(envelope(r#""id":7,"method":"ping""#).unwrap().id, 7);
    }
}
