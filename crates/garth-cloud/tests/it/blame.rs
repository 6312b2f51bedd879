//! Blame: the part of the contract suite, and commits that are read of merged extents.

use garth_engine::model::{At, ByteRange, MAX_PAGE, Op};
use garth_engine::{AccountStore, FileSystem};
use garth_testkit::subject::{Instance, Subject};

use super::database::{Database, append, at, write};

async fn subject() -> Subject {
    let (_, clock) = Subject::clock();
    let database = Database::new().await;
    let account = database.account("her").await;
    let store = database.store(account, &database.cluster.socket_url()).await;
    let keep = Box::new(database.cluster);
    Subject { keep, ..Subject::new(Instance::of_account(store), clock) }
}

#[test]
fn blame_keeps_its_contract() {
    garth_testkit::contract::run("blaming", subject);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_merged_extents_have_their_commits() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let fs = database.store(account, &database.cluster.socket_url()).await;
    fs.commit(write("/f", "0123456789")).await.unwrap();
    fs.commit(append("/g", "x")).await.unwrap();
    // As if the extent were merged: three bytes of commit 1, then seven of commit 2.
    database.rows(
        account,
        r"INSERT INTO garth.origin SELECT account, chunk, '\x03020702' FROM garth.extent WHERE ino = 2;
          UPDATE garth.extent SET older = -1 WHERE ino = 2",
    );
    let blame = |offset, length| {
        let (fs, range) = (&fs, ByteRange { offset, length });
        async move {
            let blame = fs.blame(&At::Path(at("/f")), range, MAX_PAGE).await.unwrap();
            blame.runs.iter().map(|run| (run.range.length, run.commit.unwrap().0)).collect::<Vec<_>>()
        }
    };
    assert_eq!(blame(0, 10).await, [(3, 1), (7, 2)]);
    assert_eq!(blame(2, 4).await, [(1, 1), (3, 2)]);
    fs.commit(Op::patch(at("/f"), 4, "ab".to_owned()).into()).await.unwrap();
    assert_eq!(blame(0, 10).await, [(3, 1), (1, 2), (2, 3), (4, 2)]);
    assert_eq!(fs.fsck().await.unwrap().findings, []);
    database.rows(account, "DELETE FROM garth.origin");
    let error = fs.blame(&At::Path(at("/f")), ByteRange::ALL, MAX_PAGE).await.unwrap_err();
    assert_eq!(error.kind(), garth_engine::ErrorKind::Corrupt, "{error}");
}
