//! Names of proofs, as `cargo xtask prove --help` lists them.

/// Name of one or more proofs.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Name {
    /// Random operations on SQLite equal those on the memory engine, with reopening: 1,000,000
    Model,
    /// `model` through a scope, then through two nested scopes, compared with a separate tree: 1,000,000
    /// each
    ModelScopes,
    /// `model` through a mount's root and a directory of it: 1,000,000 each
    ModelMounts,
    /// `model` through ten random stacks of views: 1,000,000
    ModelStacks,
    /// Overlays compared with union mounts of the kernel (needs root), over a layer of the same store, of
    /// another store and of a folder: 300,000 each
    Overlayfs,
    /// As `model` on a folder of the host, as far as POSIX permits: 300,000
    ModelHost,
    /// As `model`, with every batch planned as if rows were a round trip away: 1,000,000
    ModelRounds,
    /// As `model`, while limits on the past are drawn, set and collected; readable states and authors stay
    /// equal, and the rest is gone on both engines: 1,000,000
    ModelRetention,
    /// Blame of every readable state, with class and audience, stays as it was while the past is removed:
    /// 50,000 commits
    FoldedAuthors,
    /// `kill -9` under 8 concurrent HTTP writers, then under batches, loses no acknowledged write: 200 kills
    /// each
    Kill,
    /// Power cuts on ext4 (needs root) under the same writers lose no acknowledged write: 100 cuts each
    Cut,
    /// Power cuts on ext4 (needs root) under a folder of the host lose no acknowledged operation and keep a
    /// prefix of the pending batch: 500 cuts
    HostCuts,
    /// Processes on one data folder read no stale data, lose no write and do not block each other: 20,000
    /// commits
    Processes,
    /// 64 appenders to one file lose no line, and every version is readable: 10,000 appends, under 5 MB
    Appenders,
    /// 64 writers that compare and swap one version, of which one succeeds: 50 times each
    Cas,
    /// A large file, streamed in under 64 MiB of memory and compared with what was written: 1,024 MiB
    BigFile,
    /// Accounts used one after another, then a fifth of them at once, with 1,024 descriptors and bounded
    /// threads and memory: 10,000
    Accounts,
    /// A tree is renamed and removed in under 100 MiB of memory while another account commits: 1,000,000
    /// names
    Subtrees,
    /// `fsck` finds every kind of damage
    Fsck,
    /// `gc` removes orphans only, while another process reads and holds open handles: 300 files
    Gc,
    /// Kills while the past is removed and 4 writers commit lose no acknowledged commit that is readable, and
    /// bring nothing back: 100 kills
    RetentionKills,
    /// As `retention-kills`, with power cuts on ext4 (needs root): 100 cuts
    RetentionCuts,
    /// A collection under retention takes away nothing that readers, snapshots, views or open files hold, and
    /// the waits of commits beside it: 60,000 commits, in 12 minutes
    GcBesideReaders,
    /// The size of an account that is written steadily levels off under retention, with background
    /// collections: 240,000 commits, in 20 minutes
    SteadyState,
    /// An account of format 8 is upgraded and collected in under 100 MiB of memory, and goes on after its
    /// process was ended: 1,000,000 names
    MigrateNames,
    /// Time that a background collection takes to remove the past of a long log once a retention is set, and
    /// the waits of commits beside it: 1,000,000 commits
    LongRetention,
    /// An error, a panic and an abort at each step of commits, uploads and collections: 12 times each
    Failpoints,
    /// Histories of 16 clients have one order: 400
    Order,
    /// No path, link, glob or id reaches another account, and nothing leads out of a scope: 200,000 attempts
    /// each
    Isolation,
    /// `isolation` from a tree of views of each kind, while directories are swapped for links: 1,000,000
    /// attempts
    IsolationViews,
    /// `isolation` on a folder of the host, while another thread swaps in links that lead outside: 1,000,000
    /// attempts
    IsolationHost,
    /// The memories of an agent reach those of no other user, agent or account: 100,000 attempts
    IsolationMemories,
    /// A lost response (caller dropped, process ended, connection cut), then a retry: one commit: 1,000 times
    /// each
    Committed,
    /// Interrupted changes of memories on a folder are repaired, damaged directories lose no data of the
    /// user, and other readers agree on the result: 10,000 directories, 10,000 memories
    Repair,
    /// Random commands of the memory tool equal those on a plain folder, byte for byte, and no spelling of a
    /// path leads out of `/memories`: 100,000 commands
    MemoryTool,
    /// Batches over the views of an agent's tree are complete and applied once after a kill and a retry: 100
    /// kills
    ViewKills,
    /// Appends, imports, memory changes and resets under idempotency keys, killed and sent again, have one
    /// effect, and repeats return the same result: 100 kills. So have HTTP calls on files, uploads, batches
    /// and keys, with free and bound keys: 50 kills
    RetryKills,
    /// A server at 80% of its peak rate, with 256 connections, keys that are revoked and 300 slow clients,
    /// refuses revoked keys alone, and its memory stays flat: 600 seconds
    HttpLoad,
    /// Clients of 16 keys in 4 accounts on 256 connections make exactly the calls that their limits permit,
    /// and wrong keys delay no valid one: 200 rounds
    CallLimits,
    /// The figures of `/metrics` equal a count by hand, and their labels do not grow with the accounts:
    /// 10,000 accounts
    Metrics,
    /// Consumers of changes, of all and of one directory, that are killed and resumed while 4 clients write
    /// miss and repeat nothing: 100 kills each
    Changes,
    /// Packs of random sessions are within their budget, accepted by every provider, and can be built again
    /// byte for byte, whatever happens later: 2,000 sessions
    Packs,
    /// A session contains what its transcript contains, imported in parts, sent again, after retractions and
    /// resets: 10,000 transcripts
    Transcripts,
    /// Packs of random sessions with results of all sizes use their budget, and shorten long results before
    /// they leave out messages: 10,000 sessions
    FilledPacks,
    /// Packs and tails need as many reads with many retractions in a session as with 50: 50,000 retractions
    Retractions,
    /// Prompts of random workspaces equal, byte for byte, those of a second implementation: 1,000 workspaces
    Prompts,
    /// Paths in prompts of random workspaces can be read through the tree that each prompt is for: 1,000
    /// prompts
    PromptPaths,
    /// No prompt for a session of a class other than `main`, and no file of its tree, contains a word of
    /// MEMORY.md or of what another class remembered: 200,000 states
    PromptIsolation,
    /// No data of another audience, or of fewer listeners, is in the trees, prompts, packs, media, archives,
    /// exports, children, memories and sources of a session, with random owners, keys and chats: 200,000
    /// reads
    AudienceIsolation,
    /// No request with a bound key, over every route with random fields, shows or changes a place that the
    /// binding excludes, with 40 keys in two accounts: 200,000 requests
    BoundKeys,
    /// As `bound-keys`, over `/mcp` in both lifecycles: every tool with random arguments, resources with odd
    /// URIs, prompts and skills: 100,000 requests
    McpIsolation,
    /// Two agents that edit one file at once over `/mcp` lose no step, and a refused step says what the other
    /// agent has changed, while the server is killed: 50 kills
    McpEdits,
    /// 64 appenders to one session, then kills and power cuts (needs root) while it is appended to, packed,
    /// swapped and collected, lose no message and leave derived files complete or absent: 100 crashes each
    Sessions,
    /// Kills and power cuts (needs root) while sessions are appended to, compacted and reset close no session
    /// without its archive, and archives and parts contain the messages: 100 crashes each
    Resets,
    /// A collection removes exactly the unused files of random sessions, compared with plain code that reads
    /// all files: 2,000 sessions
    SessionGc,
    /// The library takes away no item that the last tagged release had, unless its version says so
    Semver,
    /// Events reach a sink that fails, hangs and answers late, once and in order, under kills of 4 workers in
    /// 2 processes: 100 kills
    Outbox,
    /// As `model` on a private PostgreSQL server, then as `model-retention`: 100,000 each
    PostgresModel,
    /// As `appenders`, `cas`, `order` and `committed` on a private PostgreSQL server: 2,048 appends, 640
    /// swaps, 40 histories, 400 commits
    PostgresWriters,
    /// As `isolation` and `isolation-views` on a private PostgreSQL server: 20,000 attempts each
    PostgresIsolation,
    /// Immediate stops of PostgreSQL beside writers lose no acknowledged commit and double none: 20 stops
    PostgresStops,
    /// Connections to PostgreSQL that are cut at random places lose no acknowledged commit and double none:
    /// 1,000 cuts
    PostgresCuts,
}
