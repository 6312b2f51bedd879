//! Messages of the Model Context Protocol in both lifecycles, and the answers of tools.

use serde_json::{Value, json};

/// Revision whose requests name version and capabilities.
const STATELESS: &str = "2026-07-28";
/// Last revision that begins with `initialize`.
const INITIALIZED: &str = "2025-11-25";
/// Methods with the parameter that the header `Mcp-Name` repeats.
const NAMED: [(&str, &str); 3] = [("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri")];

/// Lifecycle of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// Each request names version and capabilities.
    Stateless,
    /// Version and capabilities are negotiated by `initialize`, of which the server remembers nothing.
    Initialized,
}

impl Lifecycle {
    /// Both lifecycles.
    pub(crate) const ALL: [Self; 2] = [Self::Stateless, Self::Initialized];
}

/// Request over `POST /mcp`.
pub(crate) struct Message {
    /// Headers besides those of every call in JSON, each with its line break.
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Message {
    /// Returns a request for a method.
    pub(crate) fn new(lifecycle: Lifecycle, method: &str, params: Value) -> Self {
        let accept = "accept: application/json, text/event-stream\r\n";
        let mut message = json!({"jsonrpc": "2.0", "id": 1, "method": method});
        message["params"] = params;
        if lifecycle == Lifecycle::Initialized {
            let headers = format!("{accept}mcp-protocol-version: {INITIALIZED}\r\n");
            return Self { headers, body: message.to_string() };
        }
        let name = NAMED.iter().find(|(named, _)| *named == method);
        let name = name.and_then(|(_, parameter)| message["params"][*parameter].as_str());
        let name = name.map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
        let headers = format!("{accept}mcp-protocol-version: {STATELESS}\r\nmcp-method: {method}\r\n{name}");
        message["params"]["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": {"name": "proof", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {
                "extensions": {"io.modelcontextprotocol/skills": {}},
            },
        });
        Self { headers, body: message.to_string() }
    }
}

/// Answer of a tool.
#[derive(Debug)]
pub(crate) struct ToolResult {
    pub(crate) is_error: bool,
    /// Text for a model.
    pub(crate) text: String,
    /// Answer as JSON.
    pub(crate) structured: Value,
}

impl ToolResult {
    /// Returns the answer of a tool from that of the server; `None` if the server did not call the tool.
    pub(crate) fn of(mut answer: Value) -> Option<Self> {
        let mut result = answer.get_mut("result")?.take();
        let text = result["content"][0]["text"].as_str()?.to_owned();
        Some(Self {
            is_error: result["isError"] == true,
            text,
            structured: result["structuredContent"].take(),
        })
    }
}
