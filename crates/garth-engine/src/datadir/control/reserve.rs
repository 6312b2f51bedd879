//! Reserve of the control data: a file whose space is given up when the disk is full, so that keys can be
//! revoked and accounts deleted all the same. `docs/decisions/reserve-for-revocations.md` has the reasons.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use crate::runtime::disk::{dir_of, free_space, sync_dir};

/// Bytes of the reserve: room for the shared memory of a process that opens the control data, and for a log
/// of some fifty pages.
const SIZE: u64 = 256 << 10;

/// Free bytes from which the reserve is made: with less, it could take the space of a write that runs now.
const PLENTY: u64 = 16 * SIZE;

/// Reserve of a data folder. Any number of processes may use it.
pub(super) struct Reserve {
    file: PathBuf,
}

impl Reserve {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// Makes the reserve if it is missing and the disk has plenty of space. A failure is left to the next
    /// call.
    pub(super) fn restore(&self) {
        // The length as well: a process may have stopped while it wrote.
        let is_there = fs::metadata(&self.file).is_ok_and(|file| file.len() == SIZE);
        if is_there || free_space(dir_of(&self.file)).is_none_or(|free| free < PLENTY) {
            return;
        }
        if self.write().is_err() {
            // A part of it would only take space.
            let _ = fs::remove_file(&self.file);
        }
    }

    fn write(&self) -> io::Result<()> {
        // Not zeros, which some filesystems do not store.
        let mut bytes = vec![0; usize::try_from(SIZE).unwrap_or_default()];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&self.file)?;
        file.write_all(&bytes)
    }

    /// Gives the space back to the disk.
    pub(super) fn give_up(&self) {
        if fs::remove_file(&self.file).is_ok() {
            // Some filesystems give the space back with the next write of their journal. If that fails, the
            // caller fails as it would have failed without a reserve.
            let _ = sync_dir(dir_of(&self.file));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn reserve_is_given_up_and_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = Reserve::new(folder.path().join("reserve"));
        reserve.give_up();
        for _ in 0..2 {
            reserve.restore();
            let file = fs::metadata(&reserve.file).unwrap();
            assert_eq!((file.len(), file.permissions().mode() & 0o777), (SIZE, 0o600));
            // As a process leaves it that stops while it writes.
            fs::write(&reserve.file, "x").unwrap();
            reserve.restore();
            assert_eq!(fs::metadata(&reserve.file).unwrap().len(), SIZE);
            reserve.give_up();
            assert!(!reserve.file.exists());
        }
    }
}
