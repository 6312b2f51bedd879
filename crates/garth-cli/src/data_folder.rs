//! Location and creation of the data folder. A mistyped `--data` must not create an empty one; see
//! `docs/decisions/creating-the-data-folder.md`.

use std::path::{Path, PathBuf};

use garth_engine::datadir::DataDirBuilder;
use garth_engine::home::{Account, AccountState};
use garth_engine::{DataDir, Error, ErrorKind, Home};

use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::terminal;

/// Account that every data folder has from its first use.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";

/// Accounts that are read at once.
const PAGE: usize = 1000;

/// Returns the path of the data folder: `given` (`--data`), else GARTH_DATA, else that of the platform.
pub(crate) fn locate(given: Option<&Path>) -> Result<PathBuf> {
    let given = given.map(PathBuf::from).or_else(|| std::env::var_os("GARTH_DATA").map(PathBuf::from));
    if let Some(folder) = given.filter(|folder| !folder.as_os_str().is_empty()) {
        return std::path::absolute(&folder).map_err(Failure::host(&folder));
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

/// Returns a builder with the settings of garth.
pub(crate) fn builder() -> DataDirBuilder {
    DataDir::builder(garth_agent::registry())
}

/// Opens an existing data folder.
pub(crate) fn open(folder: &Path, builder: DataDirBuilder) -> Result<DataDir> {
    builder.create(false).open(folder).map_err(|error| {
        if !error.is(ErrorKind::NotFound) {
            return Failure::data_dir(folder)(error);
        }
        let message = "no data folder here; check --data and GARTH_DATA, or create one with `garth serve`, \
                       `garth account create NAME` or a first `garth write`";
        Failure::data_dir(folder)(Error::new(ErrorKind::NotFound, message))
    })
}

/// Opens a data folder. Creates it if it is missing, and reports that on stderr. Creates the account
/// `default` if there is no account.
pub(crate) async fn open_or_create(folder: &Path, builder: DataDirBuilder) -> Result<DataDir> {
    let open = async {
        let (data_dir, is_new) = match builder.clone().create(false).open(folder) {
            Err(error) if error.is(ErrorKind::NotFound) => (builder.open(folder)?, true),
            opened => (opened?, false),
        };
        // Also in an existing folder: a process may have stopped before it created the account.
        create_first_account(&data_dir).await?;
        Ok::<_, Error>((data_dir, is_new))
    };
    let (data_dir, is_new) = open.await.map_err(Failure::data_dir(folder))?;
    if is_new {
        terminal::tell(format_args!("{}: new data folder", escaped(&folder.to_string_lossy())));
    }
    Ok(data_dir)
}

/// Creates the account `default` in a home that has no account.
pub(crate) async fn create_first_account(home: &dyn Home) -> garth_engine::Result<()> {
    if home.account(DEFAULT_ACCOUNT).await.is_ok() || !home.accounts("", 1).await?.is_empty() {
        return Ok(());
    }
    match home.create_account(DEFAULT_ACCOUNT).await {
        // Another process was faster.
        Err(error) if error.is(ErrorKind::AlreadyExists) => Ok(()),
        made => made.map(drop),
    }
}

/// Calls `action` with each active account, in the byte order of their names.
pub(crate) async fn each_account(home: &dyn Home, action: impl FnMut(Account) -> Result) -> Result {
    // The tree of a deleted account is about to be removed.
    each_in(AccountState::Active, home, action).await
}

/// Calls `action` with each account that is being deleted, in the byte order of their names.
pub(crate) async fn each_deleted_account(home: &dyn Home, action: impl FnMut(Account) -> Result) -> Result {
    each_in(AccountState::Deleted, home, action).await
}

async fn each_in(state: AccountState, home: &dyn Home, mut action: impl FnMut(Account) -> Result) -> Result {
    let mut after = String::new();
    loop {
        let accounts = home.accounts(&after, PAGE).await?;
        let Some(last) = accounts.last() else { return Ok(()) };
        after.clone_from(&last.id);
        accounts.into_iter().filter(|account| account.state == state).try_for_each(&mut action)?;
    }
}
