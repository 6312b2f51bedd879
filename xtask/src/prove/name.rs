//! Names of proofs, as `cargo xtask prove --help` lists them.

/// Name of one or more proofs.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Name {
    /// Random operations on SQLite equal those on the memory engine, with reopening: 1,000,000
    Model,
    /// The same through a scope, then through a scope of a scope, against a tree of its own: 1,000,000 each
    ModelScopes,
    /// The same through a mount's root and a part of it: 1,000,000 each
    ModelMounts,
    /// The same through ten stacks of views drawn at random: 1,000,000
    ModelStacks,
    /// Overlays beside union mounts of the kernel (needs root), over a layer of the same store, of another
    /// and a folder: 300,000 each
    Overlayfs,
    /// As `model` on a folder of the host, as far as POSIX goes: 300,000
    ModelHost,
    /// As `model`, with every batch planned as if rows were a round trip away: 1,000,000
    ModelRounds,
    /// `kill -9` under 8 concurrent HTTP writers, then under batches: 200 kills each, nothing acknowledged is
    /// lost
    Kill,
    /// Power cuts on ext4 (needs root) under the same writers: 100 cuts each, nothing acknowledged is lost
    Cut,
    /// Power cuts on ext4 (needs root) under a folder of the host: what was answered is kept, of the batch
    /// under way the first operations: 500 cuts
    HostCuts,
    /// Processes on one data folder read nothing stale, lose nothing and let each other write: 20,000 commits
    Processes,
    /// 64 appenders to one file lose no line, and every version is readable: 10,000 appends, under 20 MB
    Appenders,
    /// 64 writers at one version, of which one wins: 50 times each
    Cas,
    /// A large file by stream in under 64 MiB of memory, compared with what was written: 1,024 MiB
    BigFile,
    /// Accounts used in turn, then a fifth of them at once, with 1,024 descriptors and bounded threads and
    /// memory: 10,000
    Accounts,
    /// A tree is renamed and removed in under 100 MiB of memory, beside an account that commits: 1,000,000
    /// names
    Subtrees,
    /// `fsck` finds every kind of damage
    Fsck,
    /// `gc` beside readers and open handles of another process removes orphans only: 300 files
    Gc,
    /// An error, a panic and an abort at each step of commits, uploads and collections: 12 times each
    Failpoints,
    /// Histories of 16 clients have one order: 400
    Order,
    /// No path, link, glob or id reaches another account, and nothing leads out of a scope: 200,000 tries
    /// each
    Isolation,
    /// The same from a tree of views of each kind, while directories are swapped for links: 1,000,000 tries
    IsolationViews,
    /// The same on a folder of the host, while a second thread swaps for links outside: 1,000,000 tries
    IsolationHost,
    /// The memories of an agent reach those of no other user, agent or account: 100,000 tries
    IsolationMemories,
    /// A lost answer (caller gone, process ended, connection cut), then a retry: one commit: 1,000 times each
    Committed,
    /// Memories on a folder cut short behind each operation are repaired, of damaged directories nothing
    /// of the user's is lost, and other readers agree on what is there: 10,000 directories, 10,000 memories
    Repair,
    /// Batches over the views of an agent's tree are whole and once after a kill and a retry: 100 kills
    ViewKills,
    /// Appends, imports, changes of memories and resets under idempotency keys, killed and sent again: each
    /// has one effect, and repeats are answered alike: 100 kills
    RetryKills,
    /// Packs of random sessions are within their budget, refused by no provider, and built again byte for
    /// byte, whatever happens since: 2,000 sessions
    Packs,
    /// A session says what its transcript says, in parts, sent again, after withdrawals and resets: 10,000
    /// transcripts
    Transcripts,
    /// Packs of random sessions with results of all sizes use their budget, and show long results in part
    /// before messages are left out: 10,000 sessions
    FilledPacks,
    /// Packs and tails take as many reads beside many withdrawals in a session as beside 50: 50,000
    /// withdrawals
    Withdrawals,
    /// Prompts of random workspaces equal, byte for byte, those of a second implementation: 1,000 workspaces
    Prompts,
    /// Paths in prompts of random workspaces are read through the tree that each prompt is for: 1,000 prompts
    PromptPaths,
    /// No prompt for a session of a class other than `main`, and nothing in its tree, has a word of MEMORY.md
    /// or of what another class remembered: 200,000 states
    PromptIsolation,
    /// Nothing of another audience, or of fewer listeners, is in trees, prompts, packs, media, archives,
    /// exports, children, memories and sources of a session, with owners, keys and chats drawn: 200,000 looks
    AudienceIsolation,
    /// 64 appenders to one session, then kills and power cuts (needs root) while it is appended to, packed,
    /// swapped and collected: 100 crashes each, nothing said is lost, what is derived is whole or absent
    Sessions,
    /// Kills and power cuts (needs root) while sessions are appended to, compacted and reset: 100 crashes
    /// each, no session is put away without its archive, and archives and parts are what was said
    Resets,
    /// A collection removes of random sessions what nothing needs, by plain code that reads their files, and
    /// nothing else: 2,000 sessions
    SessionGc,
    /// Events reach a sink that fails, hangs and answers late, once and in order, under kills of 4 workers in
    /// 2 processes: 100 kills
    Outbox,
}
