//! Metrics and readiness: figures compared with a count by hand, bounded labels, and who may read them.

use std::collections::{BTreeMap, BTreeSet};

use futures::executor::block_on;
use garth_engine::datadir::Scope;
use garth_server::{Limits, Metrics, MetricsAccess, MetricsToken, Options};

use super::harness::{Connection, Reply, Server, request};

const TOKEN: &str = "a-token-of-enough-bytes";

/// Series with their values.
type Figures = BTreeMap<String, f64>;

fn get(server: &Server, path: &str, headers: &str) -> Reply {
    server.request("GET", path, headers, b"")
}

fn scrape(server: &Server) -> Figures {
    let reply = get(server, "/metrics", "");
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = reply.text();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let figure = |line: &str| {
        let (series, value) = line.rsplit_once(' ').expect("a series and its value");
        (series.to_owned(), value.parse().expect("a number"))
    };
    lines.map(figure).collect()
}

/// Returns how much a series has grown. One that is missing is 0.
fn growth(before: &Figures, after: &Figures, series: &str) -> f64 {
    let of = |figures: &Figures| figures.get(series).copied().unwrap_or(0.0);
    of(after) - of(before)
}

fn requests(route: &str, method: &str, status: &str) -> String {
    format!("garth_http_requests_total{{route=\"{route}\",method=\"{method}\",status=\"{status}\"}}")
}

