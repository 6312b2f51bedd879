//! Common interface of the sides, so that a workload is written once and is the same for each.

pub(crate) mod agentfs;
pub(crate) mod garth;
pub(crate) mod plain;

use anyhow::Result;
use bytes::Bytes;

/// Side of a comparison.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Which {
    /// garth on its SQLite engine
    Garth,
    /// agentfs-sdk from crates.io, unchanged
    AgentFs,
    /// The filesystem of this machine, or rows in plain SQLite
    Plain,
}

impl Which {
    /// Returns the first word of the side's figures, which is empty for garth.
    pub(crate) fn called(self) -> &'static str {
        match self {
            Self::Garth => "",
            Self::AgentFs => "agentfs",
            Self::Plain => "plain",
        }
    }
}

/// Size of a piece of a large file, in bytes.
pub(crate) const PIECE: usize = 1 << 20;

/// Side that creates and reads files. Each call uses the fastest interface of the side.
// The lint concerns traits of public interfaces.
#[allow(async_fn_in_trait)]
pub(crate) trait Files {
    /// Creates a directory.
    async fn mkdir(&self, path: &str) -> Result<()>;
    /// Creates files with content, in one commit if the side has commits, and searchable if `indexed` is true
    /// and the side can.
    async fn create(&self, files: Vec<(String, Bytes)>, indexed: bool) -> Result<()>;
    /// Writes a file in pieces of [`PIECE`] bytes.
    async fn write_big(&self, path: &str, pieces: &mut (dyn Iterator<Item = Bytes> + Send)) -> Result<()>;
    /// Reads a file in pieces. Returns its length.
    async fn read_big(&self, path: &str) -> Result<u64>;
}

/// Side with a complete tree of files.
// The lint concerns traits of public interfaces.
#[allow(async_fn_in_trait)]
pub(crate) trait Side: Files {
    /// Returns the size of a file.
    async fn stat(&self, path: &str) -> Result<u64>;
    /// Reads a small file at once. Returns its length.
    async fn read(&self, path: &str) -> Result<u64>;
    /// Renames a directory.
    async fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes a directory with all its contents.
    async fn remove_tree(&self, path: &str) -> Result<()>;
    /// Lists a directory, names only. Returns the number of entries.
    async fn names(&self, path: &str) -> Result<usize>;
    /// Lists a directory with attributes. Returns the number of entries.
    async fn entries(&self, path: &str) -> Result<usize>;
}
