//! Files of gates that are damaged in the database.

use std::sync::Arc;

use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{At, ByteRange, Op};
use garth_engine::rule::sample::registry;
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, FileSystemExt};
use garth_testkit::tools::p;

use super::gates::{OPEN, World, files, listed, walked};

#[tokio::test]
async fn entry_with_damaged_file_is_hidden() {
    let folder = tempfile::tempdir().unwrap();
    let fs: Arc<dyn AccountStore> = SqliteFs::open(folder.path(), Env::system(), registry()).unwrap();
    let world = World::on((fs, Box::new(()))).await;
    let view = &*world.view;
    world.put("bad", OPEN, "bad").await;
    let raw = rusqlite::Connection::open(folder.path().join("tree.db")).unwrap();
    let is_open = "data = CAST('ACTIVE' AS BLOB)";
    let damage = format!("UPDATE chunk SET data = zeroblob(len) WHERE {is_open}");
    // Its own file, and that in `sub`.
    assert_eq!(raw.execute(&damage, []).unwrap(), 2);
    let file = At::Path(p("/nodes/bad/.status"));
    assert!(world.fs.fetch(&file, ByteRange::ALL).await.unwrap_err().is(ErrorKind::Corrupt));
    world.put("seen", OPEN, "seen").await;
    assert_eq!(listed(view).await, ["seen"]);
    assert_eq!(walked(view).await, files("seen"));
    assert!(view.lookup("/nodes/bad/log").await.unwrap().is_none());
    assert_eq!(world.refused(Op::remove(p("/nodes/bad/log"))).await, ErrorKind::NotFound);
    // It is judged again once it can be read.
    let restore = format!("UPDATE chunk SET {is_open} WHERE data = zeroblob(len)");
    assert_eq!(raw.execute(&restore, []).unwrap(), 2);
    assert_eq!(listed(view).await, ["bad", "seen"]);
}
