//! A session as JSON, for all verbs that print one.

use garth_agent::session::Listed;
use serde_json::{Value, json};

pub(super) fn item(session: &Listed) -> Value {
    json!({
        "name": session.name, "state": session.state, "cwd": session.cwd, "created_at": session.created_at,
        "updated_at": session.updated_at, "meta": session.meta,
    })
}