/// Makes requests of each kind. Returns the bytes sent, and those of the bodies of `get`.
fn make_requests(server: &Server) -> (Vec<usize>, usize) {
    let (mut sent, mut answered) = (Vec::new(), 0);
    let mut send = |method: &str, path: &str, headers: &str, body: &[u8]| {
        let bytes = request(method, path, headers, body);
        sent.push(bytes.len());
        server.raw(&bytes)
    };
    let key = format!("authorization: Bearer {}\r\n", server.key);
    for number in 0..3 {
        let body = format!(r#"{{"path":"/{number}","value":1}}"#);
        assert_eq!(send("POST", "/v1/put", &key, body.as_bytes()).status, 200);
    }
    for _ in 0..2 {
        answered += send("POST", "/v1/get", &key, br#"{"path":"/0"}"#).body.len();
    }
    let refused = send("POST", "/v1/get", &key, b"{}");
    refused.refused(400, "VALIDATION_ERROR");
    answered += refused.body.len();
    send("GET", "/nowhere/of/this/name", "", b"").refused(404, "NOT_FOUND");
    send("GET", "/v1/put", "", b"").refused(405, "METHOD_NOT_ALLOWED");
    send("POST", "/v1/list", "", b"{}").refused(401, "UNAUTHORIZED");
    send("POST", "/v1/list", "authorization: Bearer wrong\r\n", b"{}").refused(401, "UNAUTHORIZED");
    assert!(send("PUT", "/v1/fs/file", &key, &vec![7; 300_000]).status < 300);
    assert_eq!(send("BREW", "/nowhere", "", b"").status, 404);
    (sent, answered)
}

#[test]
fn figures_equal_a_count_by_hand() {
    let server = Server::start();
    let tree = block_on(server.home.account("acme")).unwrap();
    let seq = || block_on(tree.head()).unwrap().seq.0;
    // The first call of a route may do work that later ones do not.
    server.put("/first", "1");
    let (before, first) = (scrape(&server), seq());
    let (sent, answered) = make_requests(&server);
    let (commits, after) = ((seq() - first) as f64, scrape(&server));
    let grown = |series: &str| growth(&before, &after, series);
    let made = |route, method, status| grown(&requests(route, method, status));
    assert_eq!((made("/v1/put", "POST", "2xx"), made("/v1/put", "GET", "4xx")), (3.0, 1.0));
    assert_eq!((made("/v1/get", "POST", "2xx"), made("/v1/get", "POST", "4xx")), (2.0, 1.0));
    assert_eq!((made("none", "GET", "4xx"), made("none", "other", "4xx")), (1.0, 1.0));
    assert_eq!((made("/v1/list", "POST", "4xx"), made("/v1/fs/{*path}", "PUT", "2xx")), (2.0, 1.0));
    // The scrape before is counted, the one after is not yet.
    assert_eq!(made("/metrics", "GET", "2xx"), 1.0);
    let of_get = "{route=\"/v1/get\",method=\"POST\"}";
    assert_eq!(grown(&format!("garth_http_request_duration_seconds_count{of_get}")), 3.0);
    assert_eq!(grown(&format!("garth_http_response_bytes_total{of_get}")), answered as f64);
    for (code, count) in
        [("VALIDATION_ERROR", 1.0), ("NOT_FOUND", 2.0), ("METHOD_NOT_ALLOWED", 1.0), ("UNAUTHORIZED", 2.0)]
    {
        assert_eq!(grown(&format!("garth_refusals_total{{code=\"{code}\"}}")), count, "{code}");
    }
    assert_eq!(grown("garth_wrong_keys_total"), 1.0);
    assert_eq!(after["garth_http_requests_in_flight"], 1.0, "the scrape itself");
    // Each request has its own connection. The scrape after is received already.
    let scrape_bytes = request("GET", "/metrics", "", b"").len();
    assert_eq!(grown("garth_connections_total"), sent.len() as f64 + 1.0);
    assert_eq!(grown("garth_received_bytes_total"), (sent.iter().sum::<usize>() + scrape_bytes) as f64);
    assert_eq!(grown("garth_commits_total{outcome=\"ok\"}"), commits);
    let refused = grown("garth_commits_total{outcome=\"refused\"}");
    assert_eq!(grown("garth_commit_group_size_sum"), commits + refused);
    assert_eq!((grown("garth_uploads_total"), grown("garth_upload_bytes_total")), (1.0, 300_000.0));
    assert_eq!(after["garth_uploads_open"], 0.0);
    assert_eq!(after["garth_accounts_open"], 1.0);
    for kind in ["reader", "compute", "commit", "upload"] {
        assert_eq!(after[&format!("garth_queue_length{{kind=\"{kind}\"}}")], 0.0, "{kind}");
    }
    assert!(after["garth_disk_free_bytes"] > 0.0);
    assert!(after["process_cpu_seconds_total"] > before["process_cpu_seconds_total"]);
}

#[test]
fn every_metric_is_documented() {
    let server = Server::start();
    let page = include_str!("../../../../docs/specs/operations.md");
    scrape(&server);
    let text = get(&server, "/metrics", "").text();
    let mut found = 0;
    for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        assert!(page.contains(&format!("`{name}`")), "{name}");
        found += 1;
    }
    assert!(found > 35, "{found}");
}

#[test]
fn refusals_by_the_connection_are_counted() {
    let server = Server::start();
    let before = scrape(&server);
    server.raw(b"GET\r\n\r\n").refused(400, "VALIDATION_ERROR");
    let after = scrape(&server);
    assert_eq!(growth(&before, &after, &requests("none", "none", "4xx")), 1.0);
    assert_eq!(growth(&before, &after, "garth_refusals_total{code=\"VALIDATION_ERROR\"}"), 1.0);
}

#[test]
fn series_do_not_grow_with_accounts_and_paths() {
    let server = Server::start();
    let work = |account: &str| {
        block_on(server.home.create_account(account)).unwrap();
        let key = server.key(account, &[Scope::Admin]);
        let headers = format!("authorization: Bearer {key}\r\n");
        let body = format!(r#"{{"path":"/{account}/secret","value":1,"agent_id":"{account}"}}"#);
        assert_eq!(server.post_as(&key, "put", body).status, 200);
        server.request("GET", &format!("/v1/fs/{account}"), &headers, b"");
        server.request("GET", &format!("/{account}"), &headers, b"");
        server.request(&account.to_uppercase(), "/v1/put", &headers, b"");
    };
    work("canary0");
    let series = |figures: Figures| figures.into_keys().collect::<BTreeSet<_>>();
    // Twice, because the first scrape is not in its own figures.
    scrape(&server);
    let first = series(scrape(&server));
    for number in 1..40 {
        work(&format!("canary{number}"));
    }
    let last = series(scrape(&server));
    let new: Vec<_> = last.difference(&first).collect();
    assert!(new.is_empty(), "{new:?}");
    assert!(!last.iter().any(|series| series.to_lowercase().contains("canary")));
}

fn with_access(access: MetricsAccess) -> Server {
    Server::start_with(Options::default().metrics(Metrics::default(), access))
}

#[test]
fn disabled_metrics_are_not_found() {
    let server = with_access(MetricsAccess::Off);
    let key = format!("authorization: Bearer {}\r\n", server.key);
    for headers in ["", &*key] {
        let message = get(&server, "/metrics", headers).refused(404, "NOT_FOUND");
        assert!(message.starts_with("there is no such route"), "{message}");
    }
    assert_eq!(get(&server, "/readyz", "").status, 200);
}

#[test]
fn metrics_token_is_required() {
    let server = with_access(MetricsAccess::Token(MetricsToken::new(TOKEN).unwrap()));
    let message = get(&server, "/metrics", "").refused(401, "UNAUTHORIZED");
    assert!(message.contains("`Authorization: Bearer TOKEN`"), "{message}");
    let longer = format!("{TOKEN}x");
    for wrong in [&*server.key, &TOKEN[..TOKEN.len() - 1], &*longer] {
        let headers = format!("authorization: Bearer {wrong}\r\n");
        let reply = get(&server, "/metrics", &headers);
        reply.refused(401, "UNAUTHORIZED");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    }
    let reply = get(&server, "/metrics", &format!("authorization: Bearer {TOKEN}\r\n"));
    assert_eq!(reply.status, 200);
    assert!(reply.text().contains("\ngarth_wrong_keys_total 3\n"), "{}", reply.text());
    assert!(!reply.text().contains(TOKEN));
}

#[test]
fn server_with_storage_and_space_is_ready() {
    let server = Server::start();
    let reply = get(&server, "/readyz", "");
    assert_eq!((reply.status, reply.text()), (200, r#"{"ok":true}"#.to_owned()));
    let mut connection = Connection::open(server.address);
    connection.send(&request("HEAD", "/readyz", "", b""));
    assert_eq!(connection.reply_to(true).status, 200);
    server.request("POST", "/readyz", "", b"").refused(405, "METHOD_NOT_ALLOWED");
}

#[test]
fn requests_beyond_the_grace_are_cut_off() {
    let limits = Limits::default().stop_grace(std::time::Duration::ZERO);
    let mut server = Server::start_with(Options::default().limits(limits));
    let mut busy = Connection::open(server.address);
    let headers = format!("authorization: Bearer {}\r\nexpect: 100-continue\r\n", server.key);
    let (body, head) = (br#"{"path":"/a","value":1}"#, headers);
    let bytes = request("POST", "/v1/put", &head, body);
    busy.send(&bytes[..bytes.len() - body.len()]);
    assert_eq!(busy.reply().status, 100);
    server.begin_stop();
    server.stopped();
    assert!(busy.is_closed(), "the body never came");
}
