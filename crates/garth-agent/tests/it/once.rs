//! Repeated requests: multi-step requests that continue after an interruption, and concurrent repeats. The
//! tests of `garth-server` cover each route.

use std::sync::Arc;

use garth_agent::Once;
use garth_agent::memory::{Memories, Put, Uri};
use garth_agent::session::{Append, Create, Draft, Import, Log, Sessions, TranscriptFormat};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{Confinement, Idempotency, Op, Owner, Timestamp, Within};
use garth_engine::{Env, ErrorKind, FileSystem, TreePath};
use garth_testkit::fs::interfering::{Call, Interfering};

fn tree() -> Arc<dyn FileSystem> {
    Arc::new(MemoryFs::new(Env::system(), garth_agent::registry()))
}

async fn begin(fs: &Arc<dyn FileSystem>, key: &str) -> Once {
    Once::begin(Arc::clone(fs), Idempotency::new(key, [1; 32], Timestamp(i64::MAX))).await.unwrap()
}

fn sessions<'a>(fs: &'a dyn FileSystem, once: &Once) -> Sessions<'a> {
    Sessions::new(fs, "ann", "coder").unwrap().once(once.clone())
}

async fn head(fs: &Arc<dyn FileSystem>) -> u64 {
    fs.head().await.unwrap().seq.0
}

#[tokio::test]
async fn interrupted_import_continues() {
    let fs = tree();
    sessions(&*fs, &Once::default()).create(&Create::new("work")).await.unwrap();
    let text: String = (1..=2500).map(|n| format!("{{\"role\":\"user\",\"content\":\"{n}\"}}\n")).collect();
    let fails = vec![Op::remove(TreePath::parse("/missing").unwrap())];
    let cut: Arc<dyn FileSystem> = Arc::new(Interfering::new(&fs, Call::Commit, 1, fails));
    let once = begin(&fs, "k").await;
    let import = Import::new(TranscriptFormat::Garth, &text);
    let failed = sessions(&*cut, &once).import("work", &import).await;
    assert!(failed.unwrap_err().is(ErrorKind::NotFound));
    let before = head(&fs).await;
    let once = begin(&fs, "k").await;
    assert!(once.is_repeat());
    let done = sessions(&*fs, &once).import("work", &import).await.unwrap();
    assert_eq!((done.messages, done.new, done.lines.clone()), (2500, 2500, Some(1..=2500)));
    assert_eq!(head(&fs).await, before + 2, "the first slice was there");
    let once = begin(&fs, "k").await;
    assert_eq!(sessions(&*fs, &once).import("work", &import).await.unwrap(), done);
    assert_eq!(head(&fs).await, before + 2);
}

#[tokio::test]
async fn concurrent_repeat_returns_the_first_outcome() {
    let fs = tree();
    let uri: Uri = "ctx://default/users/ann/memories/preferences/tea".parse().unwrap();
    let to: Uri = "ctx://default/users/ann/memories/preferences/green".parse().unwrap();
    let memories = |once: &Once| Memories::new(&*fs, "default").once(once.clone());
    let twins = async |key: &str| [begin(&fs, key).await, begin(&fs, key).await];

    let [one, two] = twins("create").await;
    let made = sessions(&*fs, &one).create(&Create::new("work")).await.unwrap();
    assert_eq!(sessions(&*fs, &two).create(&Create::new("work")).await.unwrap(), made, "it is there already");
    let [one, two] = twins("append").await;
    let said = Append::messages([Draft::user("hi")]);
    let done = sessions(&*fs, &one).append("work", &said).await.unwrap();
    assert_eq!(sessions(&*fs, &two).append("work", &said).await.unwrap(), done);
    assert_eq!(sessions(&*fs, &one).end("work", Log::Messages).await.unwrap().lines, 1);
    let [one, two] = twins("put").await;
    let put = Put::new("Ann likes tea.\n");
    let written = memories(&one).put(&uri, &put).await.unwrap();
    assert_eq!(memories(&two).put(&uri, &put).await.unwrap(), written);
    let [one, two] = twins("move").await;
    let moved = memories(&one).move_to(&uri, &to).await.unwrap();
    assert_eq!(memories(&two).move_to(&uri, &to).await.unwrap(), moved, "it went already");
    let [one, two] = twins("delete").await;
    let deleted = memories(&one).delete(&to).await.unwrap();
    assert_eq!(memories(&two).delete(&to).await.unwrap(), deleted, "it is gone already");
}

#[tokio::test]
async fn request_through_view_is_recorded_below() {
    let fs = tree();
    let home = TreePath::parse("/users/ann").unwrap();
    let confinement = Confinement::new(Within::new([home]), Owner::new("chat").unwrap());
    let view = fs.confined(&confinement).await.unwrap();
    sessions(&*fs, &Once::default()).create(&Create::new("work")).await.unwrap();
    let once = begin(&fs, "k").await;
    let said = Append::messages([Draft::user("hi")]);
    let done = sessions(&*view, &once).append("work", &said).await.unwrap();
    assert!(fs.recorded("k").await.unwrap().is_some() && view.recorded("k").await.unwrap().is_none());
    let once = begin(&fs, "k").await;
    assert_eq!(sessions(&*view, &once).append("work", &said).await.unwrap(), done);
}

#[tokio::test]
async fn rejects_other_request_under_the_same_key() {
    let fs = tree();
    let once = begin(&fs, "k").await;
    let said = Append::messages([Draft::user("hi")]);
    assert!(sessions(&*fs, &once).append("work", &said).await.unwrap_err().is(ErrorKind::NotFound));
    assert!(!begin(&fs, "k").await.is_repeat());
    sessions(&*fs, &begin(&fs, "k").await).create(&Create::new("work")).await.unwrap();
    let other = Idempotency::new("k", [2; 32], Timestamp(i64::MAX));
    let refused = Once::begin(Arc::clone(&fs), other).await.unwrap_err();
    assert!(refused.is(ErrorKind::IdempotencyMismatch));
}
