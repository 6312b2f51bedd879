//! Fields of a session's metadata and attributes named `garth.*` that only garth may write, through any
//! interface.

use std::sync::Arc;

use garth_agent::Request;
use garth_agent::session::{Change, Create, State};
use garth_engine::fs::restore::restore;
use garth_engine::model::{At, Batch, Moment, Op, SetAttrs, Timestamp};
use garth_engine::view::Overlay;
use garth_engine::view::overlay::{LowerLayer, Side, StoredOverlay};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt};
use serde_json::Value;

use super::access::{Account, by_key, p, scout};

const GROUP: &str = "slack:channel:C1";

/// Returns an account with a session of a group, the directory of the session, and its metadata with another
/// class.
async fn with_session() -> (Account, Request, String, String) {
    let account = Account::new("{}").await;
    let request = by_key(GROUP);
    let access = account.access(&request).await;
    access.sessions().create(&Create::new("s")).await.unwrap();
    let dir = format!("/users/:{GROUP}/agents/scout/session/s");
    let forged = forged(&account.text(&format!("{dir}/meta.json")).await, "class", "main".into());
    (account, request, dir, forged)
}

fn forged(meta: &str, field: &str, value: Value) -> String {
    let mut meta: Value = serde_json::from_str(meta).unwrap();
    meta[field] = value;
    meta.to_string()
}

/// Returns all ways to give the file at `meta` other content, or its name to another file.
fn ways(meta: &str, text: &str) -> Vec<Vec<Op>> {
    let (at, other) = (p(meta), p(&meta.replace("meta.json", "forged.json")));
    let make = || Op::write(other.clone(), text.to_owned());
    vec![
        vec![Op::write(at.clone(), text.to_owned())],
        vec![Op::truncate(at.clone(), 0), Op::append(at.clone(), text.to_owned())],
        vec![Op::write(at.clone(), text.replacen('{', "{\"class\":\"group\",", 1))],
        vec![Op::append(at.clone(), "x")],
        vec![Op::patch(at.clone(), 0, text.to_owned())],
        vec![Op::punch(at.clone(), 0, 4)],
        vec![make(), Op::copy(other.clone(), at.clone()).replace()],
        vec![make(), Op::rename(other.clone(), at.clone())],
        vec![make(), Op::exchange(other.clone(), at.clone())],
        vec![Op::remove(at.clone()), Op::write(at.clone(), text.to_owned())],
        vec![Op::remove(at.clone()), make(), Op::link(other.clone(), at.clone())],
        vec![Op::rename(at.clone(), other.clone()), Op::write(at.clone(), text.to_owned())],
        vec![Op::link(at.clone(), other.clone()), Op::write(other.clone(), text.to_owned())],
        vec![Op::remove(at.clone()), Op::symlink(at.clone(), "forged.json")],
        vec![Op::remove(at.clone())],
        vec![Op::remove_tree(at.parent().unwrap())],
        vec![Op::rename(at.parent().unwrap(), p(&format!("{}-moved", at.parent().unwrap())))],
        vec![Op::set_attrs(at, SetAttrs::new().expires_at(Timestamp(1)))],
    ]
}

#[tokio::test]
async fn deciding_fields_are_read_only_to_clients() {
    let (account, request, dir, forged) = with_session().await;
    let tree = account.tree(&request).await;
    let own = format!("/ctx/home/:{GROUP}/agent/scout/session/s");
    let before = account.text(&format!("{dir}/meta.json")).await;
    let views: [(&dyn FileSystem, &str); 3] =
        [(&*tree, &own), (&*tree, "/.user/session/s"), (&*account.store, &dir)];
    for (fs, dir) in views {
        for ops in ways(&format!("{dir}/meta.json"), &forged) {
            let error = fs.commit(Batch::new(ops.clone())).await.unwrap_err();
            assert!(error.is(ErrorKind::RuleViolation), "{ops:?}: {error}");
        }
    }
    assert_eq!(account.text(&format!("{dir}/meta.json")).await, before);
    assert!(!account.store.exists(&format!("{dir}/forged.json")).await.unwrap());
}

#[tokio::test]
async fn rejects_duplicate_deciding_fields() {
    let (account, _, dir, _) = with_session().await;
    let meta = format!("{dir}/meta.json");
    let before = account.text(&meta).await;
    for (field, value) in [("class", "main"), ("user", "ann"), ("session_key", "agent:scout:main")] {
        let first = format!("{{\"{field}\":\"{value}\",");
        let done = account.store.write(&meta, before.replacen('{', &first, 1)).await;
        assert!(done.is_err_and(|error| error.is(ErrorKind::RuleViolation)), "{field}");
    }
}

