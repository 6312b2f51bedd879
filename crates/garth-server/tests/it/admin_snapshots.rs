//! Calls of administrators on snapshots: those of the account, and those of agents and keys.

use futures::executor::block_on;
use garth_engine::model::Moment;
use garth_engine::rule::retention::Retention;
use serde_json::json;

use super::admin_calls::{account, call, post, write};
use super::harness::Server;

#[test]
fn snapshots_are_created_listed_and_removed() {
    let server = Server::start();
    write(&server, "/a", "one").unwrap();
    let made = call(&server, "snapshots/create", &json!({"name": "before", "message": "why"}));
    let tree = account(&server);
    let past = block_on(tree.as_of(&Moment::Snapshot("before".to_owned()))).unwrap();
    assert_eq!(made["seq"], block_on(past.head()).unwrap().seq.0);
    let items = json!([{"name": "before", "owner": null, "seq": made["seq"], "time": made["time"]}]);
    assert_eq!(call(&server, "snapshots/list", &json!({})), json!({"items": items}));
    post(&server, "snapshots/create", &json!({"name": "before"})).refused(409, "PATH_CONFLICT");
    post(&server, "snapshots/create", &json!({"name": "42"})).refused(400, "VALIDATION_ERROR");
    assert_eq!(call(&server, "snapshots/remove", &json!({"name": "before"}))["name"], "before");
    post(&server, "snapshots/remove", &json!({"name": "before"})).refused(404, "NOT_FOUND");
    assert_eq!(call(&server, "snapshots/list", &json!({})), json!({"items": []}));
}

#[test]
fn snapshots_of_keys_are_listed_and_removed() {
    let server = Server::start();
    server.own("scout", "ann");
    write(&server, "/a", "one").unwrap();
    let key = server.bound_key(&json!({"agent": "scout", "user": "bob"}));
    let body = json!({"ops": [{"snapshot": {"name": "mine"}}]}).to_string();
    for key in [&key, &server.key] {
        let made = server.post_as(key, "tree/commit", body.clone());
        assert_eq!(made.status, 200, "{}", made.text());
        write(&server, "/a", "two").unwrap();
    }
    call(&server, "snapshots/create", &json!({"name": "mine"}));
    let first = call(&server, "snapshots/list", &json!({"limit": 1}));
    assert_eq!((&first["items"][0]["name"], &first["items"][0]["owner"]), (&json!("mine"), &json!(null)));
    let next = call(&server, "snapshots/list", &json!({"limit": 1, "cursor": first["next_cursor"]}));
    let rest = call(&server, "snapshots/list", &json!({"limit": 1, "cursor": next["next_cursor"]}));
    let owners = [&next, &rest].map(|page| page["items"][0]["owner"].as_str().unwrap().to_owned());
    assert!(owners[0].contains("bob") && owners[1] == "files", "{owners:?}");
    // The key sees neither the others nor an owner.
    let seen = server.post_as(&key, "tree/snapshots", "{}").json();
    assert_eq!((seen["items"].as_array().unwrap().len(), seen["items"][0].get("owner")), (1, None), "{seen}");
    block_on(account(&server).set_retention(Retention { commits: Some(0), ..Retention::default() })).unwrap();
    let held = || call(&server, "retention/get", &json!({}))["held_by"].clone();
    assert_eq!(held(), json!({"kind": "snapshot", "name": "mine", "owner": owners[0]}));
    for owner in &owners {
        call(&server, "snapshots/remove", &json!({"name": "mine", "owner": owner}));
        post(&server, "snapshots/remove", &json!({"name": "mine", "owner": owner})).refused(404, "NOT_FOUND");
    }
    assert_eq!(held()["owner"], json!(null));
    post(&server, "snapshots/remove", &json!({"name": "mine", "owner": "a>b"}))
        .refused(400, "VALIDATION_ERROR");
    let seen = server.post_as(&key, "tree/snapshots", "{}").json();
    assert_eq!(seen["items"], json!([]));
}
