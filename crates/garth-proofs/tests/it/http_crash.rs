//! No write acknowledged over HTTP is lost to `kill -9`, power loss or a cut connection.

use garth_proofs::http_cuts::HttpCuts;
use garth_testkit::crash::{By, WritersCrash};

use super::support::{asked, proven, proven_on_disk};

#[test]
fn kill_loses_no_acknowledged_http_put() {
    let kills = asked("GARTH_KILLS", 10);
    let proof = WritersCrash { by: By::Kill, over_http: true };
    let report = proven_on_disk(&proof, u64::from(std::process::id()), kills);
    assert!(report["crashes"] == kills && report["writes acknowledged and kept"] > 0, "{report}");
}

#[test]
fn power_cut_loses_no_acknowledged_http_put() {
    let cuts = asked("GARTH_CUTS", 6);
    let proof = WritersCrash { by: By::Cut, over_http: true };
    let report = proven_on_disk(&proof, u64::from(std::process::id()), cuts);
    assert!(report["crashes"] == cuts && report["writes acknowledged and kept"] > 0, "{report}");
}

#[test]
fn retried_put_is_stored_once() {
    let report = proven(&HttpCuts, 3);
    assert_eq!(report["answers lost"], 60);
    assert!(report["puts that were there"] > 5 && report["puts made by a retry"] > 5, "{report}");
}
