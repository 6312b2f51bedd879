//! The agent of a command that takes it as an argument or as `--agent`.

use crate::app::App;
use crate::fail::{Failure, Result};

/// Takes an agent that was named by an argument as that of `--agent`.
pub(in crate::verb::agent) fn name_agent(app: &mut App, name: Option<String>) -> Result {
    let Some(name) = name else { return Ok(()) };
    if app.global.agent_is_named && app.global.agent != name {
        return Err(Failure::Usage("name the agent once: as an argument, or with --agent".to_owned()));
    }
    app.global.agent = name;
    Ok(())
}
