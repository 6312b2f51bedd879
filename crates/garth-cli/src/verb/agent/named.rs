//! Agent of a command, which may be named by an argument or by `--agent`.

use crate::app::App;
use crate::fail::{Failure, Result};

/// Sets the agent of the run to the one named by an argument.
pub(in crate::verb::agent) fn name_agent(app: &mut App, name: Option<String>) -> Result {
    let Some(name) = name else { return Ok(()) };
    if app.global.agent_is_named && app.global.agent != name {
        return Err(Failure::Usage("name the agent once: as an argument, or with --agent".to_owned()));
    }
    app.global.agent = name;
    Ok(())
}
