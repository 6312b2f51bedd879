//! What the sides have in common, so that a workload is written once and asks the same of each.

pub(crate) mod agentfs;
pub(crate) mod garth;
pub(crate) mod plain;

use anyhow::Result;
use bytes::Bytes;

/// Who is measured.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Which {
    /// garth on its SQLite engine
    Garth,
    /// agentfs-sdk from crates.io, as shipped
    AgentFs,
    /// The files of this machine, or rows in plain SQLite
    Plain,
}

impl Which {
    /// What its figures begin with; garth's with nothing.
    pub(crate) fn called(self) -> &'static str {
        match self {
            Self::Garth => "",
            Self::AgentFs => "agentfs",
            Self::Plain => "plain",
        }
    }
}

/// Bytes of one piece of a large file.
pub(crate) const PIECE: usize = 1 << 20;

/// What makes files. Each call uses what the side offers that is fastest for it.
#[allow(async_fn_in_trait)] // inside this program
pub(crate) trait Files {
    /// Makes a directory.
    async fn mkdir(&self, path: &str) -> Result<()>;
    /// Makes files with their content, in one commit if the side has such; `indexed`:
    /// searchable if the side can.
    async fn create(&self, files: Vec<(String, Bytes)>, indexed: bool) -> Result<()>;
    /// Writes a file in pieces of [`PIECE`] bytes.
    async fn write_big(&self, path: &str, pieces: &mut (dyn Iterator<Item = Bytes> + Send)) -> Result<()>;
    /// Reads a file in pieces; its length.
    async fn read_big(&self, path: &str) -> Result<u64>;
}

/// A tree of files.
#[allow(async_fn_in_trait)] // inside this program
pub(crate) trait Side: Files {
    /// The size of a file.
    async fn stat(&self, path: &str) -> Result<u64>;
    /// The whole of a small file; its length.
    async fn read(&self, path: &str) -> Result<u64>;
    /// Gives a directory another name.
    async fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes a directory with all below it.
    async fn remove_tree(&self, path: &str) -> Result<()>;
    /// Lists a directory, names only; how many.
    async fn names(&self, path: &str) -> Result<usize>;
    /// Lists a directory with attributes; how many.
    async fn entries(&self, path: &str) -> Result<usize>;
}
