//! Power cuts under a host folder, and a check that detects an omitted sync.

use std::fs::{self, File};

use bytes::Bytes;
use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::model::{Batch, Op};
use garth_engine::{Env, FileSystem};
use garth_testkit::crash::Disk;
use garth_testkit::crash::host_cuts::HostCuts;
use garth_testkit::proof::{Proven, Report, binaries_of_test, prove};
use garth_testkit::tools::{copy, write};
use tokio::runtime::Runtime;

use super::crash::asked;

/// Cuts of a run that must find nothing; `GARTH_CUTS` sets another number.
const CUTS: u32 = 24;
/// Cuts in which an omitted sync has to show; a run ends at the first that shows it. An omitted sync of names
/// shows in about one of ten, because the sync of the next file brings them to disk, too.
const CONTROL_CUTS: u64 = 200;

fn cut(proof: &HostCuts, seed: u64, cuts: u64) -> Proven<Report> {
    prove(proof, &garth_testkit::tools::on_disk(), &binaries_of_test(), seed, cuts)
}

#[test]
fn power_cut_keeps_acknowledged_folder_operations() {
    let (cuts, seed) = (asked("GARTH_CUTS", CUTS), u64::from(std::process::id()));
    let report = cut(&HostCuts::default(), seed, cuts.into()).unwrap_or_else(|broken| panic!("{broken}"));
    println!("seed {seed}: {report}");
    assert!(report["power cuts"] == u64::from(cuts), "{report}");
    assert!(report["batches answered and kept"] >= report["power cuts"], "{report}");
    assert!(report["cuts inside a batch"] > 0, "{report}");
}

#[test]
fn power_cut_never_tears_visible_file() {
    let mut disk = Disk::new().unwrap_or_else(|why| panic!("{why}"));
    let (place, runtime) = (disk.mount_point(), Runtime::new().unwrap());
    let (old, new) = (Bytes::from(vec![b'o'; 300_000]), Bytes::from(vec![b'n'; 200_000]));
    let fs = HostFs::open(&place, Mode::Writable, Env::system()).unwrap();
    runtime.block_on(async {
        fs.commit(Batch::new([write("/replaced", old.clone())])).await.unwrap();
        let ops: [Op; 3] =
            [write("/new", new.clone()), copy("/new", "/copy"), write("/replaced", new.clone())];
        fs.commit(Batch::new(ops).visible()).await.unwrap();
    });
    // The sync of another program brings the names to disk.
    File::create(place.join("other")).unwrap().sync_all().unwrap();
    disk.cut().unwrap();
    drop((fs, runtime));
    disk.restore().unwrap();
    for name in ["new", "copy"] {
        assert!(fs::read(place.join(name)).map_or(true, |content| content == new), "{name} is there in part");
    }
    let replaced = fs::read(place.join("replaced")).unwrap();
    assert!(replaced == old || replaced == new, "neither the old nor the new content");
}

#[test]
fn proof_detects_sync_omitted_by_folder() {
    for fault in ["sync-off", "content-unsynced", "names-unsynced"] {
        let broken = cut(&HostCuts { fault: Some(fault) }, 3, CONTROL_CUTS);
        let broken = broken.expect_err("the planted fault is seen").to_string();
        println!("{fault}: {broken}");
        assert!(broken.contains("what is there is no state"), "{fault}: {broken}");
    }
}
