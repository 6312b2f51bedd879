//! Transfers of bytes compute nothing where requests are handled, and large or slow ones of an account delay
//! no other account.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::compute::IN_PLACE;
use garth_engine::datadir::Scope;
use garth_server::reference::{self, BodyReference};
use garth_server::{Limits, Options};
use serde_json::{Value, json};

use super::{LONG, made, server, taken, words};
use crate::it::harness::{Connection, Reply, Server, request};

const MIB: usize = 1 << 20;
const HOUR: Duration = Duration::from_secs(3600);
/// Route of the bytes of a file.
const FILE: &str = "/v1/fs/{*path}";

/// Method, route, target and body. `MEDIA` in a target stands for the key of a media file that was stored
/// before.
type Transfer = (&'static str, &'static str, &'static str, String);

/// Returns a long transfer on each route of bytes, in an order in which each finds what it needs: in the
/// account, and in the tree of an agent.
fn transfers() -> Vec<Transfer> {
    vec![
        ("PUT", FILE, "/v1/fs/t/long", words(LONG)),
        ("PATCH", FILE, "/v1/fs/t/long", words(LONG)),
        ("PATCH", FILE, "/v1/fs/t/long?offset=7", words(LONG)),
        ("GET", FILE, "/v1/fs/t/long", String::new()),
        ("PUT", FILE, "/v1/fs/t/short", words(100_000)),
        ("GET", FILE, "/v1/fs/t/short", String::new()),
        ("PUT", FILE, "/v1/fs/long.md?agent=coder&user=ann", words(LONG)),
        ("PATCH", FILE, "/v1/fs/long.md?agent=coder&user=ann", words(LONG)),
        ("GET", FILE, "/v1/fs/long.md?agent=coder&user=ann", String::new()),
        ("POST", "/v1/uploads", "/v1/uploads?path=/t/parts", words(LONG)),
        ("POST", "/v1/uploads", "/v1/uploads?agent=coder&user=ann", words(LONG)),
        (
            "POST",
            "/v1/agents/{agent}/media",
            "/v1/agents/coder/media?user=ann&session_key=agent:coder:main&name=a.txt",
            words(LONG),
        ),
        (
            "GET",
            "/v1/agents/{agent}/media/{session_key}/{file}",
            "/v1/agents/coder/MEDIA?user=ann",
            String::new(),
        ),
        ("DELETE", FILE, "/v1/fs/t?recursive=true", String::new()),
    ]
}

fn headers(key: &str) -> String {
    format!("authorization: Bearer {key}\r\n")
}

fn send(server: &Server, key: &str, (method, _, target, body): &Transfer, media: &str) -> Reply {
    let headers = format!("{}content-type: text/plain\r\n", headers(key));
    server.request(method, &target.replace("MEDIA", media), &headers, body.as_bytes())
}

/// Returns a batch that writes a file from uploads.
fn batch_of(parts: &[Value]) -> String {
    let op = |(n, part): (usize, &Value)| {
        let op = if n == 0 { "write" } else { "append" };
        json!({"op": op, "path": "/parts", "staged": part})
    };
    json!({"ops": parts.iter().enumerate().map(op).collect::<Vec<_>>()}).to_string()
}

#[test]
fn transfers_compute_off_workers_without_stalling_others() {
    let (server, quiet) = server();
    let env = server.home.env().clone();
    let covered: BTreeSet<_> = transfers().iter().map(|transfer| (transfer.0, transfer.1)).collect();
    let of_bytes = reference::calls().into_iter().filter(|call| call.body != BodyReference::Json);
    // A stream has no end; its tests count its pages.
    let of_bytes = of_bytes.filter(|call| call.path != "/v1/tree/changes/stream");
    let of_bytes = of_bytes.filter(|call| !call.scopes.is_empty()).map(|call| (call.method, call.path));
    let missing: Vec<_> = of_bytes.filter(|route| !covered.contains(route)).collect();
    assert!(missing.is_empty(), "name a long transfer of {missing:?}");

    let (mut media, mut parts) = (String::new(), Vec::new());
    for transfer in transfers() {
        let before = env.computed();
        let reply = send(&server, &server.key, &transfer, &media);
        let name = format!("{} {}", transfer.0, transfer.2);
        // A function that computes on a worker thread panics, which is a 500.
        assert!(reply.status < 300, "{name}: {}", reply.text());
        let [_, _, steps_in_place] = made(before, env.computed());
        assert!(steps_in_place <= IN_PLACE as u64, "{name}: {steps_in_place} steps in place");
        match transfer.2 {
            "/v1/uploads?path=/t/parts" => parts.push(reply.json()["staged"].clone()),
            target if target.contains("/media?") => {
                media = reply.json()["media"]["key"].as_str().unwrap().to_owned();
            }
            _ => {}
        }
    }
    let before = env.computed();
    server.ok("batch", batch_of(&parts));
    let [pieces, _, steps_in_place] = made(before, env.computed());
    assert!(pieces >= 1 && steps_in_place <= IN_PLACE as u64, "{steps_in_place} steps in place");

    // Transfers wait for no thread that computes, whoever uses them.
    let (gates, held) = taken(&env);
    for (key, least_error) in [(&server.key, 300), (&quiet, 500)] {
        for transfer in transfers() {
            let reply = send(&server, key, &transfer, &media);
            assert!(reply.status < least_error, "{} {}: {}", transfer.0, transfer.2, reply.text());
        }
    }
    drop(gates);
    assert!(block_on(held).iter().all(Result::is_ok));
}

#[test]
fn bodies_of_recorded_writes_are_hashed_off_workers() {
    let (server, _) = server();
    let env = server.home.env().clone();
    let with_body = transfers().into_iter().filter(|transfer| !transfer.3.is_empty());
    for (n, (method, _, target, body)) in with_body.enumerate() {
        let before = env.computed();
        let more = format!("content-type: text/plain\r\nidempotency-key: k{n}\r\n");
        let headers = format!("{}{more}", headers(&server.key));
        let reply = server.request(method, target, &headers, body.as_bytes());
        assert!(reply.status < 300, "{method} {target}: {}", reply.text());
        let [_, steps, steps_in_place] = made(before, env.computed());
        assert!(steps >= body.len() as u64, "{method} {target}: {steps} steps on threads that compute");
        assert!(steps_in_place <= IN_PLACE as u64, "{method} {target}: {steps_in_place} steps in place");
    }
}

/// Transfer that has begun: the rest of its body is still to be sent.
struct Begun {
    connection: Connection,
    rest: Vec<u8>,
}

impl Begun {
    /// Sends half of a body once the server has asked for it, so that the server holds room for it.
    fn new(server: &Server, method: &str, target: &str, body: &[u8]) -> Self {
        let (key, length) = (headers(&server.key), body.len());
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\n{key}expect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        );
        let mut connection = Connection::open(server.address);
        connection.send(head.as_bytes());
        assert_eq!(connection.reply().status, 100, "{method} {target}");
        connection.send(&body[..length / 2]);
        Self { connection, rest: body[length / 2..].to_vec() }
    }

    fn finish(mut self) -> Reply {
        self.connection.send(&self.rest);
        self.connection.reply()
    }
}

