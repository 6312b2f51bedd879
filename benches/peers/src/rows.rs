//! Rows of the table: the workload, its peer and its goal.

use crate::side::Which;

/// Workload. Its name is the row's argument on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Workload {
    /// stat and read 4 KiB files
    Files,
    /// create 4 KiB files in batches of 64, not indexed
    Create,
    /// create 4 KiB files in batches of 64, text indexed for search; search them
    CreateIndexed,
    /// create 4 KiB files one at a time
    CreateOne,
    /// append 200 B to a growing file, 32 at once
    Append,
    /// write and read a 256 MiB file
    Big,
    /// rename and remove a tree of 5,000 files
    Tree,
    /// list a directory of 10 with 1,000,000 deeper entries
    List,
    /// list a directory of 10 beside 1,000,000 deeper entries
    Deep,
    /// read in the middle of 100,000 versions
    Versions,
    /// a path that 100,000 files had one after another: its past
    Lives,
    /// 1,000,000 names with a common word: embedded, and `get` during searches over HTTP
    Names,
    /// 10,000 accounts in turn with 1,024 file descriptors
    Accounts,
    /// find by key with 1,000 and with 1,000,000 entries
    Find,
    /// views compared with the tree that they show; opening an agent's tree
    Views,
    /// rules, quotas and projections compared with the same commits without them
    Rules,
    /// memories compared with plain files of the same bytes
    Memories,
    /// sessions of few and of many messages: append, and pack for a model
    Sessions,
    /// sessions of few and of many owners under one key: finding one; appends with an idempotency key
    Owners,
    /// the prompt of a workspace: building it, and the part of it that is stable over a day
    Prompt,
    /// the reset of a session of 100,000 messages: time and memory
    Reset,
    /// images of messages for a model: cache hits
    Pictures,
    /// `POST /v1/get`, 32 connections; and during 1,500 puts a second
    Get,
    /// `POST /v1/put`, 32 connections
    Put,
    /// latencies of get and put at half of the maximum rate
    HalfLoad,
    /// the slowest get of one account while calls of another compute
    Computing,
    /// 1,000 and 10,000 idle connections
    Idle,
    /// import 100,000 small files, and again
    Import,
}

impl Workload {
    /// Returns the peers that execute the workload too, each in its own processes, with alternating runs.
    pub(crate) fn peers(self) -> &'static [Which] {
        match self {
            Self::Files | Self::Create | Self::CreateIndexed | Self::List => &[Which::AgentFs],
            Self::CreateOne | Self::Append => &[Which::Plain],
            Self::Big | Self::Tree => &[Which::AgentFs, Which::Plain],
            _ => &[],
        }
    }
}

/// Row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// Workload. Its rows share its runs.
    pub(crate) workload: Workload,
    /// Description of the operation.
    pub(crate) job: &'static str,
    /// Figure of garth.
    pub(crate) figure: &'static str,
    /// Figure to compare with.
    pub(crate) peer: &'static str,
    /// Description of that figure.
    pub(crate) against: &'static str,
    /// Unit of the figures.
    pub(crate) unit: Unit,
    /// Goal of the row.
    pub(crate) goal: Goal,
}

/// Unit of a figure.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    /// Nanoseconds.
    Time,
    /// Bytes.
    Bytes,
    /// Bytes stored per byte written.
    Share,
    /// Number of items.
    Count,
}

/// Goal of a row.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// At least this many times as fast as the peer.
    Faster(f64),
    /// At most this many times the peer's figure.
    Within(f64),
    /// At most this value, in the row's unit.
    AtMost(f64),
    /// Less than this value, in the row's unit.
    Below(f64),
    /// No goal: the figure is only shown.
    None,
}

const AGENTFS: &str = "agentfs-sdk 0.6.4 (no fsync)";
const MIB: f64 = (1 << 20) as f64;

