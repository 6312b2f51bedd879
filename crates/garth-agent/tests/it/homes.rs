//! Storage of the suites: accounts on SQLite. `garth-proofs` runs some of the suites with a file of the same
//! name, whose accounts are on Postgres.

use std::any::Any;
use std::sync::Arc;

use garth_engine::env::ManualClock;
use garth_engine::{AccountStore, Env};

/// Guard that must live as long as an account.
pub(super) type Kept = Box<dyn Any + Send + Sync>;

/// Returns the account `default` of a new home.
pub(super) async fn account() -> (Arc<dyn AccountStore>, Kept) {
    account_of(Env::system()).await
}

/// Returns the account `default` of a new home on a clock that the test moves.
pub(super) async fn account_on(env: Env, _clock: &ManualClock) -> (Arc<dyn AccountStore>, Kept) {
    account_of(env).await
}

async fn account_of(env: Env) -> (Arc<dyn AccountStore>, Kept) {
    let folder = tempfile::tempdir().unwrap();
    let data = garth::builder().env(env).open(&folder.path().join("data")).unwrap();
    data.create_account("default").await.unwrap();
    (data.account("default").await.unwrap(), Box::new(folder))
}
