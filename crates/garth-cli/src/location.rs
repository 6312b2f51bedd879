//! Location of accounts and keys: a data folder of this machine, or a PostgreSQL database.
//!
//! The URL of a database may have a password. It is read from a variable or a file, is never printed, and is
//! refused as an argument, because the list of processes shows arguments.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use garth_cloud::client::Address;
use garth_cloud::home::PgHome;
use garth_engine::{Env, Error, ErrorKind};

use crate::data_folder;
use crate::fail::{Failure, Result};
use crate::host_text;

/// Variables that name the location.
const DATA: &str = "GARTH_DATA";
const POSTGRES: &str = "GARTH_POSTGRES";
const POSTGRES_FILE: &str = "GARTH_POSTGRES_FILE";

/// URL of a database as an argument. Its form for debugging shows nothing of it.
#[derive(Clone)]
pub(crate) struct DatabaseUrl(String);

impl FromStr for DatabaseUrl {
    type Err = Infallible;

    fn from_str(url: &str) -> std::result::Result<Self, Infallible> {
        Ok(Self(url.to_owned()))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl")
    }
}

/// Location of accounts and keys.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    /// Data folder, whether it exists or not.
    Folder(PathBuf),
    Database(Database),
}

impl Location {
    /// Returns the location that options name, else that of the variables, else the folder of the platform.
    /// Fails if several options, or several variables, name one.
    pub(crate) fn of(data: Option<&Path>, url: Option<&DatabaseUrl>, file: Option<&Path>) -> Result<Self> {
        let options =
            [("--data", data.is_some()), ("--postgres", url.is_some()), ("--postgres-file", file.is_some())];
        if only(options)?.is_none() {
            return Self::of_variables(variable);
        }
        match (url, file) {
            (Some(url), _) => Database::of_argument(&url.0).map(Self::Database),
            (None, Some(file)) => Database::of_file("--postgres-file", file).map(Self::Database),
            (None, None) => data_folder::locate(data).map(Self::Folder),
        }
    }

    fn of_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        match only([DATA, POSTGRES, POSTGRES_FILE].map(|name| (name, variable(name).is_some())))? {
            Some(POSTGRES) => {
                let url = variable(POSTGRES).unwrap_or_default();
                Database::named(POSTGRES, url.to_string_lossy().into_owned(), None).map(Self::Database)
            }
            Some(POSTGRES_FILE) => {
                let file = PathBuf::from(variable(POSTGRES_FILE).unwrap_or_default());
                Database::of_file(POSTGRES_FILE, &file).map(Self::Database)
            }
            _ => data_folder::locate(None).map(Self::Folder),
        }
    }

    /// Returns the data folder; `None` for a database.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::Database(_) => None,
        }
    }

    /// Returns the location as it may be shown.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Folder(folder) => folder.display().to_string(),
            Self::Database(database) => database.place.clone(),
        }
    }

    /// Adds the location to an error of the storage.
    pub(crate) fn failed(&self, failure: Failure) -> Failure {
        match self {
            Self::Folder(folder) => failure.in_data_dir(folder),
            Self::Database(database) => failure.in_database(&database.place),
        }
    }
}

