//! Commits through gates: entries that they hide are out of reach, as their files are when a commit begins.

use std::sync::Arc;

use garth_cloud::client::Pool;
use garth_cloud::store::PgStore;
use garth_engine::model::{At, Batch, Confinement, Gate, Op, Owner, Precondition, Seq, Within};
use garth_engine::rule::sample::{STATUS, registry};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt as _, Name};

use super::database::{Database, at};

const OPEN: &str = "ACTIVE";
const SHUT: &str = "PRIVATE";

/// Returns a batch that creates an entry.
fn entry(name: &str, status: &str) -> Batch {
    let file = |file: &str| at(&format!("/nodes/{name}/{file}"));
    let write = |path, text: &str| Op::write(path, text.to_owned()).with_parents();
    Batch::new([write(file(".status"), status), write(file("log"), name)])
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_entries_are_out_of_reach_of_commits() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let pool = Pool::connect(&database.cluster.tcp_url(), 2).await.unwrap();
    let fs = PgStore::new(pool, account, Env::system(), registry());
    for batch in [
        Batch::new([Op::mkdir(at("/nodes")), Op::mkdir(at("/free"))]),
        entry("seen", OPEN),
        entry("hidden", SHUT),
    ] {
        fs.commit(batch).await.unwrap();
    }
    let gate = Gate {
        dir: at("/nodes"),
        file: Name::parse(".status").unwrap(),
        projection: STATUS,
        keys: vec![OPEN.to_owned()],
        since: Seq(0),
    };
    let within = Within::new([at("/nodes"), at("/free")]);
    let to = Confinement::new(within, Owner::new("view").unwrap()).gated(vec![gate]);
    let view: Arc<dyn FileSystem> = fs.confined(&to).await.unwrap();
    let node = At::Node(fs.entry("/nodes/hidden/log").await.unwrap().ino);
    for (op, kind) in [
        (Op::append(at("/nodes/hidden/log"), "!"), ErrorKind::AccessDenied),
        (Op::append(node, "!"), ErrorKind::NotFound),
        (Op::remove_tree(at("/nodes/hidden")), ErrorKind::NotFound),
        (Op::copy(at("/nodes/hidden/log"), at("/free/copy")), ErrorKind::NotFound),
        (Op::check(at("/nodes/hidden"), Precondition::Exists), ErrorKind::Conflict),
    ] {
        let error = view.commit(op.clone().into()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{op:?}: {error}");
    }
    view.append("/nodes/seen/log", "!").await.unwrap();
    view.rename("/nodes/seen", "/nodes/moved").await.unwrap();
    view.commit(entry("new", OPEN)).await.unwrap();
    view.append("/nodes/new/log", "!").await.unwrap();
    // An entry is hidden from the commit after the one that shuts it, and seen again when it opens.
    view.commit(Op::write(at("/nodes/new/.status"), SHUT).into()).await.unwrap();
    let error = view.commit(Op::append(at("/nodes/new/log"), "!").into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    fs.commit(Op::write(at("/nodes/new/.status"), OPEN).into()).await.unwrap();
    view.append("/nodes/new/log", "!").await.unwrap();
    assert_eq!(fs.read_to_string("/nodes/new/log").await.unwrap(), "new!!");
    assert_eq!(fs.read_to_string("/nodes/moved/log").await.unwrap(), "seen!");
}
