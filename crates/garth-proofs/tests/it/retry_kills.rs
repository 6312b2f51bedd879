//! Writes under idempotency keys under kills.

use garth_proofs::retry_kills::{Form, RetryKills};

use super::support::{broken_at, proven};

#[test]
fn retry_of_killed_write_has_one_effect() {
    let report = proven(&RetryKills { form: Form::Keyed }, 5);
    assert!(report["kills"] == 8 && report["requests answered"] > 8, "{report}");
    assert!(report["repeats answered as the first try"] > 32, "{report}");
}

#[test]
fn proof_detects_retry_without_key() {
    let broken = broken_at(&RetryKills { form: Form::Plain }, 5, 100);
    let noticed = ["was answered", "messages, not", "no such memory", "moved", "was reset before"];
    assert!(noticed.iter().any(|word| broken.contains(word)), "{broken}");
}
