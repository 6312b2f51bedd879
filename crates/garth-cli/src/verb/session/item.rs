//! A session in JSON, as each verb that shows one prints it.

use garth_agent::session::Listed;
use serde_json::{Value, json};

pub(super) fn item(session: &Listed) -> Value {
    json!({
        "name": session.name, "state": session.state, "cwd": session.cwd, "created_at": session.created_at,
        "updated_at": session.updated_at, "meta": session.meta,
    })
}
