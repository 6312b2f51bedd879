//! Clock of a database that a test moves: a function that reads the time of a file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use garth_engine::env::ManualClock;
use garth_engine::model::Timestamp;

use super::{Cluster, Result};

/// Name of the file with the time of all accounts that have no time of their own.
const SHARED: &str = "0";

/// Clock of the database of a cluster. Times are nanoseconds since 1970.
#[derive(Clone, Debug)]
pub struct Clock {
    folder: PathBuf,
}

impl Cluster {
    /// Replaces the function `garth.now()`: from then on its time is what the test sets, for all accounts or
    /// for a single one, and the real time until then. The tables must exist.
    ///
    /// # Errors
    /// If the function cannot be replaced, or its folder cannot be created.
    pub fn clock(&self) -> Result<Clock> {
        let folder = self.folder.path().join("clocks");
        let created = fs::create_dir_all(&folder)
            .and_then(|()| fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)));
        created.map_err(|e| format!("no folder for the clock: {e}"))?;
        let place = folder.display();
        // Only a superuser may have a server read files.
        self.psql(
            &self.admin_url(),
            &format!(
                "CREATE OR REPLACE FUNCTION public.test_clock(account bigint) RETURNS bigint
                 LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
                   SELECT coalesce(pg_read_file('{place}/' || account, 0, 40, true),
                     pg_read_file('{place}/{SHARED}', 0, 40, true))::bigint $$;
                 CREATE OR REPLACE FUNCTION garth.now() RETURNS bigint LANGUAGE sql VOLATILE AS $$
                   SELECT coalesce(public.test_clock(coalesce(garth.me(), 0)),
                     (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000) $$"
            ),
        )?;
        Ok(Clock { folder })
    }
}

impl Clock {
    /// Has the time of all accounts that have no clock of their own follow a clock.
    pub fn follow(&self, clock: &ManualClock) {
        self.follow_for(SHARED, clock);
    }

    /// Has the time of an account, given by its number in the database, follow a clock.
    pub fn follow_account(&self, account: i64, clock: &ManualClock) {
        self.follow_for(&account.to_string(), clock);
    }

    fn follow_for(&self, name: &str, clock: &ManualClock) {
        let (file, new) = (self.folder.join(name), self.folder.join(format!("{name}.new")));
        clock.followed_by(move |now| set(&file, &new, now));
    }
}

/// Writes the time. After the cluster has been removed nobody reads it, and nothing is written.
fn set(file: &Path, new: &Path, now: Timestamp) {
    // Renamed, so that the server never reads a part of it.
    let written = fs::write(new, now.0.to_string()).and_then(|()| fs::rename(new, file));
    assert!(written.is_ok() || !file.exists(), "the clock of the database cannot be set: {written:?}");
}
