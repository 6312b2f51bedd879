//! Writes under idempotency keys under kills.

use garth_proofs::retry_kills::{Form, RetryKills};

use super::support::{broken_at, proven};

#[test]
fn a_write_that_was_killed_and_is_sent_again_has_one_effect_and_one_answer() {
    let report = proven(&RetryKills { form: Form::Keyed }, 5);
    assert!(report["kills"] == 8 && report["requests answered"] > 8, "{report}");
    assert!(report["repeats answered as the first try"] > 32, "{report}");
}

#[test]
fn a_write_that_is_sent_again_without_a_key_is_noticed() {
    let broken = broken_at(&RetryKills { form: Form::Plain }, 5, 100);
    let noticed = ["was answered", "messages, not", "no such memory", "moved", "was reset before"];
    assert!(noticed.iter().any(|word| broken.contains(word)), "{broken}");
}
