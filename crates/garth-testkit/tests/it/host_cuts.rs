//! Power cuts under a folder of the host.

use std::fs::{self, File};

use bytes::Bytes;
use garth::engine::host::{HostFs, Mode};
use garth::model::{Batch, Op};
use garth::{Env, FileSystem};
use garth_testkit::crash::Disk;
use garth_testkit::tools::{copy, write};
use tokio::runtime::Runtime;

#[test]
fn a_file_that_was_only_visible_is_whole_or_absent_after_a_power_cut_and_spares_what_it_replaces() {
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
    // another program's sync brings the names to disk
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
