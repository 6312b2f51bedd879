//! Counters of quotas that are wrong in the database.

use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::quota::Limits;
use garth_engine::model::{Batch, Kind, Op};
use garth_engine::rule::sample;
use garth_engine::{AccountStore, Env, FileSystem, TreePath};

fn write(size: usize) -> Op {
    Op::write(TreePath::parse("/q/f").unwrap(), vec![b'x'; size]).with_parents()
}

#[tokio::test]
async fn reindex_repairs_wrong_quota_counters() {
    let folder = tempfile::tempdir().unwrap();
    let open = || SqliteFs::open(folder.path(), Env::system(), sample::registry()).unwrap();
    let fs = open();
    fs.commit(Batch::new([write(10)])).await.unwrap();
    fs.set_quota(&TreePath::parse("/q").unwrap(), Limits::default().bytes(20)).await.unwrap();
    drop(fs);
    let conn = rusqlite::Connection::open(folder.path().join("tree.db")).unwrap();
    conn.execute("UPDATE quota SET bytes = 19, entries = 5", []).unwrap();
    drop(conn);
    let fs = open();
    let findings = fs.fsck().await.unwrap().findings;
    assert_eq!(findings.iter().map(|finding| finding.kind).collect::<Vec<_>>(), ["quota"], "{findings:?}");
    fs.reindex().await.unwrap();
    assert_eq!(fs.fsck().await.unwrap().findings, []);
    fs.commit(Batch::new([write(20)])).await.unwrap();
    assert_eq!(fs.stat(&TreePath::parse("/q/f").unwrap().into()).await.unwrap().kind, Kind::File);
}