/// Returns a variable of the environment. An empty one counts as not set.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the only name that was given; `None` if none was.
fn only(given: [(&'static str, bool); 3]) -> Result<Option<&'static str>> {
    let mut names = given.into_iter().filter_map(|(name, is_given)| is_given.then_some(name));
    match (names.next(), names.next()) {
        (Some(one), Some(other)) => Err(Failure::Usage(format!(
            "{one} and {other} are both set, and each names where the data is; set only one of them"
        ))),
        (first, _) => Ok(first),
    }
}

/// PostgreSQL database. Its form for debugging shows no password.
#[derive(Clone)]
pub(crate) struct Database {
    url: String,
    /// File that the URL was read from.
    file: Option<PathBuf>,
    has_password: bool,
    /// URL without user, password and options.
    place: String,
}

impl Database {
    fn of_argument(url: &str) -> Result<Self> {
        let database = Self::named("--postgres", url.to_owned(), None)?;
        if database.has_password {
            return Err(Failure::Usage(format!(
                "--postgres: the URL has a password, which the list of processes shows; set {POSTGRES} to the URL, or \
                 --postgres-file to a file that contains it"
            )));
        }
        Ok(database)
    }

    fn of_file(name: &str, file: &Path) -> Result<Self> {
        let url = host_text::secret(name, file)?;
        let file = std::path::absolute(file).map_err(Failure::host(file))?;
        Self::named(name, url, Some(file))
    }

    /// Returns the database of a URL that the option or variable `name` gave. Errors do not repeat the URL.
    fn named(name: &str, url: String, file: Option<PathBuf>) -> Result<Self> {
        let address = Address::of(&url);
        let Address { place, has_password } =
            address.map_err(|error| Failure::Usage(format!("{name}: {}", error.message())))?;
        Ok(Self { url, file, has_password, place })
    }

    /// Opens it as a home with at most `connections` connections. With `creates`, creates its tables if they
    /// are missing.
    pub(crate) async fn open(&self, env: &Env, connections: usize, creates: bool) -> Result<PgHome> {
        let (url, env, registry) = (&self.url, env.clone(), garth_agent::registry());
        let opened = match creates {
            true => PgHome::connect(url, connections, env, registry).await,
            false => PgHome::connect_existing(url, connections, env, registry).await,
        };
        opened.map_err(|error| {
            let error = match error.is(ErrorKind::NotFound) {
                true => Error::new(
                    ErrorKind::NotFound,
                    "the database has no tables of garth; check its URL, or create them with `garth serve` or \
                     `garth account create NAME`",
                ),
                false => error,
            };
            Failure::Database(self.place.clone(), error)
        })
    }

    /// Returns the arguments that name it for another process, which has other variables.
    pub(crate) fn arguments(&self) -> Result<(&'static str, String)> {
        match &self.file {
            Some(file) => Ok(("--postgres-file", file.to_string_lossy().into_owned())),
            None if !self.has_password => Ok(("--postgres", self.url.clone())),
            None => Err(Failure::Usage(format!(
                "{POSTGRES} has a password, which is not printed; write the URL to a file, and set --postgres-file to it"
            ))),
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("place", &self.place).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// URL with a password.
    const URL: &str = concat!("postgresql://garth", ":hidden", "@db:5433/trees");

    fn refused(located: Result<Location>) -> String {
        match located.unwrap_err() {
            Failure::Usage(message) => message,
            other => panic!("{other:?}"),
        }
    }

    fn of_variables(set: &[(&str, &str)]) -> Result<Location> {
        Location::of_variables(|name| {
            let value = set.iter().find(|(known, _)| *known == name);
            value.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn password_is_refused_as_an_argument() {
        let url: DatabaseUrl = URL.parse().unwrap();
        let message = refused(Location::of(None, Some(&url), None));
        assert!(message.contains("GARTH_POSTGRES") && !message.contains("hidden"), "{message}");
        assert!(!format!("{url:?}").contains("hidden"));
        let url: DatabaseUrl = "postgresql://garth@db:5433/trees".parse().unwrap();
        let location = Location::of(None, Some(&url), None).unwrap();
        assert_eq!((location.shown().as_str(), location.folder()), ("postgresql://db:5433/trees", None));
    }

    #[test]
    fn password_of_variable_or_file_is_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        std::fs::write(&file, format!("{URL}\n")).unwrap();
        for location in [of_variables(&[(POSTGRES, URL)]), Location::of(None, None, Some(&file))] {
            let location = location.unwrap();
            assert_eq!(location.shown(), "postgresql://db:5433/trees");
            assert!(!format!("{location:?}").contains("hidden"), "{location:?}");
        }
        let wrong = refused(of_variables(&[(POSTGRES, "postgresql://hidden:port")]));
        assert!(wrong.starts_with("GARTH_POSTGRES: ") && !wrong.contains("hidden"), "{wrong}");
    }

    #[test]
    fn database_excludes_a_data_folder() {
        let url: DatabaseUrl = "postgresql://db/trees".parse().unwrap();
        let message = refused(Location::of(Some(Path::new("/data")), Some(&url), None));
        assert!(message.starts_with("--data and --postgres are both set"), "{message}");
        let message = refused(of_variables(&[(DATA, "/data"), (POSTGRES_FILE, "/url")]));
        assert!(message.starts_with("GARTH_DATA and GARTH_POSTGRES_FILE are both set"), "{message}");
        // An option precedes all variables.
        assert_eq!(Location::of(Some(Path::new("/data")), None, None).unwrap().shown(), "/data");
    }

    #[test]
    fn arguments_for_another_process_have_no_password() {
        let database = |location| match location {
            Location::Database(database) => database,
            Location::Folder(folder) => panic!("{}", folder.display()),
        };
        let open = database(of_variables(&[(POSTGRES, "postgresql://db/trees")]).unwrap());
        assert_eq!(open.arguments().unwrap(), ("--postgres", "postgresql://db/trees".to_owned()));
        let secret = database(of_variables(&[(POSTGRES, URL)]).unwrap());
        let message = secret.arguments().unwrap_err().to_string();
        assert!(message.contains("--postgres-file") && !message.contains("hidden"), "{message}");
    }
}
