//! Completion of requests, and the audiences that bindings lead to.

use serde_json::{Value, json};

use super::*;

fn binding(json: Value) -> Binding {
    serde_json::from_value(json).unwrap()
}

fn request() -> Request {
    Request::default()
}

fn key(text: &str) -> SessionKey {
    text.parse().unwrap()
}

/// Returns the audience that a binding leads to for a request, in an agent of `ann`.
fn audience(bound: Value, asked: Request) -> std::result::Result<String, ErrorKind> {
    let policy = AccessPolicy::parse(br#"{"owner":"ann","identities":{"slack:dm:U7":"bob"}}"#).unwrap();
    let bound = binding(bound);
    let judged = completed(&bound, asked).and_then(|request| {
        let who = Identity::judge(&policy, Caller::ApiKey, &request)?;
        check_audience(&bound, &policy, &request, &who)?;
        Ok(who.audience().to_owned())
    });
    judged.map_err(|error| error.kind())
}

#[test]
fn completes_missing_names() {
    let bound = binding(json!({
        "agent": "scout", "user": "bob", "key": "agent:scout:slack:dm:U7", "chat": "trip", "class": "dm",
        "session": "today",
    }));
    let completed = completed(&bound, request()).unwrap();
    let whole = Request::new("scout").user("bob").key(key("agent:scout:slack:dm:U7"));
    assert_eq!(completed, whole.chat("trip").class(Class::Dm).session("today"));
}

#[test]
fn free_binding_changes_no_request() {
    let asked = Request::new("scout").user("bob").class(Class::Main);
    assert_eq!(completed(&Binding::default(), asked.clone()).unwrap(), asked);
    assert_eq!(completed(&Binding::default(), request()).unwrap(), request());
}

#[test]
fn rejects_other_names_than_the_bound_ones() {
    for (bound, asked) in [
        (json!({"agent": "scout"}), Request::new("other")),
        (json!({"user": "bob"}), request().user("ann")),
        (json!({"chat": "trip"}), request().chat("trip2")),
        (json!({"session": "today"}), request().session("Today")),
        (json!({"key": "agent:scout:main"}), request().key(key("agent:scout:slack:channel:C1"))),
        (json!({"key": "agent:scout:main"}), request().key(key("agent:other:main"))),
        (json!({"key": "agent:scout:main"}), Request::new("other")),
    ] {
        let error = completed(&binding(bound.clone()), asked).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessDenied, "{bound}: {error}");
    }
}

#[test]
fn session_key_fixes_agent_and_admits_its_threads() {
    let bound = binding(json!({"key": "agent:scout:slack:channel:C1"}));
    let thread = key("agent:scout:slack:channel:C1:thread:7");
    let request = completed(&bound, request().key(thread.clone())).unwrap();
    assert_eq!((&*request.agent, request.key), ("scout", Some(thread)));
}

#[test]
fn class_is_a_floor() {
    for (bound, asked, class) in [
        ("dm", None, Class::Dm),
        ("dm", Some(Class::Main), Class::Dm),
        ("dm", Some(Class::Group), Class::Group),
        ("main", Some(Class::Dm), Class::Dm),
    ] {
        let asked = Request { class: asked, ..request() };
        assert_eq!(completed(&binding(json!({"class": bound})), asked).unwrap().class, Some(class));
    }
}

#[test]
fn bound_user_is_the_audience() {
    let bob = || json!({"agent": "scout", "user": "bob"});
    let channel = || key("agent:scout:slack:channel:C1");
    assert_eq!(audience(bob(), request()), Ok("bob".to_owned()));
    assert_eq!(audience(bob(), request().key(key("agent:scout:slack:dm:U7"))), Ok("bob".to_owned()));
    // A channel, a group and a key of somebody else have other audiences.
    for asked in [
        request().key(channel()),
        request().key(key("agent:scout:main")),
        request().class(Class::Group).chat("trip"),
        request().class(Class::Group).session("today"),
    ] {
        assert_eq!(audience(bob(), asked.clone()), Err(ErrorKind::AccessDenied), "{asked:?}");
    }
}

#[test]
fn bound_group_has_the_audience_of_its_own_chat() {
    let group = |more: Value| merged(json!({"agent": "scout", "user": "bob", "class": "group"}), more);
    assert_eq!(audience(group(json!({"chat": "trip"})), request()), Ok(":chat:trip".to_owned()));
    assert_eq!(audience(group(json!({"session": "s"})), request()), Ok(":session:s".to_owned()));
    // Whatever is left free must not lead to another group.
    let channel = key("agent:scout:slack:channel:C1");
    for (more, asked) in [
        (json!({"chat": "trip"}), request().key(channel.clone())),
        (json!({"session": "s"}), request().chat("other")),
        (json!({"session": "s"}), request().key(channel)),
        (json!({}), request().chat("other")),
        (json!({}), request().session("other")),
    ] {
        assert_eq!(audience(group(more.clone()), asked), Err(ErrorKind::AccessDenied), "{more}");
    }
}

#[test]
fn bound_session_key_has_its_own_audience() {
    let place = |key: &str| json!({"key": key});
    let channel = || place("agent:scout:slack:channel:C1");
    assert_eq!(audience(channel(), request()), Ok(":slack:channel:C1".to_owned()));
    assert_eq!(audience(channel(), request().user("ann")), Ok(":slack:channel:C1".to_owned()));
    // Settings do not map this peer, so naming a user would choose the audience.
    let peer = || place("agent:scout:slack:dm:U9");
    assert_eq!(audience(peer(), request()), Ok(":slack:dm:U9".to_owned()));
    assert_eq!(audience(peer(), request().user("ann")), Err(ErrorKind::AccessDenied));
    let both = json!({"key": "agent:scout:slack:dm:U9", "user": "bob"});
    assert_eq!(audience(both, request()), Ok("bob".to_owned()));
}

#[test]
fn check_rejects_bindings_that_no_request_could_have() {
    for good in [
        json!({}),
        json!({"agent": "scout"}),
        json!({"agent": "scout", "prefix": "/notes", "read_only": true}),
        json!({"key": "agent:scout:slack:channel:C1", "class": "group"}),
    ] {
        check(&binding(good.clone())).unwrap_or_else(|error| panic!("{good}: {error}"));
    }
    for bad in [
        json!({"prefix": "/notes"}),
        json!({"read_only": true}),
        json!({"agent": ""}),
        json!({"agent": "a/b"}),
        json!({"user": ":slack:channel:C1"}),
        json!({"user": "default"}),
        json!({"chat": ":ann"}),
        json!({"session": "../x"}),
        json!({"agent": "scout", "class": "channel"}),
        json!({"key": "main"}),
        json!({"agent": "other", "key": "agent:scout:main"}),
        json!({"agent": "scout", "prefix": "/"}),
    ] {
        let error = check(&binding(bad.clone())).expect_err(&bad.to_string());
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bad}: {error}");
    }
}

/// Returns an object with the fields of both.
fn merged(mut one: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("an object") };
    one.as_object_mut().unwrap().extend(more);
    one
}
