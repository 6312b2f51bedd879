//! Model test on the SQLite engine, on a folder in memory where one exists: it is about meaning, not about
//! disks.

use garth_testkit::model::{ModelConfig, on_host, retained, run, sqlite};
use garth_testkit::subject::mounted::Part;
use garth_testkit::subject::stacked::{View, drawn};

#[test]
fn random_operations_match_the_specification() {
    let stats = run(ModelConfig::from_env(20_000), sqlite).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(stats.commits > 0 && stats.reopened > 0 && stats.collected > 0, "{stats:?}");
    assert!(stats.ruled > 100 && stats.full > 100, "{stats:?}");
    assert_eq!(stats.omitted, 0, "{stats:?}");
}

#[test]
fn random_operations_match_while_the_past_goes() {
    let stats = run(ModelConfig::from_env(3_000), retained).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(stats.commits > 100 && stats.reopened > 0 && stats.collected > 0, "{stats:?}");
    // If little was removed, the run would prove little.
    assert!(stats.folded > 30 && stats.contents > 5 && stats.gone > 5, "{stats:?}");
    assert_eq!(stats.omitted, 0, "{stats:?}");
}

#[test]
fn random_operations_through_a_scope_match() {
    for depth in [1, 2] {
        let subject = || async move { sqlite().await.scoped(depth).await.counted_anew().await };
        let stats =
            run(ModelConfig::from_env(2_500), subject).unwrap_or_else(|failure| panic!("{depth}: {failure}"));
        assert!(stats.commits > 0 && stats.reopened > 0 && stats.collected > 0, "{stats:?}");
    }
}

#[test]
fn random_operations_through_a_mount_match() {
    // Not `Part::Twice`: there a mount rejects some operations before the store judges those before them.
    for part in [Part::Root, Part::Directory] {
        let subject = || async move { sqlite().await.mounted(part).await.counted_anew().await };
        let stats = run(ModelConfig::from_env(2_000), subject)
            .unwrap_or_else(|failure| panic!("{part:?}: {failure}"));
        assert!(stats.commits > 0 && stats.reopened > 0 && stats.collected > 0, "{stats:?}");
    }
}

#[test]
fn random_operations_through_stacked_views_match() {
    for seed in [1, 2] {
        let views = drawn(seed, View::EQUAL);
        let subject = || async { sqlite().await.stacked(&views).await.counted_anew().await };
        let stats = run(ModelConfig::from_env(2_500), subject)
            .unwrap_or_else(|failure| panic!("{views:?}: {failure}"));
        assert!(stats.commits > 0 && stats.reopened > 0, "{stats:?}");
    }
}

#[test]
fn random_operations_on_a_folder_match_posix() {
    let stats = on_host(ModelConfig::from_env(6_000)).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(stats.commits > 2_000 && stats.refused > 0 && stats.checks > 0, "{stats:?}");
}
