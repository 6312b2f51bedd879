//! Writes under idempotency keys under kills.

use garth_proofs::call_kills::CallKills;
use garth_proofs::retry_kills::{Form, RetryKills};

use super::support::{broken, broken_at, proven};

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

#[test]
fn retry_of_killed_call_has_one_effect() {
    let report = proven(&CallKills { form: Form::Keyed }, 5);
    assert!(report["kills"] == 3 && report["calls answered"] >= 72, "{report}");
    for kind in [
        "PUT /v1/fs",
        "PATCH /v1/fs",
        "POST /v1/uploads",
        "POST /v1/batch of parts",
        "POST /v1/batch",
        "POST /v1/tree/edit",
        "POST /v1/admin/keys/create",
        "DELETE /v1/fs",
        "PATCH /v1/fs with a bound key",
        "POST /v1/batch with a bound key",
    ] {
        assert!(report.in_group("repeats", kind) > 0, "{kind}: {report}");
    }
}

#[test]
fn proof_detects_call_without_key() {
    let broken = broken(&CallKills { form: Form::Plain }, 5);
    assert!(broken.contains("was answered"), "{broken}");
}
