//! Class of a session. It decides if the session shows the agent's own memory, in its tree and its prompt.

/// Class of the sessions that show the agent's own memory.
pub const MAIN: &str = "main";

/// Class of the sessions in which several can listen. It shows least.
pub(crate) const GROUP: &str = "group";
