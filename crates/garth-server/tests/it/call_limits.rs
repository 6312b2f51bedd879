//! Limits on calls: of a key in a minute, and of an account at once. The clock of the server stands still
//! unless a test moves it.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::datadir::Scope;
use garth_server::embedder::{HttpEmbedder, ServedEmbedder};
use garth_server::{Limits, Options};
use garth_testkit::embedding_service::{EmbeddingService, reply};
use serde_json::json;

use super::harness::{Connection, Reply, Server, request};

const GET: &str = r#"{"path":"/a"}"#;
const PUT: &str = r#"{"path":"/a","value":1}"#;

fn limits() -> Limits {
    Limits::default().reads_per_minute(3).writes_per_minute(2).searches_per_minute(1)
}

/// Returns the headers of the limit: all calls, those that remain, and the seconds until all are free.
fn limit(reply: &Reply) -> [i64; 3] {
    ["limit", "remaining", "reset"].map(|name| {
        let value = reply.header(&format!("x-ratelimit-{name}")).unwrap_or_else(|| panic!("{reply:?}"));
        value.parse().unwrap()
    })
}

fn has_limit(reply: &Reply) -> bool {
    reply.headers.iter().any(|(name, _)| name.starts_with("x-ratelimit-"))
}

/// Adds an account with a key.
fn other_account(server: &Server) -> String {
    block_on(server.home.create_account("other")).unwrap();
    server.key("other", &[Scope::Admin])
}

#[test]
fn call_beyond_limit_is_429_until_one_is_free() {
    let server = Server::start_limited(limits());
    for (remaining, reset) in [(2, 20), (1, 40), (0, 60)] {
        let reply = server.post("get", GET);
        assert_eq!((reply.status, limit(&reply)), (200, [3, remaining, reset]));
    }
    for _ in 0..3 {
        let reply = server.post("get", GET);
        let message = reply.refused(429, "RATE_LIMITED");
        assert!(message.contains("3 reads") && message.contains("after 20 s"), "{message}");
        assert_eq!((reply.header("retry-after"), limit(&reply)), (Some("20"), [3, 0, 60]));
    }
    server.clock.advance(Duration::from_secs(19));
    assert_eq!(server.post("get", GET).header("retry-after"), Some("1"));
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(server.post("get", GET).status, 200);
    server.post("get", GET).refused(429, "RATE_LIMITED");
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(limit(&server.post("get", GET)), [3, 2, 20]);
}

#[test]
fn each_class_of_calls_has_its_own_limit() {
    let server = Server::start_limited(limits());
    let search = r#"{"query":"word"}"#;
    assert_eq!(limit(&server.post("put", PUT)), [2, 1, 30]);
    assert_eq!(limit(&server.post("search", search)), [1, 0, 60]);
    assert_eq!(limit(&server.post("get", GET)), [3, 2, 20]);
    server.post("search", search).refused(429, "RATE_LIMITED");
    // Calls with bytes count as well, and a call that fails.
    let authorization = format!("authorization: Bearer {}\r\n", server.key);
    assert_eq!(limit(&server.request("GET", "/v1/fs/none", &authorization, b"")), [3, 1, 40]);
    assert_eq!(limit(&server.post("get", "no JSON")), [3, 0, 60]);
    assert_eq!(limit(&server.request("PUT", "/v1/fs/f", &authorization, b"x")), [2, 0, 60]);
    server.request("PUT", "/v1/fs/f", &authorization, b"y").refused(429, "RATE_LIMITED");
    assert!(!has_limit(&server.request("GET", "/healthz", "", b"")));
    assert!(!has_limit(&server.post("none", "{}")));
}

#[test]
fn key_at_its_limit_slows_no_other_key() {
    let server = Server::start_limited(limits());
    let (second, other) = (server.key("acme", &[Scope::MemoryRead]), other_account(&server));
    for _ in 0..3 {
        assert_eq!(server.post("get", GET).status, 200);
    }
    server.post("get", GET).refused(429, "RATE_LIMITED");
    for key in [&second, &other] {
        let reply = server.post_as(key, "get", GET);
        assert_eq!((reply.status, limit(&reply)), (200, [3, 2, 20]));
    }
}

#[test]
fn repeats_under_idempotency_key_count_as_calls() {
    let server = Server::start_limited(limits());
    let headers = format!("authorization: Bearer {}\r\nidempotency-key: one\r\n", server.key);
    let put = || server.request("POST", "/v1/put", &headers, PUT.as_bytes());
    let (first, second) = (put(), put());
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(first.body, second.body);
    put().refused(429, "RATE_LIMITED");
}

#[test]
fn refused_call_is_answered_before_its_body() {
    let server = Server::start_limited(limits());
    for _ in 0..2 {
        assert_eq!(server.post("put", PUT).status, 200);
    }
    let mut connection = Connection::open(server.address);
    connection.send(&head(&server.key, 1_000_000));
    connection.reply().refused(429, "RATE_LIMITED");
}

#[test]
fn wrong_keys_use_up_no_limit_of_valid_ones() {
    let server = Server::start_limited(limits());
    // Refused without a delay: others share the address.
    for _ in 0..10 {
        let reply = server.post_as("garth_wrong", "get", GET);
        reply.refused(401, "UNAUTHORIZED");
        assert!(!has_limit(&reply));
    }
    // Refused after a delay, for which nobody waits here.
    let mut delayed: Vec<Connection> = (0..10).map(|_| Connection::open(server.address)).collect();
    let wrong = request("POST", "/v1/get", "authorization: Bearer garth_wrong\r\n", GET.as_bytes());
    for connection in &mut delayed {
        connection.send(&wrong);
    }
    for remaining in [2, 1, 0] {
        let reply = server.post("get", GET);
        assert_eq!((reply.status, limit(&reply)[1]), (200, remaining));
    }
}

