//! Abilities in which engines and views differ, and which can be asked for before a call.

use schemars::JsonSchema;
use serde::Serialize;

/// Abilities of an implementation at a path. Calls that need a missing ability fail with `Unsupported`; none
/// is emulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Capabilities {
    /// `commit`, `stage`, `sync`. Without it every write fails with `ReadOnly`.
    pub write: bool,
    /// A batch is applied completely or not at all, even if the process crashes.
    pub atomic: bool,
    /// `Durable` commits survive loss of power.
    pub durable: bool,
    /// Commits are logged: times, `version` and `etag` of nodes are those of commits, and a commit is found
    /// by its id or idempotency key. Without it a version identifies a state of the node, times are the
    /// host's, and `committed` and batches with an id or key are `Unsupported`.
    pub log: bool,
    /// A node keeps its inode for life: `At::Node`, `At::Child`, `hold`, and handles that outlive removal.
    pub nodes: bool,
    /// Several names of one node: `Op::Link`.
    pub links: bool,
    /// Nodes that are neither file, directory nor symbolic link: `Op::Mknod`.
    pub special: bool,
    /// [`Attributes`](crate::model::Attributes): content type, tags, custom metadata and the like.
    pub attributes: bool,
    /// `expires_at`.
    pub expiry: bool,
    /// Holes, exact to the byte: `Op::Punch`, `OpenFile::next_data` and `next_hole`.
    pub holes: bool,
    /// `history`, `blame`, `changes`, `as_of`, `open_version`, copies of the past.
    pub history: bool,
    /// `snapshots`, `Op::Snapshot`, `Op::DropSnapshot`, `Moment::Snapshot`.
    pub snapshots: bool,
    /// `search`.
    pub search: bool,
    /// `find`.
    pub find: bool,
    /// `confined`, and the fields of a batch that views set: `within`, `owner`, `assumptions`, `answers`.
    pub confinement: bool,
}

impl Capabilities {
    /// All abilities. An implementation clears those that it lacks.
    pub const ALL: Self = Self {
        write: true,
        atomic: true,
        durable: true,
        log: true,
        nodes: true,
        links: true,
        special: true,
        attributes: true,
        expiry: true,
        holes: true,
        history: true,
        snapshots: true,
        search: true,
        find: true,
        confinement: true,
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_has_a_boolean_for_each_ability() {
        let writes = serde_json::to_value(Capabilities { write: true, ..Capabilities::default() });
        let expected = json!({
            "write": true, "atomic": false, "durable": false, "log": false, "nodes": false, "links": false,
            "special": false, "attributes": false, "expiry": false, "holes": false, "history": false,
            "snapshots": false, "search": false, "find": false, "confinement": false,
        });
        assert_eq!(writes.ok(), Some(expected));
    }
}
