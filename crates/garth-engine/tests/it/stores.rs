//! Storage of the suites: accounts on SQLite. `garth-proofs` runs some of the suites with a file of the same
//! name, whose accounts are on Postgres.

use std::any::Any;
use std::sync::Arc;

use futures::executor::block_on;
use garth_engine::env::ManualClock;
use garth_engine::rule::Registry;
use garth_engine::rule::sample::registry;
use garth_engine::{AccountStore, DataDir, Env};

/// Guard that must live as long as an account.
pub(crate) type Kept = Box<dyn Any + Send + Sync>;

/// Returns a new account on a clock that the test moves. It collects only when a test says so.
pub(crate) fn account(env: Env, clock: &ManualClock) -> (Arc<dyn AccountStore>, Kept) {
    account_with((env, Some(clock)), registry())
}

/// Returns a new account as [`account`] does, with a registry. Without a clock, its time is the real one.
pub(crate) fn account_with(
    (env, _clock): (Env, Option<&ManualClock>),
    registry: Registry,
) -> (Arc<dyn AccountStore>, Kept) {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::builder(registry).env(env).collecting(false).open(folder.path()).unwrap();
    block_on(data.create_account("a")).unwrap();
    (block_on(data.account("a")).unwrap(), Box::new(folder))
}

/// Returns a new account, opened by two processes.
pub(crate) fn two_handles() -> ([Arc<dyn AccountStore>; 2], Kept) {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let fs = garth_engine::engine::sqlite::SqliteFs::open(folder.path(), Env::system(), registry());
        fs.unwrap() as Arc<dyn AccountStore>
    };
    ([open(), open()], Box::new(folder))
}
