//! Mix of calls, and the data that they need.

use garth_testkit::proof::Proven;
use serde_json::{Value, json};

use super::keys::{BOUND, Keys};
use crate::served::{Connection, Request};

/// Kinds of the calls, each an equal part of the mix.
pub(super) const KINDS: [&str; 6] = ["get", "put", "GET /v1/fs", "PUT /v1/fs", "sessions/append", "search"];
/// Values, and files, of each tree.
const ITEMS: u64 = 64;
/// Length of a file.
const FILE: usize = 4 << 10;
/// Path of the file that slow clients read.
pub(super) const LARGE: &str = "/v1/fs/large";
/// Length of that file: more than the sockets of a client that reads slowly buffer.
pub(super) const LARGE_SIZE: usize = 8 << 20;
/// Each byte of that file.
pub(super) const LARGE_BYTE: u8 = 7;

/// Returns the kind of call `n`, as a position in [`KINDS`].
pub(super) const fn kind(n: u64) -> usize {
    (n % KINDS.len() as u64) as usize
}

/// Returns call `n` of a connection, without its key.
pub(super) fn call(connection: u64, n: u64) -> Request {
    // Connections begin at different items, so that few write to one at a time.
    let item = (connection * 31 + n / KINDS.len() as u64) % ITEMS;
    let path = format!("/load/{item}");
    match kind(n) {
        0 => Request::post("get", &json!({"path": path})),
        1 => put(item, n),
        2 => Request::new("GET", file(item)),
        3 => Request::new("PUT", file(item)).body(text(connection + n)),
        4 => {
            let message = json!({"role": "user", "content": format!("Tea at {n} for {connection}.")});
            Request::post("sessions/append", &in_session(connection, &[message]))
        }
        _ => Request::post("search", &json!({"query": format!("tea word{item}"), "limit": 5})),
    }
}

/// Creates the agent of the bound keys.
pub(super) fn create_agent(connection: &mut Connection, admin: &str) -> Proven<()> {
    let (agent, user) = BOUND;
    let settings = Request::new("PUT", format!("/v1/fs/agents/{agent}/settings.json"));
    connection.ok(&settings.body(json!({"owner": user}).to_string()).key(admin))?;
    Ok(())
}

/// Stores the data that calls of these connections need, in the account and in the tree of the bound keys.
pub(super) fn fill(connection: &mut Connection, admin: &str, keys: &Keys, connections: u64) -> Proven<()> {
    for slot in 0..2 {
        let key = keys.key(slot);
        for item in 0..ITEMS {
            key.send(connection, put(item, item))?;
            key.send(connection, Request::new("PUT", file(item)).body(text(item)))?;
        }
    }
    for number in 0..connections {
        connection.ok(&Request::post("sessions/create", &in_session(number, &[])).key(admin))?;
    }
    connection.ok(&Request::new("PUT", LARGE).body(vec![LARGE_BYTE; LARGE_SIZE]).key(admin))?;
    Ok(())
}

fn put(item: u64, n: u64) -> Request {
    let value = format!("Tea with word{item} at {n}.");
    Request::post("put", &json!({"path": format!("/load/{item}"), "value": value, "searchable": true}))
}

fn file(item: u64) -> String {
    format!("/v1/fs/load/{item}")
}

/// Returns the fields of a call on the session of a connection.
fn in_session(connection: u64, messages: &[Value]) -> Value {
    let (agent, user) = BOUND;
    let mut fields = json!({"agent": agent, "user": user, "name": format!("load-{connection}")});
    if !messages.is_empty() {
        fields["messages"] = json!(messages);
    }
    fields
}

/// Returns the content of a file.
fn text(n: u64) -> String {
    let words: String = (n..).map(|word| format!("word{} ", word % 997)).take(FILE / 5).collect();
    words[..FILE].to_owned()
}