#[test]
fn slow_transfers_delay_no_other_account() {
    // Room for four bodies and two answers in the share of one account.
    let limits = Limits::default().transfer_room(30 * MIB).room_wait(Duration::ZERO);
    let limits = limits.stall_time(HOUR).body_time(HOUR);
    let server = Server::start_on_one_thread(Options::default().limits(limits));
    block_on(server.home.create_account("quiet")).unwrap();
    let quiet = server.key("quiet", &[Scope::Admin]);
    let as_acme =
        |method: &str, target: &str, body: &[u8]| server.request(method, target, &headers(&server.key), body);
    // More than sockets buffer.
    for (target, size) in [("/v1/fs/large", 64 * MIB), ("/v1/fs/part", MIB)] {
        assert_eq!(as_acme("PUT", target, &vec![7; size]).status, 201);
    }
    let body = vec![8; 8 * MIB];
    let begun = [
        ("PUT", "/v1/fs/put", 201),
        ("PATCH", "/v1/fs/log", 201),
        ("PATCH", "/v1/fs/part?offset=0", 200),
        ("POST", "/v1/uploads", 200),
    ]
    .map(|(method, target, status)| (Begun::new(&server, method, target, &body), status));
    let readers = [(); 2].map(|()| {
        let mut reader = Connection::open(server.address);
        reader.send(&request("GET", "/v1/fs/large", &headers(&server.key), b""));
        assert!(reader.begun());
        reader
    });
    // All of them are under way: they take the room of their account.
    as_acme("PUT", "/v1/fs/more", &vec![7; MIB]).refused(503, "UNAVAILABLE");
    as_acme("GET", "/v1/fs/large", b"").refused(503, "UNAVAILABLE");

    let as_quiet = |method: &str, target: &str, body: &[u8]| {
        let reply = server.request(method, target, &headers(&quiet), body);
        assert!(reply.status < 300, "{method} {target}: {}", reply.text());
        reply
    };
    let long = vec![9; 3 * MIB];
    as_quiet("PUT", "/v1/fs/a", &long);
    as_quiet("PATCH", "/v1/fs/a", &long);
    as_quiet("PATCH", "/v1/fs/a?offset=5", &long);
    assert_eq!(as_quiet("GET", "/v1/fs/a", b"").body.len(), 6 * MIB);
    let part = as_quiet("POST", "/v1/uploads", &long).json()["staged"].clone();
    as_quiet("POST", "/v1/batch", batch_of(&[part]).as_bytes());
    assert!(as_quiet("GET", "/v1/fs/parts", b"").body == long);
    as_quiet("POST", "/v1/put", br#"{"path":"/a","value":1}"#);
    as_quiet("POST", "/v1/search", br#"{"query":"tea"}"#);
    as_quiet("DELETE", "/v1/fs/a", b"");
    // Short calls of the same account take no room.
    server.put("/a", "1");

    for (begun, status) in begun {
        let reply = begun.finish();
        assert_eq!(reply.status, status, "{}", reply.text());
    }
    for mut reader in readers {
        let reply = reader.reply();
        assert_eq!((reply.status, reply.body.len()), (200, 64 * MIB));
    }
    assert!(as_acme("GET", "/v1/fs/put", b"").body == body);
}
