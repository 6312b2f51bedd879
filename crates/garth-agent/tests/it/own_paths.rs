//! Trees with other paths than the account's: the data of agents cannot be opened on them, because it would
//! be written to the wrong place, where no rule applies.

use std::sync::Arc;

use garth_agent::kv::Kv;
use garth_agent::media::{Media, NewMedia};
use garth_agent::memory::{List, Memories, Prefix, Put};
use garth_agent::session::{Create, Sessions};
use garth_agent::workspace::Workspace;
use garth_agent::{Access, Caller, Request};
use garth_engine::view::Scope;
use garth_engine::view::overlay::Overlay;
use garth_engine::{AccountStore, Env, Error, ErrorKind, FileSystem, FileSystemExt, TreePath};

use super::memories_set::coffee;
use super::sessions::account;

fn assert_refused<T: std::fmt::Debug>(what: &str, answer: Result<T, Error>) {
    let error = answer.expect_err(what);
    assert!(
        error.is(ErrorKind::InvalidArgument)
            && error.message().contains("does not have the paths of the account"),
        "{what}: {error}"
    );
}

async fn refused_on(fs: &dyn FileSystem) {
    let env = Env::system;
    assert_refused("sessions", Sessions::new(fs, "ann", "coder"));
    assert_refused("workspace", Workspace::new(fs, "coder"));
    let memories = Memories::new(fs, "default").env(env());
    assert_refused("put", memories.put(&coffee(), &Put::new("Black.")).await);
    assert_refused("list", memories.list(&List::new(Prefix::Account)).await);
    assert_refused("delete", memories.delete(&coffee()).await);
    let media = Media::new(fs).env(env());
    let picture = futures::stream::iter([Ok(bytes::Bytes::from_static(b"picture"))]);
    assert_refused("media", media.put(&NewMedia::new("agent:coder:main", "image/png"), picture).await);
    let kv = Kv::new(fs, "coder").expect_err("values");
    assert!(kv.message().contains("does not have the paths of the account"), "{kv}");
}

async fn access(account: &Arc<dyn AccountStore>) -> Access {
    let request = Request::new("coder").user("ann").chat("trip");
    let access = Access::open(account, &Env::system(), Caller::Holder, &request).await.unwrap();
    access.make().await.unwrap();
    access
}

#[tokio::test]
async fn rejects_trees_with_other_paths() {
    let (account, _folder) = account().await;
    refused_on(&*access(&account).await.tree().open().await.unwrap()).await;
    let base: &dyn FileSystem = &*account;
    base.mkdir_all("/users/ann").await.unwrap();
    refused_on(&*Scope::open(base, &TreePath::parse("/users").unwrap()).await.unwrap()).await;
}

#[tokio::test]
async fn accepts_views_with_own_paths() {
    let (account, _folder) = account().await;
    let own = access(&account).await;
    own.sessions().create(&Create::new("work")).await.unwrap();
    let uri = "ctx://default/users/ann/memories/events/one".parse().unwrap();
    own.memories("default").put(&uri, &Put::new("Tea.")).await.unwrap();
    let base: &dyn FileSystem = &*account;
    base.mkdir_all("/above").await.unwrap();
    let upper = Scope::open(base, &TreePath::parse("/above").unwrap()).await.unwrap();
    let users = garth_engine::model::Within::new([TreePath::parse("/users").unwrap()]);
    let to = garth_engine::model::Confinement::new(users, garth_engine::model::Owner::new("test").unwrap());
    let lower = base.confined(&to).await.unwrap();
    let overlay = Overlay::open(lower, upper).await.unwrap();
    assert!(Sessions::new(&*overlay, "ann", "coder").unwrap().get("work").await.is_ok());
}
