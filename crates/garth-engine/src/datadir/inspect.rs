//! Look at a data folder without opening it.

use std::path::Path;

use super::builder::{DataDirBuilder, check_control, check_empty};
use super::control::database::{ControlDb, DATABASE};
use crate::error::Result;
use crate::runtime::disk::failed;

/// State of a data folder before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderState {
    /// It does not exist, or is empty. Opening creates it.
    Missing,
    /// Its control data has the format of this garth.
    Current,
    /// Its control data has the format of an older garth. Opening migrates it, and an older garth cannot open
    /// it then.
    Older,
}

impl DataDirBuilder {
    /// Returns the state of a data folder, and changes nothing. It may be open in this or another process.
    ///
    /// # Errors
    /// As [`Self::open`], except for what only a creation or a migration finds.
    pub fn inspect(&self, folder: &Path) -> Result<FolderState> {
        check_control(folder)?;
        let exists = folder.join(DATABASE).try_exists();
        if !exists.map_err(failed("the data folder cannot be opened"))? {
            check_empty(folder)?;
            return Ok(FolderState::Missing);
        }
        match ControlDb::is_current(folder)? {
            true => Ok(FolderState::Current),
            false => Ok(FolderState::Older),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rusqlite::Connection;

    use super::super::DataDir;
    use super::*;
    use crate::env::Env;
    use crate::error::ErrorKind;

    fn builder() -> DataDirBuilder {
        DataDir::builder(crate::rule::sample::registry())
    }

    fn make(place: &Path) -> DataDir {
        DataDir::open(place, Env::system(), crate::rule::sample::registry()).unwrap()
    }

    fn connect(place: &Path) -> Connection {
        Connection::open(place.join(DATABASE)).unwrap()
    }

    #[test]
    fn inspection_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("data");
        assert_eq!(builder().inspect(&place).unwrap(), FolderState::Missing);
        assert!(!place.exists());
        let data = make(&place);
        assert_eq!(builder().inspect(&place).unwrap(), FolderState::Current, "also while it is open");
        drop(data);
        connect(&place).pragma_update(None, "user_version", 1).unwrap();
        assert_eq!(builder().inspect(&place).unwrap(), FolderState::Older);
        let version = connect(&place).pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
        assert_eq!(version.unwrap(), 1);
    }

    #[test]
    fn folders_that_cannot_be_opened_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "x").unwrap();
        assert!(builder().inspect(folder.path()).unwrap_err().is(ErrorKind::NotEmpty));
        let place = folder.path().join("data");
        drop(make(&place));
        connect(&place).pragma_update(None, "user_version", 99).unwrap();
        let newer = builder().inspect(&place).unwrap_err();
        assert!(newer.is(ErrorKind::Format) && newer.message().contains("newer garth"), "{newer}");
        let lost = folder.path().join("lost");
        fs::create_dir_all(lost.join("accounts").join("one")).unwrap();
        assert!(builder().inspect(&lost).unwrap_err().is(ErrorKind::Corrupt));
    }
}
