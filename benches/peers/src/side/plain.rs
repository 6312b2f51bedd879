//! Files of this machine with explicit syncs: the cost of durable files without a database.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use bytes::Bytes;

use super::{Files, PIECE};

/// Folder of the host.
pub(crate) struct Plain(PathBuf);

impl Plain {
    /// Uses an existing folder.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        Ok(Self(folder.to_owned()))
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// Creates a file that survives power loss once this returns.
    fn write(&self, path: &str, pieces: &mut dyn Iterator<Item = Bytes>) -> Result<()> {
        let path = self.at(path);
        let mut file = File::create_new(&path)?;
        for piece in pieces {
            file.write_all(&piece)?;
        }
        file.sync_all()?;
        Ok(File::open(path.parent().unwrap_or(&self.0))?.sync_all()?)
    }
}

impl Files for Plain {
    async fn mkdir(&self, path: &str) -> Result<()> {
        Ok(std::fs::create_dir(self.at(path))?)
    }

    async fn create(&self, files: Vec<(String, Bytes)>, _indexed: bool) -> Result<()> {
        files.into_iter().try_for_each(|(path, content)| self.write(&path, &mut std::iter::once(content)))
    }

    async fn write_big(&self, path: &str, pieces: &mut (dyn Iterator<Item = Bytes> + Send)) -> Result<()> {
        self.write(path, pieces)
    }

    async fn read_big(&self, path: &str) -> Result<u64> {
        let (mut file, mut buffer, mut sum) = (File::open(self.at(path))?, vec![0; PIECE], 0);
        loop {
            let length = file.read(&mut buffer)?;
            if length == 0 {
                return Ok(sum);
            }
            sum += length as u64;
        }
    }
}
