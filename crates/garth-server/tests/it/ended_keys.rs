//! Requests whose head is admitted, and whose key ends before their body arrives.

use std::time::Duration;

use futures::executor::block_on;
use garth_engine::home::{KeysPage, NewKey, Scope};
use serde_json::{Value, json};

use super::harness::{Connection, Reply, Server};

/// Time after which a key is looked up again, and some more.
const LATER: Duration = Duration::from_millis(200);

/// Admitted request that lacks the last byte of its body.
struct Begun {
    name: String,
    connection: Connection,
    last: u8,
}

impl Begun {
    fn new(server: &Server, key: &str, (method, target): (&str, &str), body: &[u8]) -> Self {
        let mut connection = Connection::open(server.address);
        let media_type = if body.starts_with(b"{") { "application/json" } else { "image/png" };
        let head = format!(
            "{method} /v1/{target} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
             content-type: {media_type}\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        connection.send(head.as_bytes());
        // The server asks for the body when it has admitted the request.
        assert_eq!(connection.reply().status, 100, "{target}");
        let (last, rest) = body.split_last().unwrap();
        connection.send(rest);
        Self { name: format!("{method} {target}"), connection, last: *last }
    }

    fn post(server: &Server, key: &str, call: &str, body: &Value) -> Self {
        Self::new(server, key, ("POST", call), body.to_string().as_bytes())
    }

    /// Completes the body.
    fn end(mut self) -> (String, Reply) {
        self.connection.send(&[self.last]);
        let reply = self.connection.reply();
        (self.name, reply)
    }
}

fn key_of_home(server: &Server) -> (String, String) {
    let (key, secret) =
        block_on(server.home.control().issue_key(NewKey::new(None, &[Scope::Admin]))).unwrap();
    (key.id, secret.reveal().to_owned())
}

#[test]
fn revoked_key_ends_requests_under_way() {
    let server = Server::start();
    server.own("scout", "ann");
    let session = r#"{"agent":"scout","user":"ann","name":"work","key":"agent:scout:main"}"#;
    server.ok("sessions/create", session);
    let control = server.home.control();
    let (key, secret) = block_on(control.create_key("acme", "", &[Scope::Admin])).unwrap();
    let secret = secret.reveal();
    let upload = |method: &str, target: &str, length: usize| {
        Begun::new(&server, secret, (method, target), &vec![7; length])
    };
    let begun = [
        Begun::post(&server, secret, "admin/keys/create", &json!({"scopes": ["admin"]})),
        Begun::post(&server, secret, "admin/keys/list", &json!({})),
        Begun::post(&server, secret, "put", &json!({"path": "/a", "value": 1})),
        Begun::post(&server, secret, "get", &json!({"path": "/a"})),
        Begun::post(&server, secret, "batch", &json!({"ops": [{"op": "mkdir", "path": "/d"}]})),
        Begun::post(&server, secret, "tree/list", &json!({})),
        upload("PUT", "fs/short.bin", 100),
        upload("PUT", "fs/long.bin", 1 << 20),
        upload("PATCH", "fs/log.bin", 100),
        upload("POST", "uploads", 100),
        upload("POST", "agents/scout/media?session_key=agent:scout:main&user=ann", 100),
    ];
    let tree = block_on(server.home.account("acme")).unwrap();
    let before = block_on(tree.head()).unwrap().seq;
    block_on(control.revoke_key(Some("acme"), &key.id)).unwrap();
    server.home.env().sleep(LATER);
    for (name, reply) in begun.map(Begun::end) {
        assert_eq!(reply.status, 401, "{name}: {}", reply.text());
        reply.refused(401, "UNAUTHORIZED");
    }
    assert_eq!(block_on(tree.head()).unwrap().seq, before, "nothing was committed");
    let keys = block_on(control.keys(Some("acme"), &KeysPage::with_revoked())).unwrap();
    assert_eq!(keys.items.len(), 2, "no key was created");
}

#[test]
fn late_body_of_valid_key_is_accepted() {
    let server = Server::start();
    let begun = [
        Begun::post(&server, &server.key, "put", &json!({"path": "/a", "value": 1})),
        Begun::post(&server, &server.key, "admin/keys/create", &json!({})),
        Begun::new(&server, &server.key, ("PUT", "fs/a.bin"), &vec![7; 1 << 20]),
    ];
    server.home.env().sleep(LATER);
    for (name, reply) in begun.map(Begun::end) {
        assert!([200, 201].contains(&reply.status), "{name}: {}", reply.text());
    }
}

#[test]
fn key_of_a_deleted_account_reaches_no_namesake() {
    let server = Server::start();
    let (_, operator) = key_of_home(&server);
    let recreate = || {
        block_on(server.home.delete_account("acme")).unwrap();
        block_on(server.home.create_account("acme")).unwrap();
        block_on(server.home.control().create_key("acme", "theirs", &[Scope::MemoryRead])).unwrap().0
    };
    for wait in [Duration::ZERO, LATER] {
        let own = server.key("acme", &[Scope::Admin]);
        let post = |call: &str, body: Value| Begun::post(&server, &own, call, &body);
        let mut begun = vec![
            post("admin/keys/create", json!({"scopes": ["admin"]})),
            post("admin/keys/list", json!({})),
            post("admin/accounts/list", json!({})),
            post("put", json!({"path": "/a", "value": 1})),
        ];
        for call in ["admin/keys/rotate", "admin/keys/revoke"] {
            begun.push(post(call, json!({"id": "0123456789abcdef"})));
        }
        if wait == LATER {
            // Opened before the deletion, and so still open within the first moments after it.
            begun.push(Begun::new(&server, &own, ("PUT", "fs/a.bin"), b"text"));
        }
        let theirs = recreate();
        let tree = block_on(server.home.account("acme")).unwrap();
        let before = block_on(tree.head()).unwrap().seq;
        server.home.env().sleep(wait);
        for (name, reply) in begun.into_iter().map(Begun::end) {
            assert!([401, 404].contains(&reply.status), "{name}: {}", reply.text());
        }
        let list = server.post_as(&operator, "admin/keys/list", r#"{"account":"acme","revoked":true}"#);
        let ids: Vec<_> =
            list.json()["items"].as_array().unwrap().iter().map(|key| key["id"].clone()).collect();
        assert_eq!(ids, [json!(theirs.id)]);
        assert_eq!(block_on(tree.head()).unwrap().seq, before, "nothing was written");
    }
}

#[test]
fn revoked_operator_creates_and_deletes_no_account() {
    let server = Server::start();
    let (id, operator) = key_of_home(&server);
    let begun = [
        Begun::post(
            &server,
            &operator,
            "admin/accounts/delete",
            &json!({"account": "acme", "confirm": "acme"}),
        ),
        Begun::post(&server, &operator, "admin/accounts/create", &json!({"account": "beta"})),
        Begun::post(&server, &operator, "admin/accounts/list", &json!({})),
    ];
    block_on(server.home.control().revoke_key(None, &id)).unwrap();
    server.home.env().sleep(LATER);
    for (_, reply) in begun.map(Begun::end) {
        reply.refused(401, "UNAUTHORIZED");
    }
    let accounts = block_on(server.home.control().accounts()).unwrap();
    assert_eq!(accounts.iter().map(|account| &*account.id).collect::<Vec<_>>(), ["acme"]);
}
