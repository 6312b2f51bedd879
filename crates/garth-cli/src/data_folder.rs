//! Where the data folder is, and when it may be made: a mistyped `--data` must not make an empty one, nor put
//! one among the files of something else.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use garth::{DataDir, Env, Error, ErrorKind};

use crate::escape::escaped;
use crate::fail::{Failure, Result};

/// The account that every data folder has from its first use.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";

/// How many names of a folder are shown that is no data folder.
const NAMES_SHOWN: usize = 3;

/// What is at the place of a data folder.
enum Found {
    DataDir,
    /// Nothing, or an empty folder.
    Free,
    /// A folder with other things in it: some of their names, and whether there are more.
    Foreign(Vec<OsString>, bool),
}

/// The data folder: `given` (`--data` or GARTH_DATA), else the platform's.
pub(crate) fn locate(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(folder) = given.filter(|folder| !folder.as_os_str().is_empty()) {
        return std::path::absolute(folder).map_err(Failure::host(folder));
    }
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let platform = if cfg!(target_os = "macos") {
        variable("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        // The XDG base directory specification ignores a relative XDG_DATA_HOME.
        variable("XDG_DATA_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/share")))
    };
    platform
        .map(|folder| folder.join("garth"))
        .ok_or_else(|| Failure::Usage("no home directory is known; set --data DIR or GARTH_DATA".into()))
}

/// Opens a data folder that exists.
pub(crate) fn open(folder: &Path, env: &Env) -> Result<DataDir> {
    let refuse = |message| Err(Failure::data_dir(folder)(Error::new(ErrorKind::NotFound, message)));
    match look(folder)? {
        Found::DataDir => DataDir::open(folder, env.clone()).map_err(Failure::data_dir(folder)),
        Found::Free => refuse(
            "no data folder here; check --data and GARTH_DATA, or make one with `garth serve`, \
             `garth account create NAME` or a first `garth write`"
                .to_owned(),
        ),
        Found::Foreign(names, more) => {
            refuse(format!("not a data folder ({}); check --data and GARTH_DATA", contents(&names, more)))
        }
    }
}

/// Opens a data folder; makes it, with the account `default`, if there is none, and says so on stderr.
pub(crate) fn open_or_create(folder: &Path, env: &Env) -> Result<DataDir> {
    let found = look(folder)?;
    if let Found::Foreign(names, more) = found {
        let contents = contents(&names, more);
        let message = format!("not a data folder, and not empty ({contents}); name an empty or a new folder");
        return Err(Failure::data_dir(folder)(Error::new(ErrorKind::NotEmpty, message)));
    }
    let create = || {
        let data_dir = DataDir::open(folder, env.clone())?;
        if data_dir.control().accounts()?.is_empty() {
            match data_dir.create_account(DEFAULT_ACCOUNT) {
                // Another process was as quick.
                Err(error) if error.is(ErrorKind::AlreadyExists) => {}
                made => drop(made?),
            }
        }
        Ok(data_dir)
    };
    let data_dir = create().map_err(Failure::data_dir(folder))?;
    if matches!(found, Found::Free) {
        // Nobody is left to be told if stderr is closed.
        let _ = writeln!(io::stderr(), "garth: {}: new data folder", escaped(&folder.to_string_lossy()));
    }
    Ok(data_dir)
}

/// Looks at a folder by name only: SQLite alone opens its database files.
fn look(folder: &Path) -> Result<Found> {
    let failed = |error: io::Error| {
        let message = "cannot read the data folder";
        Failure::data_dir(folder)(Error::new(ErrorKind::Io, message).with_source(error))
    };
    // A folder that may be entered but not listed is fine.
    if folder.join("control.db").try_exists().unwrap_or(false) {
        return Ok(Found::DataDir);
    }
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Free),
        entries => entries.map_err(failed)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        // Another process is making the data folder just now, or a crash cut that short.
        if name.to_string_lossy().starts_with("control.db") {
            return Ok(Found::DataDir);
        }
        // The root of a fresh ext4 file system.
        if name == "lost+found" {
            continue;
        }
        if names.len() == NAMES_SHOWN {
            return Ok(Found::Foreign(names, true));
        }
        names.push(name);
    }
    Ok(if names.is_empty() { Found::Free } else { Found::Foreign(names, false) })
}

fn contents(names: &[OsString], more: bool) -> String {
    let mut text: Vec<_> = names.iter().map(|name| escaped(&name.to_string_lossy()).into_owned()).collect();
    if more {
        text.push("...".to_owned());
    }
    format!("it has {}", text.join(", "))
}
