//! Class and audience of requests, by a table.

use super::*;

fn policy(text: &str) -> AccessPolicy {
    AccessPolicy::parse(text.as_bytes()).unwrap()
}

/// Judges a request for the agent `a`, written `user=U key=K class=C chat=H session=S`.
fn judged(policy: &AccessPolicy, caller: Caller, asked: &str) -> String {
    let mut request = Request::new("a");
    for (name, value) in asked.split_whitespace().filter_map(|part| part.split_once('=')) {
        request = match name {
            "user" => request.user(value),
            "key" => request.key(format!("agent:{value}").parse().unwrap()),
            "class" => request.class(Class::named(value)),
            "chat" => request.chat(value),
            "session" => request.session(value),
            _ => panic!("{name}"),
        };
    }
    match Identity::judge(policy, caller, &request) {
        Ok(who) => format!("{} {} {}", who.class(), who.audience(), who.chat()),
        Err(error) => error.kind().to_string(),
    }
}

#[test]
fn class_and_audience_follow_from_key_and_caller() {
    let nobody = policy("{}");
    let ann = policy(
        r#"{"owner":"ann","main_keys":["main","cron"],"identities":{"signal:dm:+1":"ann","dm:b":"bob","whatsapp:dm:%41":"bob"}}"#,
    );
    let every = policy(r#"{"owner":"*"}"#);
    let (holder, key) = (Caller::Holder, Caller::ApiKey);
    for (policy, caller, asked, due) in [
        // Without a key, requests that name no user are the owner's.
        (&nobody, holder, "", "main default default"),
        (&nobody, key, "", "main default default"),
        (&nobody, key, "user=ann", "dm ann ann"),
        (&nobody, holder, "user=ann", "dm ann ann"),
        (&nobody, key, "user=ann chat=trip", "dm ann trip"),
        (&nobody, key, "user=default", "invalid_argument"),
        (&nobody, holder, "user=default", "main default default"),
        (&ann, key, "user=ann", "main ann ann"),
        (&ann, key, "user=bob", "dm bob bob"),
        (&ann, key, "", "dm default default"),
        (&ann, holder, "", "main ann ann"),
        (&every, key, "user=bob", "main bob bob"),
        (&every, key, "", "main default default"),
        // A request adds listeners to a class; only the holder removes some.
        (&ann, key, "user=bob class=main", "dm bob bob"),
        (&ann, holder, "user=bob class=main", "main bob bob"),
        (&ann, holder, "key=a:slack:channel:c class=dm", "group :slack:channel:c :slack:channel:c"),
        (&ann, key, "user=ann class=dm", "dm ann ann"),
        (&ann, key, "user=ann class=group", "invalid_argument"),
        (&ann, key, "user=ann class=group chat=trip", "group :chat:trip trip"),
        (&ann, key, "user=ann class=party session=s", "group :session:s :session:s"),
        (&ann, key, "key=a:main class=group", "group :main :main"),
        // No chat or session gets the audience of a channel of that name.
        (&ann, key, "key=a:chat:dm:x", "dm :chat:dm:x :chat:dm:x"),
        (&ann, key, "user=ann class=group chat=dm:x", "group :chat:dm%3ax dm:x"),
        (&ann, key, "user=ann class=group chat=dm%3ax", "group :chat:dm%253ax dm%3ax"),
        (&ann, key, "key=a:session:channel:c", "group :session:channel:c :session:channel:c"),
        (
            &ann,
            key,
            "user=ann class=group session=channel:c",
            "group :session:channel%3ac :session:channel%3ac",
        ),
        // Named keys.
        (&ann, key, "key=a:main", "main ann ann"),
        (&ann, key, "key=a:cron", "main ann ann"),
        (&ann, key, "key=a:other", "group :other :other"),
        (&ann, key, "key=a:main user=bob", "access_denied"),
        (&ann, key, "key=a:main user=ann", "main ann ann"),
        (&every, key, "key=a:main user=bob", "main bob bob"),
        (&every, key, "key=a:main", "main default default"),
        (&nobody, key, "key=a:main", "main default default"),
        (&nobody, key, "key=b:main", "invalid_argument"),
        // One peer.
        (&ann, key, "key=a:dm:x", "dm :dm:x :dm:x"),
        (&ann, key, "key=a:dm:x user=cat", "dm cat cat"),
        (&ann, key, "key=a:dm:x user=ann", "main ann ann"),
        (&ann, key, "key=a:dm:b", "dm bob bob"),
        (&ann, key, "key=a:dm:b:thread:7", "dm bob bob"),
        (&ann, key, "key=a:dm:b user=cat", "access_denied"),
        (&ann, key, "key=a:signal:dm:+1", "main ann ann"),
        (&ann, key, "key=a:signal:dm:+1 user=bob", "access_denied"),
        (&ann, key, "key=a:whatsapp:dm:A", "dm bob bob"),
        (&ann, key, "key=a:whatsapp:work:dm:+1", "dm :whatsapp:work:dm:+1 :whatsapp:work:dm:+1"),
        (&every, key, "key=a:dm:x", "dm :dm:x :dm:x"),
        (&every, key, "key=a:dm:x user=cat", "main cat cat"),
        // Several people: any speaker, in any thread.
        (&ann, key, "key=a:slack:channel:c user=ann", "group :slack:channel:c :slack:channel:c"),
        (&ann, key, "key=a:slack:channel:c:thread:1 chat=t", "group :slack:channel:c t"),
        (&every, key, "key=a:slack:channel:c user=bob", "group :slack:channel:c :slack:channel:c"),
        // Names that a request must not contain.
        (&ann, key, "user=:slack:channel:c", "invalid_argument"),
        (&ann, key, "user=ann chat=:slack:channel:c", "invalid_argument"),
        (&ann, holder, "user=:slack:channel:c", "invalid_argument"),
    ] {
        assert_eq!(judged(policy, caller, asked), due, "{asked} for {policy:?} {caller:?}");
    }
}

#[test]
fn requests_only_add_listeners() {
    let policies = [r"{}", r#"{"owner":"*"}"#, r#"{"owner":"ann"}"#].map(policy);
    let keys = ["", "key=a:main", "key=a:x", "key=a:dm:ann", "key=a:s:dm:ann", "key=a:s:channel:c"];
    for policy in &policies {
        for key in keys {
            for user in ["", "user=ann", "user=bob"] {
                let class = |asked: &str| {
                    let asked = format!("{key} {user} chat=t {asked}");
                    judged(policy, Caller::ApiKey, &asked).split(' ').next().map(Class::named)
                };
                let natural = class("");
                for asked in ["main", "dm", "group", "x"] {
                    assert!(class(&format!("class={asked}")) >= natural, "{key} {user} {asked}");
                }
            }
        }
    }
}

#[test]
fn rejects_invalid_policies() {
    for bad in [
        r#"{"owner":":x"}"#,
        r#"{"owner":""}"#,
        r#"{"identities":{"dm:x":":y"}}"#,
        r#"{"identities":{"dm:x:y:z:u":"y"}}"#,
        r#"{"identities":{"dm:x:thread:1":"y"}}"#,
        r#"{"shared":{"../x":"read"}}"#,
        r#"{"shared":{"/kv":"read"}}"#,
        r#"{"shared":{"kv":"all"}}"#,
        "[]",
    ] {
        assert!(AccessPolicy::parse(bad.as_bytes()).is_err(), "{bad}");
    }
}
