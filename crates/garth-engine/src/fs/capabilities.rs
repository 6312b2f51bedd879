//! Abilities of a filesystem: engines and views differ in them, and say so before they are asked.

/// Abilities of an implementation at a path. Calls of an ability that it lacks fail with `Unsupported`; none
/// is emulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// `commit`, `stage`, `sync`. Without it every write answers `ReadOnly`.
    pub write: bool,
    /// A batch is applied wholly or not at all, also across a crash.
    pub atomic: bool,
    /// `Durable` commits survive loss of power.
    pub durable: bool,
    /// Commits are logged: times, `version` and `etag` of nodes are those of commits, and a commit is found
    /// by its id or idempotency key. Without it versions stand for a state of the node, times are the
    /// host's, and a batch with an id or key, and `committed`, are `Unsupported`.
    pub log: bool,
    /// A node keeps its number for life: `At::Node`, `At::Child`, `hold`, and handles that outlive removal.
    pub nodes: bool,
    /// Several names of one node: `Op::Link`.
    pub links: bool,
    /// Nodes that are neither file, directory nor symbolic link: `Op::Mknod`.
    pub special: bool,
    /// [`Attributes`](crate::model::Attributes): content type, tags, custom metadata and the like.
    pub attributes: bool,
    /// `expires_at`.
    pub expiry: bool,
    /// Holes, told to the byte: `Op::Punch`, `OpenFile::next_data` and `next_hole`.
    pub holes: bool,
    /// `history`, `blame`, `changes`, `as_of`, `open_version`, copies of the past.
    pub history: bool,
    /// `snapshots`, `Op::Snapshot`, `Op::DropSnapshot`, `Moment::Snapshot`.
    pub snapshots: bool,
    /// `search`.
    pub search: bool,
    /// `find`.
    pub find: bool,
    /// `confined`, and what views say of a batch: `within`, `owner`, `assumptions`, `answers`.
    pub confinement: bool,
}

impl Capabilities {
    /// All of them. An implementation takes away what it lacks.
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
