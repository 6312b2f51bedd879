//! Settings of an agent, and ids: invalid ones are rejected, sessions cannot write settings, and changes of
//! them end sessions.

use garth_agent::session::{Create, SessionKey, Sessions, State};
use garth_agent::workspace::Workspace;
use garth_agent::{AccessPolicy, Caller, Identity, Request, Skill};
use garth_engine::model::{Batch, Op};
use garth_engine::{ErrorKind, FileSystemExt};

use super::access::{Account, by_key, changes, p, scout};

#[tokio::test]
async fn unreadable_settings_deny_access() {
    let account = Account::new("{}").await;
    for bad in ["{", r#"{"owner":7}"#, r#"{"owner":":x"}"#, r#"{"shared":{"../x":"read"}}"#] {
        let write = Op::write(p("/agents/scout/settings.json"), bad);
        account.store.overriding_rules().commit(write.into()).await.unwrap();
        let error = account.tried(Caller::ApiKey, &scout()).await.unwrap_err();
        assert!(
            error.is(ErrorKind::Corrupt) && error.to_string().contains("/agents/scout/settings.json"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn rejects_settings_that_would_stop_an_agent() {
    let account = Account::new("{}").await;
    let long = format!(r#"{{"owner":"{}"}}"#, "é".repeat(200));
    for bad in [
        r#"{"owner":":x"}"#,
        r#"{"owner":"a/b"}"#,
        &long,
        r#"{"identities":{"agent:scout:dm:x":"ann"}}"#,
        r#"{"identities":{"dm:x:thread:1":"ann"}}"#,
        r#"{"identities":{"dm:x":":y"}}"#,
        r#"{"identities":{"":"ann"}}"#,
        r#"{"shared":{"../x":"read"}}"#,
        r#"{"shared":{"":"read"}}"#,
    ] {
        let write = Op::write(p("/agents/scout/settings.json"), bad.to_owned());
        let error = account.store.commit(write.into()).await.unwrap_err();
        assert!(error.is(ErrorKind::RuleViolation), "{bad}: {error}");
        account.tried(Caller::ApiKey, &scout()).await.unwrap();
    }
}

#[tokio::test]
async fn every_interface_rejects_mistyped_settings() {
    let account = Account::new("{}").await;
    let file = p("/agents/scout/settings.json");
    let ways = |text: &'static str| {
        let other = p("/agents/scout/other.json");
        [
            vec![Op::write(file.clone(), text)],
            vec![Op::write(other.clone(), text), Op::rename(other.clone(), file.clone())],
            vec![Op::write(other.clone(), text), Op::copy(other.clone(), file.clone()).replace()],
            vec![Op::write(p("/agents/new/settings.json"), text).with_parents()],
            vec![
                Op::write(other.clone(), text),
                Op::link(other, p("/agents/new/settings.json")).with_parents(),
            ],
        ]
    };
    for (bad, said) in [
        (r#"{"timezone":"UTC"}"#, "did you mean `time_zone`?"),
        (r#"{"skills":{"pdf":{"enable":false}}}"#, "did you mean `enabled`?"),
        (r#"{"reset":{"policy":"dayly"}}"#, "did you mean `daily`?"),
        (r#"{"time_zone":"Europe/Berlín"}"#, "unknown time zone"),
        (r#"{"reset":{"hour":24}}"#, "reset.hour is 0 to 23"),
        (r#"{"owner":"a","owner":"b"}"#, "duplicate field"),
        ("[]", "not a JSON object"),
    ] {
        for ops in ways(bad) {
            let error = account.store.commit(Batch::new(ops.clone())).await.unwrap_err();
            assert!(error.is(ErrorKind::RuleViolation), "{ops:?}: {error}");
            assert!(error.message().contains(said), "{ops:?}: {error}");
        }
        assert_eq!(account.text("/agents/scout/settings.json").await, "{}");
    }
}

#[tokio::test]
async fn invalid_settings_can_be_repaired() {
    let account = Account::new("{}").await;
    let file = p("/agents/scout/settings.json");
    for mend in [
        Op::write(file.clone(), r#"{"time_zone":"UTC"}"#),
        Op::remove(file.clone()),
        Op::rename(file.clone(), p("/agents/scout/broken.json")),
    ] {
        let bad = Op::write(file.clone(), r#"{"timezone":"UTC"}"#);
        account.store.overriding_rules().commit(bad.into()).await.unwrap();
        let workspace = Workspace::new(&*account.store, "scout").unwrap();
        let error = workspace.settings().await.unwrap_err();
        assert!(
            error.is(ErrorKind::Corrupt) && error.message().contains("did you mean `time_zone`?"),
            "{error}"
        );
        // Other work continues.
        account.put("/agents/scout/SOUL.md", "kind").await;
        account.store.commit(mend.into()).await.unwrap();
        workspace.settings().await.unwrap();
    }
}

#[tokio::test]
async fn session_ends_when_settings_reassign_its_key() {
    let account = Account::new("{}").await;
    let key: SessionKey = "agent:scout:dm:x".parse().unwrap();
    let state = async |request: &Request, name: &str| {
        account.access(request).await.sessions().get(name).await.unwrap().state
    };
    let create = Create::new("plain");
    account.access(&by_key("dm:x")).await.sessions().by_key(&key, &create).await.unwrap();
    let mary = by_key("dm:x").user("mary");
    account.access(&mary).await.make().await.unwrap();
    account.access(&mary).await.sessions().by_key(&key, &Create::new("hers")).await.unwrap();
    account.access(&by_key("dm:x")).await.make().await.unwrap();
    for (request, name) in [(&by_key("dm:x"), "plain"), (&mary, "hers")] {
        assert_ne!(state(request, name).await, State::Done, "{name}");
    }
    account.settings(r#"{"identities":{"dm:x":"mary"}}"#).await;
    account.access(&mary).await.make().await.unwrap();
    assert_ne!(state(&mary, "hers").await, State::Done);
    let raw = account.store.raw();
    let plain = Sessions::new(&*raw, ":dm:x", "scout").unwrap();
    assert_eq!(plain.get("plain").await.unwrap().state, State::Done);
}

#[tokio::test]
async fn sessions_cannot_write_agent_settings() {
    let account = Account::new("{}").await;
    let tree = account.tree(&by_key("main")).await;
    tree.write("/other", r#"{"owner":"*"}"#).await.unwrap();
    for op in changes("/.agent/settings.json") {
        assert!(tree.commit(op.clone().into()).await.is_err(), "{op:?}");
    }
    assert_eq!(account.text("/agents/scout/settings.json").await, "{}");
    // The holder of the data folder can write them.
    let workspace = Workspace::new(&*account.store, "scout").unwrap();
    assert_eq!(workspace.settings().await.unwrap().owner, None);
    account.settings(r#"{"owner":"ann"}"#).await;
    assert_eq!(workspace.settings().await.unwrap().owner.as_deref(), Some("ann"));
}

#[test]
fn identity_rejects_invalid_ids() {
    let judged = |request: Request| Identity::judge(&AccessPolicy::default(), Caller::Holder, &request);
    for bad in ["", ".", "..", "a/b", "a\nb", &"x".repeat(129), ":a"] {
        let own = Request::new("scout");
        assert!(judged(own.clone().user(bad)).is_err() && judged(own.clone().chat(bad)).is_err(), "{bad}");
        assert!(judged(own.session(bad)).is_err(), "{bad}");
        assert!(bad == ":a" || (judged(Request::new(bad)).is_err() && Skill::overriding(bad).is_err()));
    }
}