/// Rows of the table, in order.
// Each row takes two lines.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    row(Workload::Files, "stat", "stat a 4 KiB file")
        .against("agentfs stat", AGENTFS, Goal::Faster(2.0)),
    row(Workload::Files, "read", "read a 4 KiB file")
        .against("agentfs read", AGENTFS, Goal::Faster(2.0)),
    row(Workload::Create, "create", "create 4 KiB files, batches of 64, durable, not indexed")
        .against("agentfs create", AGENTFS, Goal::Faster(5.0)),
    row(Workload::CreateIndexed, "create", "create 4 KiB files, batches of 64, durable, text indexed for search")
        .against("agentfs create", "agentfs-sdk 0.6.4 (no fsync, no search)", Goal::Faster(1.1)),
    row(Workload::CreateIndexed, "search", "  a search right after")
        .against("search merged", "garth: once the index is merged", Goal::Within(2.0)),
    row(Workload::CreateOne, "create", "create 4 KiB files, one at a time, durable")
        .against("plain create", "write + fsync of file and directory", Goal::Faster(1.3)),
    row(Workload::Append, "append", "append 200 B to a growing file, durable, 32 at once")
        .against("plain append", "the same rows into SQLite in groups of 32", Goal::Faster(0.6)),
    row(Workload::Append, "disk", "  its disk use once merged, all versions readable")
        .counts(Unit::Share, Goal::AtMost(1.5)),
    row(Workload::Big, "write", "write a 256 MiB file, durable (time of a MiB)")
        .against("agentfs write", AGENTFS, Goal::Faster(5.0)),
    row(Workload::Big, "write", "  the same")
        .against("plain write", "the file system, with fsync", Goal::Faster(0.6)),
    row(Workload::Big, "read", "read a 256 MiB file (time of a MiB)")
        .against("agentfs read", AGENTFS, Goal::Faster(5.0)),
    row(Workload::Big, "read", "  the same")
        .against("plain read", "the file system, from the page cache", Goal::Faster(0.4)),
    row(Workload::Big, "peak", "  its peak memory")
        .counts(Unit::Bytes, Goal::Below(32.0 * MIB)),
    row(Workload::Tree, "remove", "remove a tree of 5,000 files, durable")
        .against("agentfs remove", AGENTFS, Goal::Faster(10.0)),
    row(Workload::Tree, "rename", "rename a tree of 5,000 files, durable, one commit")
        .against("plain rename", "its name rows rewritten in SQLite", Goal::Faster(0.5)),
    row(Workload::List, "names", "list a directory of 10,000: names")
        .against("agentfs names", AGENTFS, Goal::Faster(2.5)),
    row(Workload::List, "entries", "list a directory of 10,000: with attributes")
        .against("agentfs entries", AGENTFS, Goal::Faster(2.5)),
    row(Workload::Deep, "deep", "list a directory of 10 with 1,000,000 deeper entries")
        .against("shallow", "garth: the same with none deeper", Goal::Faster(0.8)),
    row(Workload::Versions, "many", "read in the middle of 100,000 versions")
        .against("few", "garth: of 100 versions", Goal::Within(2.0)),
    row(Workload::Lives, "many read", "a path that 100,000 files had in turn: read in the middle")
        .against("few read", "garth: of 100 files", Goal::None),
    row(Workload::Lives, "many history", "  its 100 newest versions")
        .against("few history", "garth: of 100 files", Goal::None),
    row(Workload::Names, "many stat", "an account with 1,000,000 names: stat")
        .against("few stat", "garth: with 1,000 names", Goal::None),
    row(Workload::Names, "many list", "  list a directory of 1,000, first 100")
        .against("few list", "garth: with 1,000 names", Goal::None),
    row(Workload::Names, "many rare", "  search a word that one of them has")
        .against("few rare", "garth: with 1,000 names", Goal::None),
    row(Workload::Names, "many common", "  search a word that all of them have")
        .against("few common", "garth: with 1,000 names", Goal::None),
    row(Workload::Names, "get max", "slowest `get` beside two such searches")
        .counts(Unit::Time, Goal::Below(20e6)),
    row(Workload::Names, "quiet max", "  without them")
        .counts(Unit::Time, Goal::None),
    row(Workload::Find, "many tag", "an account with 1,000,000 tagged entries: find a tag of ten")
        .against("few tag", "garth: with 1,000 entries", Goal::None),
    row(Workload::Find, "many value", "  a value of one")
        .against("few value", "garth: with 1,000 entries", Goal::None),
    row(Workload::Find, "many page", "  a tag of all, first 100")
        .against("few page", "garth: with 1,000 entries", Goal::None),
    row(Workload::Accounts, "failures", "10,000 accounts in turn with 1,024 file descriptors: failures")
        .counts(Unit::Count, Goal::AtMost(0.0)),
    row(Workload::Accounts, "visit", "  a durable write and a read in one")
        .counts(Unit::Time, Goal::None),
    row(Workload::Accounts, "peak", "  its peak memory")
        .counts(Unit::Bytes, Goal::None),
    row(Workload::Views, "scope stat", "stat through a scope")
        .against("stat", "garth: in the tree itself", Goal::Within(1.25)),
    row(Workload::Views, "mount stat", "  through a mount")
        .against("stat", "garth: in the tree itself", Goal::Within(1.25)),
    row(Workload::Views, "upper stat", "  through an overlay, of what was changed")
        .against("stat", "garth: in the tree itself", Goal::Within(2.0)),
    row(Workload::Views, "lower stat", "  of what was not")
        .against("stat", "garth: in the tree itself", Goal::None),
    row(Workload::Views, "open override", "open an agent's tree with 50 skills, changes kept; one look-up")
        .counts(Unit::Time, Goal::Below(1e6)),
    row(Workload::Views, "open ephemeral", "  changes in memory")
        .counts(Unit::Time, Goal::Below(1e6)),
    row(Workload::Views, "mount rename", "rename a directory of 10,000 files from mount to mount, durable")
        .against("rename", "garth: in the tree itself", Goal::None),
    row(Workload::Rules, "guarded long", "append 200 B to 100 MB of JSON Lines that a rule guards")
        .against("guarded short", "garth: to 1 MB of them", Goal::Within(1.25)),
    row(Workload::Rules, "guarded long", "  the same")
        .against("free long", "garth: without the rule", Goal::None),
    row(Workload::Rules, "ruled", "create 4 KiB files beside 20 rules and 20 quotas for other paths")
        .against("plain", "garth: without them", Goal::Within(1.1)),
    row(Workload::Rules, "tagged", "  with a tag, which is projected")
        .against("plain", "garth: without it", Goal::None),
    row(Workload::Memories, "memory", "put a memory of 1 KiB, durable")
        .against("plain", "garth: its files under other names, in one batch", Goal::Faster(0.7)),
    row(Workload::Sessions, "append long", "append a message of 1 KiB to 100,000, durable")
        .against("append short", "garth: to 10", Goal::Within(1.25)),
    row(Workload::Sessions, "append longest", "  to 1,000,000")
        .against("append short", "garth: to 10", Goal::Within(1.25)),
    row(Workload::Sessions, "append middle", "  to 1,000")
        .against("append short", "garth: to 10", Goal::Within(1.25)),
    row(Workload::Sessions, "pack long", "pack 32,000 tokens of 100,000 messages, as before with what came since")
        .counts(Unit::Time, Goal::Below(50e6)),
    row(Workload::Sessions, "pack middle", "  of 1,000")
        .counts(Unit::Time, Goal::None),
    row(Workload::Sessions, "fresh long", "  of 100,000, anew")
        .counts(Unit::Time, Goal::Below(50e6)),
    row(Workload::Sessions, "fresh middle", "  of 1,000, anew")
        .counts(Unit::Time, Goal::None),
    row(Workload::Sessions, "pack longest", "  of 1,000,000, as before")
        .counts(Unit::Time, Goal::Below(50e6)),
    row(Workload::Sessions, "fresh longest", "  of 1,000,000, anew")
        .counts(Unit::Time, Goal::Below(50e6)),
    row(Workload::Sessions, "repeats", "content of 1,000 outputs of a tool that are the same 1 MiB, index apart")
        .counts(Unit::Bytes, Goal::Below(4.0 * MIB)),
    row(Workload::Owners, "current many", "find the session of one of 100,000 owners under the same key")
        .against("current few", "garth: of 10", Goal::Within(1.25)),
    row(Workload::Owners, "access many", "  find out what its request reaches")
        .counts(Unit::Time, Goal::Below(50e3)),
    row(Workload::Owners, "append keyed", "append a message of 1 KiB under an idempotency key, durable")
        .against("append plain", "garth: without", Goal::Within(1.1)),
    row(Workload::Prompt, "prompt p50", "put a prompt together of 12 files and 50 skills: the median")
        .counts(Unit::Time, Goal::Below(2e6)),
    row(Workload::Prompt, "prompt p99", "  slowest of 100")
        .counts(Unit::Time, Goal::None),
    row(Workload::Prompt, "kept normal", "share of its bytes that stays from call to call, 200 a day")
        .counts(Unit::Share, Goal::None),
    row(Workload::Prompt, "kept cache", "  in the order for caches")
        .counts(Unit::Share, Goal::None),
    row(Workload::Reset, "reset", "reset a session of 100,000 messages of 1 KiB, durable")
        .counts(Unit::Time, Goal::None),
    row(Workload::Reset, "peak", "  its peak memory")
        .counts(Unit::Bytes, Goal::Below(64.0 * MIB)),
    row(Workload::Reset, "archive", "  its archive")
        .counts(Unit::Bytes, Goal::None),
    row(Workload::Pictures, "hits", "pictures that came from memory, of all in the lists of 200 calls of a model")
        .counts(Unit::Share, Goal::None),
    row(Workload::Pictures, "cold", "  put 40 pictures of 300 KiB into a list, none read before")
        .against("warm", "garth: all of them in memory", Goal::None),
    row(Workload::Get, "get", "`POST /v1/get`, 32 connections")
        .against("bare get", "axum handler with the same JSON in memory", Goal::Faster(0.75)),
    row(Workload::Get, "busy get", "  beside 1,500 puts a second")
        .against("get", "garth: without them", Goal::Within(1.5)),
    row(Workload::Put, "put", "`POST /v1/put`, 32 connections, durable")
        .against("plain put", "four rows a put into SQLite in groups of 32", Goal::Within(2.2)),
    row(Workload::Put, "written", "  written to the disk for each")
        .counts(Unit::Bytes, Goal::AtMost(8192.0)),
    row(Workload::HalfLoad, "get p50", "`POST /v1/get` at half load: the median").counts(Unit::Time, Goal::None),
    row(Workload::HalfLoad, "get p99", "  slowest of 100").counts(Unit::Time, Goal::None),
    row(Workload::HalfLoad, "get p999", "  slowest of 1,000").counts(Unit::Time, Goal::None),
    row(Workload::HalfLoad, "put p50", "`POST /v1/put` at half load: the median").counts(Unit::Time, Goal::None),
    row(Workload::HalfLoad, "put p99", "  slowest of 100").counts(Unit::Time, Goal::None),
    row(Workload::HalfLoad, "put p999", "  slowest of 1,000").counts(Unit::Time, Goal::None),
    row(Workload::Computing, "alone max", "slowest `POST /v1/get` of 5,000, 500 a second, alone").counts(Unit::Time, Goal::None),
    row(Workload::Computing, "skills max", "  beside two callers of another account: lists of 100 skills, the costliest front matter")
        .counts(Unit::Time, Goal::Below(20e6)),
    row(Workload::Computing, "pack max", "  packs of a message of 3 MB").counts(Unit::Time, Goal::Below(20e6)),
    row(Workload::Computing, "recall max", "  recall").counts(Unit::Time, Goal::Below(20e6)),
    row(Workload::Computing, "import max", "  imports of a transcript of 3,000 messages").counts(Unit::Time, Goal::Below(20e6)),
    row(Workload::Computing, "prompt max", "  prompts with three files of 1 MB").counts(Unit::Time, Goal::Below(20e6)),
    row(Workload::Idle, "memory", "memory of a server with 1,000 idle connections")
        .counts(Unit::Bytes, Goal::Below(32.0 * MIB)),
    row(Workload::Idle, "more memory", "  with 10,000")
        .counts(Unit::Bytes, Goal::None),
    row(Workload::Idle, "failures", "  connections that were not answered")
        .counts(Unit::Count, Goal::AtMost(0.0)),
    row(Workload::Import, "new", "import 100,000 small files, indexed")
        .against("cp new", "`cp -r` and `sync`", Goal::Faster(1.0)),
    row(Workload::Import, "again", "  the same again, unchanged")
        .against("rsync again", "`rsync -a`", Goal::Faster(1.0)),
];

const fn row(workload: Workload, figure: &'static str, job: &'static str) -> Row {
    Row { workload, job, figure, peer: "", against: "-", unit: Unit::Time, goal: Goal::None }
}

impl Row {
    const fn against(self, peer: &'static str, against: &'static str, goal: Goal) -> Self {
        Self { peer, against, goal, ..self }
    }

    const fn counts(self, unit: Unit, goal: Goal) -> Self {
        Self { unit, goal, ..self }
    }
}