#[test]
fn loopback_server_has_no_limits_by_default() {
    let server = Server::start_with(Options::default().limits(limits().account_calls(1)));
    for _ in 0..10 {
        let reply = server.post("get", GET);
        assert!(reply.status == 200 && !has_limit(&reply), "{reply:?}");
    }
}

/// Returns the head of a put that waits for `100 Continue`, which the server sends when it reads the body.
fn head(key: &str, length: usize) -> Vec<u8> {
    format!(
        "POST /v1/put HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         expect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
    )
    .into_bytes()
}

/// Server whose recalls end when `gate` can be read.
struct Gated {
    server: Server,
    gate: Arc<RwLock<()>>,
    /// Word of each recall that has begun.
    begun: Receiver<()>,
}

impl Gated {
    fn start(limits: Limits) -> Self {
        let (gate, (sender, begun)) = (Arc::new(RwLock::new(())), channel());
        let own = Arc::clone(&gate);
        let service = EmbeddingService::start(move |texts| {
            sender.send(()).ok();
            drop(own.read().unwrap());
            reply(texts.iter().map(|_| vec![1.0, 0.0]), 1)
        });
        let limits = limits.embedder_timeout(Duration::from_secs(300));
        let embedder = Arc::new(HttpEmbedder::new(service.url(), "m", None).unwrap().limits(&limits));
        let embedder = ServedEmbedder { embedder, daily_tokens: None };
        let options = Options::default().limits(limits).limit_calls(Some(true));
        let server = Server::start_with(options.embedder(Some(embedder)));
        for name in ["alpha", "beta", "gamma"] {
            let uri = format!("ctx://acme/users/ann/memories/events/{name}");
            let body = json!({"uri": uri, "content": format!("The ferry note about {name}.")});
            server.ok("memories/put", body.to_string());
        }
        Self { server, gate, begun }
    }

    /// Begins a recall, and returns when it has its turn.
    fn begin(&self, key: &str, question: &str) -> Connection {
        let mut connection = Connection::open(self.server.address);
        let headers = format!("authorization: Bearer {key}\r\n");
        let body = json!({"question": question}).to_string();
        connection.send(&request("POST", "/v1/recall", &headers, body.as_bytes()));
        self.begun.recv_timeout(Duration::from_secs(60)).unwrap();
        connection
    }
}

#[test]
fn account_is_refused_when_its_calls_do_not_end() {
    let gated = Gated::start(Limits::default().account_calls(2).room_wait(Duration::ZERO));
    let (server, closed) = (&gated.server, gated.gate.write().unwrap());
    let (second, other) = (server.key("acme", &[Scope::Admin]), other_account(server));
    let begun = [gated.begin(&server.key, "which ferry note"), gated.begin(&second, "which note of it")];
    for key in [&server.key, &second] {
        let reply = server.post_as(key, "get", GET);
        assert!(reply.refused(429, "RATE_LIMITED").contains("account"), "{reply:?}");
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    // A call that waits for a commit takes no turn.
    assert_eq!(server.post("tree/wait", r#"{"since":0,"wait_ms":0}"#).status, 200);
    assert_eq!(server.post_as(&other, "get", GET).status, 200);
    drop(closed);
    assert_eq!(begun.map(|mut connection| connection.reply().status), [200, 200]);
    assert_eq!(server.post("get", GET).status, 200);
}

#[test]
fn bodies_that_arrive_slowly_take_no_turn() {
    let server = Server::start_limited(Limits::default().account_calls(1).room_wait(Duration::ZERO));
    let (mut put, mut file) = (Connection::open(server.address), Connection::open(server.address));
    put.send(&head(&server.key, PUT.len()));
    let head = format!(
        "PUT /v1/fs/f HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         expect: 100-continue\r\ncontent-length: 1\r\n\r\n",
        server.key
    );
    file.send(head.as_bytes());
    // The server reads both.
    assert_eq!((put.reply_to(true).status, file.reply_to(true).status), (100, 100));
    assert_eq!(server.post("get", GET).status, 200);
    put.send(PUT.as_bytes());
    file.send(b"x");
    assert_eq!((put.reply().status, file.reply().status), (200, 201));
}

#[test]
fn busy_account_delays_no_other_account() {
    let gated = Gated::start(Limits::default().account_calls(2).room_wait(Duration::from_secs(300)));
    let (server, closed) = (&gated.server, gated.gate.write().unwrap());
    let other = other_account(server);
    let begun = ["which ferry note", "which note of it"].map(|question| gated.begin(&server.key, question));
    let headers = format!("authorization: Bearer {}\r\n", server.key);
    let bytes = request("POST", "/v1/get", &headers, GET.as_bytes());
    let mut waiting: Vec<Connection> = (0..254).map(|_| Connection::open(server.address)).collect();
    for connection in &mut waiting {
        connection.send(&bytes);
    }
    for _ in 0..20 {
        assert_eq!(server.post_as(&other, "put", PUT).status, 200);
    }
    drop(closed);
    assert_eq!(begun.map(|mut connection| connection.reply().status), [200, 200]);
    for mut connection in waiting {
        assert_eq!(connection.reply().status, 200);
    }
}
