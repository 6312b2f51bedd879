//! `garth outbox`: waiting events are counted, listed, sent, retried and dropped.

use std::net::TcpListener;

use super::garth::{Garth, column, string, utf8};

const COFFEE: &str = "ctx://default/users/ann/memories/preferences/coffee";
const TEA: &str = "ctx://default/users/ann/memories/preferences/tea";

fn with_memories() -> Garth {
    let garth = Garth::new();
    garth.feed(&["memory", "put", COFFEE], "Ann likes her coffee black.\n");
    garth.feed(&["memory", "put", TEA], "Bob drinks green tea.\n");
    garth
}

#[test]
fn events_wait_until_delivered() {
    let garth = with_memories();
    let status = garth.json(&["outbox", "status"]);
    assert_eq!((&status["waiting"], &status["failed"]), (&2.into(), &0.into()));
    assert!(string(&status["oldest"]).ends_with('Z'));
    assert!(garth.ok(&["outbox", "status"]).starts_with("waiting  2, the oldest from "));
    let listed = garth.lines(&["outbox", "list"]);
    assert_eq!(column(&listed, "uri"), [COFFEE, TEA]);
    assert!(listed[0].get("payload").is_none());
    let first = string(&listed[0]["event_id"]);
    garth.ok(&["outbox", "rm", &first]);
    let run = garth.json(&["outbox", "run", "--once"]);
    assert_eq!((&run["finished"], &run["next"]), (&1.into(), &serde_json::Value::Null));
    assert!(garth.lines(&["outbox", "list"]).is_empty());
    for slug in ["coffee", "tea"] {
        let done = format!("/users/ann/memories/preferences/{slug}/.outbox/.done");
        assert_eq!(garth.ok(&["cat", &done]), "1\n");
    }
    assert_eq!(garth.json(&["outbox", "resend", "ctx://default/users/ann"])["memories"], 2);
    assert_eq!(garth.json(&["outbox", "resend", "ctx://default/users/bob"])["memories"], 0);
    assert_eq!(garth.json(&["outbox", "status"])["waiting"], 2);
}

#[test]
fn refused_events_are_retried_on_request() {
    let garth = with_memories();
    let secret = garth.beside("secret");
    std::fs::write(&secret, "0123456789abcdef\n").unwrap();
    // Nothing listens at this address.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}/");
    let run = ["outbox", "run", "--once", "--sink", &url, "--sink-secret-file", utf8(&secret)];
    assert_eq!(garth.json(&run)["put_off"], 2);
    let listed = garth.lines(&["outbox", "list"]);
    assert_eq!(string(&listed[0]["last_error"]), "the sink cannot be reached: connection refused");
    let id = string(&listed[0]["event_id"]);
    assert_eq!(garth.json(&["outbox", "retry", &id])["retried"], "retried");
    assert_eq!(garth.lines(&["outbox", "retry", "--all"]).len(), 0, "none was given up");
    assert_eq!(garth.lines(&["outbox", "list", "--failed"]).len(), 0);
}

#[test]
fn rejects_invalid_outbox_options() {
    let garth = with_memories();
    garth.fails(2, &["outbox", "run", "--once", "--sink", "http://127.0.0.1:1/"]);
    let short = garth.beside("short");
    std::fs::write(&short, "short\n").unwrap();
    let sink = ["--sink", "http://127.0.0.1:1/", "--sink-secret-file", utf8(&short)];
    garth.fails(2, &[&["outbox", "run", "--once"][..], &sink].concat());
    garth.fails(3, &["outbox", "retry", "none"]);
    garth.fails(3, &["outbox", "rm", "none"]);
    garth.fails(5, &["outbox", "resend", "ctx://other/users/ann"]);
    assert_eq!(garth.json(&["outbox", "status"])["waiting"], 2);
}
