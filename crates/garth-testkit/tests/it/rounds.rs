//! Contract suite and model test on the SQLite engine when it plans as if rows were a round trip away. They
//! are not in the crate of the engine, because it plans this way for tests only.

use garth_engine::engine::planner::fetched;
use garth_testkit::model::{ModelConfig, run, sqlite};
use garth_testkit::subject::Subject;

async fn subject() -> Subject {
    fetched::require_fetched_rows();
    Subject::sqlite(&std::env::temp_dir())
}

garth_testkit::contract_tests!(subject);

#[test]
fn random_operations_match_when_planned_in_rounds() {
    fetched::require_fetched_rows();
    let stats = run(ModelConfig::from_env(5_000), sqlite).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(stats.commits > 0 && stats.ruled > 0 && stats.omitted == 0, "{stats:?}");
}
