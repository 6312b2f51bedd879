//! A server under load refuses revoked keys alone. Neither its speed nor its memory is judged here.

use garth_proofs::http_load::{Fault, HttpLoad};

use super::support::{broken, proven};

#[test]
fn only_revoked_keys_are_refused_under_load() {
    let report = proven(&HttpLoad::small(), 1);
    for kind in ["get", "put", "GET /v1/fs", "PUT /v1/fs", "sessions/append", "search"] {
        assert!(report.in_group("mix", kind) > 0, "{kind}: {report}");
    }
    assert!(report["keys revoked and refused"] >= 8 && report["slow answers taken"] > 0, "{report}");
    assert!(report["slow requests answered"] + report["slow requests closed"] >= 5, "{report}");
}

#[test]
fn proof_detects_accepted_revoked_key() {
    let broken = broken(&HttpLoad { fault: Some(Fault::KeepsKey), ..HttpLoad::small() }, 1);
    assert!(broken.contains("a revoked key is accepted"), "{broken}");
}

#[test]
fn proof_detects_refused_valid_key() {
    let broken = broken(&HttpLoad { fault: Some(Fault::RevokesAnother), ..HttpLoad::small() }, 1);
    assert!(broken.contains("a key that nobody revoked is refused"), "{broken}");
}
