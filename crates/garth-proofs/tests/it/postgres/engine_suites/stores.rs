//! Storage of the suites: accounts on Postgres.

use std::any::Any;
use std::sync::Arc;

use futures::executor::block_on;
use garth_engine::env::ManualClock;
use garth_engine::rule::Registry;
use garth_engine::rule::sample::registry;
use garth_engine::{AccountStore, Env, Home as _};
use garth_proofs::postgres::Database;

/// Guard that must live as long as an account.
pub(crate) type Kept = Box<dyn Any + Send + Sync>;

/// Returns a new account on a clock that the test moves.
pub(crate) fn account(env: Env, clock: &ManualClock) -> (Arc<dyn AccountStore>, Kept) {
    account_with((env, Some(clock)), registry())
}

/// Returns a new account as [`account`] does, with a registry. Without a clock, its time is the real one.
pub(crate) fn account_with(
    time: (Env, Option<&ManualClock>),
    registry: Registry,
) -> (Arc<dyn AccountStore>, Kept) {
    let database = Database::start().unwrap();
    let account = block_on(database.account(time, registry)).unwrap();
    (account, Box::new(database))
}

/// Returns a new account, opened by two servers.
pub(crate) fn two_handles() -> ([Arc<dyn AccountStore>; 2], Kept) {
    let database = Database::start().unwrap();
    let (id, _) = block_on(database.new_account(None, registry())).unwrap();
    let open = || {
        let home = block_on(database.home(Env::system(), registry())).unwrap();
        block_on(home.open(&id)).unwrap()
    };
    let handles = [open(), open()];
    (handles, Box::new(database))
}