#[tokio::test]
async fn clients_may_write_only_other_meta_fields() {
    let (account, _, dir, _) = with_session().await;
    let meta = format!("{dir}/meta.json");
    let before = account.text(&meta).await;
    for field in [
        "id",
        "class",
        "agent",
        "user",
        "session_key",
        "parent",
        "previous",
        "next",
        "archive",
        "finished_at",
        "named",
        "history_collected",
    ] {
        for value in [Value::from("x"), Value::Null] {
            let text = forged(&before, field, value.clone());
            let done = account.store.write(&meta, text).await;
            // A missing field cannot be set to `null` either.
            assert!(done.is_err_and(|error| error.is(ErrorKind::RuleViolation)), "{field} {value}");
        }
    }
    account.store.write(&meta, forged(&before, "x_own", 7.into())).await.unwrap();
    account.store.write(&meta, forged(&before, "title", "Mine".into())).await.unwrap();
    account.store.write(&meta, before).await.unwrap();
}

#[tokio::test]
async fn clients_cannot_create_sessions_as_files() {
    let (account, request, dir, forged) = with_session().await;
    let tree = account.tree(&request).await;
    let new = "/.user/session/new";
    for op in [
        Op::write(p(&format!("{new}/meta.json")), forged.clone()).with_parents(),
        Op::copy_tree(p("/.user/session/s"), p(new)),
        Op::copy(p("/.user/session/s/meta.json"), p("/.user/session/meta.json")),
    ] {
        let done = tree.commit(op.clone().into()).await;
        let inside = op != Op::copy(p("/.user/session/s/meta.json"), p("/.user/session/meta.json"));
        assert_eq!(done.is_err(), inside, "{op:?}");
    }
    // A directory cannot take the place of a session either.
    tree.commit(Op::write(p("/.user/x/meta.json"), forged).with_parents().into()).await.unwrap();
    for to in ["/.user/session/x", "/.user/session/s"] {
        assert!(tree.commit(Op::rename(p("/.user/x"), p(to)).into()).await.is_err(), "{to}");
    }
    assert!(account.store.exists(&format!("{dir}/meta.json")).await.unwrap());
    assert_eq!(account.access(&request).await.sessions().list(&Default::default()).await.unwrap().0.len(), 1);
}

#[tokio::test]
async fn restore_cannot_change_deciding_fields() {
    let (account, request, dir, _) = with_session().await;
    let access = account.access(&request).await;
    let open = account.store.head().await.unwrap().seq;
    access.sessions().set("s", &Change::new().state(State::Done)).await.unwrap();
    let tree = access.tree().open().await.unwrap();
    let now = Env::system().now();
    let views: [(&dyn FileSystem, &str); 2] = [(&*tree, "/.user/session/s"), (&*account.store, &dir)];
    for (fs, dir) in views {
        for path in [format!("{dir}/meta.json"), dir.to_owned()] {
            let done = restore(fs, &p(&path), &Moment::Seq(open), now, &Batch::default()).await;
            let error = done.err().map(|error| error.kind());
            assert_eq!(error, Some(ErrorKind::RuleViolation), "{path}");
        }
        let state =
            restore(fs, &p(&format!("{dir}/state")), &Moment::Seq(open), now, &Batch::default()).await;
        assert!(state.is_ok(), "{:?}", state.err());
    }
    assert!(account.text(&format!("{dir}/meta.json")).await.contains("finished_at"));
}

#[tokio::test]
async fn overlay_apply_cannot_change_deciding_fields() {
    let (account, _, dir, forged) = with_session().await;
    let lower = LowerLayer { root: p("/"), as_of: None };
    StoredOverlay::create(&*account.store, "o", &lower, &Batch::default()).await.unwrap();
    let stored = StoredOverlay::open(&*account.store, "o").await.unwrap();
    let before = account.text(&format!("{dir}/meta.json")).await;
    stored.tree().write(&format!("{dir}/meta.json"), forged.clone()).await.unwrap();
    let error = stored.apply(Side::Ours, &Batch::default()).await.unwrap_err();
    assert!(error.is(ErrorKind::RuleViolation), "{error}");
    // Also across two stores.
    let scratch: Arc<dyn FileSystem> =
        Arc::new(garth_engine::engine::memory::MemoryFs::new(Env::system(), garth_agent::registry()));
    let whole: Arc<dyn FileSystem> = Arc::<dyn garth_engine::AccountStore>::clone(&account.store);
    let overlay = Overlay::of_layers(whole, scratch).await.unwrap();
    overlay.write(&format!("{dir}/meta.json"), forged).await.unwrap();
    let error = overlay.apply(Side::Ours, &Batch::default()).await.unwrap_err();
    assert!(error.is(ErrorKind::RuleViolation), "{error}");
    assert_eq!(account.text(&format!("{dir}/meta.json")).await, before);
}

