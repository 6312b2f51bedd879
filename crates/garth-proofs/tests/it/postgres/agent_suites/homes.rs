//! Storage of the suites: accounts on Postgres.

use std::any::Any;
use std::sync::Arc;

use garth_engine::env::ManualClock;
use garth_engine::{AccountStore, Env};
use garth_proofs::postgres::Database;

/// Guard that must live as long as an account.
pub(super) type Kept = Box<dyn Any + Send + Sync>;

/// Returns a new account.
pub(super) async fn account() -> (Arc<dyn AccountStore>, Kept) {
    stored(Env::system(), None).await
}

/// Returns a new account on a clock that the test moves.
pub(super) async fn account_on(env: Env, clock: &ManualClock) -> (Arc<dyn AccountStore>, Kept) {
    stored(env, Some(clock)).await
}

async fn stored(env: Env, clock: Option<&ManualClock>) -> (Arc<dyn AccountStore>, Kept) {
    let database = Database::start().unwrap();
    let account = database.account((env, clock), garth_agent::registry()).await.unwrap();
    (account, Box::new(database))
}