fn own(name: &str) -> [SetAttrs; 4] {
    [
        SetAttrs::new().metadata(name, "x"),
        SetAttrs::new().remove_metadata(name),
        SetAttrs::new().xattr(name, "x"),
        SetAttrs::new().remove_xattr(name),
    ]
}

#[tokio::test]
async fn clients_cannot_write_own_attributes() {
    let (account, request, ..) = with_session().await;
    let tree = account.tree(&request).await;
    StoredOverlay::create(&*account.store, "o", &LowerLayer { root: p("/"), as_of: None }, &Batch::default())
        .await
        .unwrap();
    let stored = StoredOverlay::open(&*account.store, "o").await.unwrap().tree();
    for (fs, dir) in
        [(&*tree, "/"), (&*tree, "/.user/"), (&*account.store as &dyn FileSystem, "/"), (&*stored, "/")]
    {
        let at = |name: &str| p(&format!("{dir}{name}"));
        fs.write(&at("f"), "text").await.unwrap();
        for name in ["garth.audience", "garth.session", "garth.media", "garth.of_main", "garth.anything"] {
            for attrs in own(name) {
                for op in [
                    Op::set_attrs(at("f"), attrs.clone()),
                    Op::write(at("f"), "x").with_attrs(attrs.clone()),
                    Op::write(at("new"), "x").with_attrs(attrs.clone()),
                    Op::mkdir(at("dir")).with_attrs(attrs.clone()),
                    Op::symlink(at("link"), "f").with_attrs(attrs),
                ] {
                    let error = fs.commit(op.clone().into()).await.unwrap_err();
                    assert!(error.is(ErrorKind::RuleViolation), "{op:?}: {error}");
                }
            }
        }
        // As a batch in JSON is read.
        let json = serde_json::to_string(
            &Batch::new([Op::set_attrs(at("f"), SetAttrs::new().metadata("garth.x", "1"))]).by_garth(),
        );
        let read: Batch = serde_json::from_str(&json.unwrap()).unwrap();
        assert!(fs.commit(read).await.unwrap_err().is(ErrorKind::RuleViolation));
        assert!(fs.stat(&At::Path(at("f"))).await.unwrap().attributes.metadata.is_empty());
    }
}

#[tokio::test]
async fn copies_and_restores_drop_own_attributes() {
    let (account, request, ..) = with_session().await;
    let tree = account.tree(&request).await;
    let dir = format!("/chats/:{GROUP}");
    tree.write("/f", "one").await.unwrap();
    let mark = SetAttrs::new().metadata("garth.note", "1").xattr("garth.note", "1");
    let noted = Batch::new([Op::set_attrs(p(&format!("{dir}/f")), mark)]).by_garth();
    account.store.commit(noted).await.unwrap();
    let then = account.store.head().await.unwrap().seq;
    let notes = async |name: &str| {
        let entry = account.store.entry(&format!("{dir}/{name}")).await.unwrap();
        entry.attributes.metadata.len() + entry.attributes.xattrs.len()
    };
    tree.commit(Op::copy(p("/f"), p("/copy")).into()).await.unwrap();
    assert_eq!((notes("f").await, notes("copy").await), (2, 0));
    // A copy over another file adds no attribute.
    tree.write("/other", "two").await.unwrap();
    tree.commit(Op::copy(p("/other"), p("/f")).replace().into()).await.unwrap();
    assert_eq!(notes("f").await, 2);
    // A restored file has garth's attributes again, but not those of a view.
    tree.remove("/f").await.unwrap();
    restore(&*tree, &p("/f"), &Moment::Seq(then), Env::system().now(), &Batch::default()).await.unwrap();
    assert_eq!(notes("f").await, 1);
    // An applied overlay adds none elsewhere.
    StoredOverlay::create(
        &*account.store,
        "o",
        &LowerLayer { root: p(&dir), as_of: None },
        &Batch::default(),
    )
    .await
    .unwrap();
    let stored = StoredOverlay::open(&*account.store, "o").await.unwrap();
    stored.tree().append("/f", "more").await.unwrap();
    stored.tree().rename("/f", "/moved").await.unwrap();
    stored.apply(Side::Ours, &Batch::default()).await.unwrap();
    assert_eq!(
        (account.text(&format!("{dir}/moved")).await, notes("moved").await),
        ("onemore".to_owned(), 0)
    );
    // A chat does not make its audience the owner of another either.
    let bobs = account.tree(&scout().user("bob").chat("b")).await;
    for attrs in own("garth.audience") {
        assert!(bobs.commit(Op::set_attrs(p("/"), attrs).into()).await.is_err());
    }
}
