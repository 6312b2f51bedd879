//! The description of the API, and the pages that show it.

use garth_server::openapi;

use super::harness::{Connection, Reply, Server, request};

/// Written by `GARTH_WRITE_REFERENCE=1 cargo nextest run -p garth-server description_file_matches_table`.
#[test]
fn description_file_matches_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let text = openapi::text();
    if std::env::var_os("GARTH_WRITE_REFERENCE").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let command = "GARTH_WRITE_REFERENCE=1 cargo nextest run -p garth-server description_file_matches_table";
    assert!(written == text, "docs/openapi.json is out of date; write it with\n{command}");
}

fn get(server: &Server, target: &str, headers: &str) -> Reply {
    server.request("GET", target, headers, b"")
}

#[test]
fn description_needs_no_key() {
    let server = Server::start();
    let reply = get(&server, "/openapi.json", "");
    assert_eq!((reply.status, reply.text()), (200, openapi::text()));
    assert_eq!(reply.header("content-type"), Some("application/json"));
    // A wrong key does no harm.
    assert_eq!(get(&server, "/openapi.json", "authorization: Bearer x\r\n").status, 200);
}

#[test]
fn pages_have_entity_tags() {
    let server = Server::start();
    for page in [
        "/openapi.json",
        "/docs",
        "/docs/start.js",
        "/docs/start.css",
        "/docs/swagger-ui.css",
        "/docs/swagger-ui-bundle.js",
    ] {
        let reply = get(&server, page, "");
        let etag = reply.header("etag").unwrap().to_owned();
        assert_eq!(reply.status, 200, "{page}");
        for known in [etag.clone(), format!("W/{etag}"), format!("\"a\", {etag}"), "*".to_owned()] {
            let mut connection = Connection::open(server.address);
            connection.send(&request("GET", page, &format!("if-none-match: {known}\r\n"), b""));
            let again = connection.reply_to(true);
            assert_eq!((again.status, again.header("etag")), (304, Some(&*etag)), "{page} {known}");
        }
        assert_eq!(get(&server, page, "if-none-match: \"a\"\r\n").status, 200, "{page}");
        let mut connection = Connection::open(server.address);
        connection.send(&request("HEAD", page, "", b""));
        let head = connection.reply_to(true);
        assert_eq!((head.status, head.header("etag")), (200, Some(&*etag)), "{page}");
        let message = server.request("POST", page, "", b"{}").refused(405, "METHOD_NOT_ALLOWED");
        assert!(message.contains("GET, HEAD"), "{message}");
    }
    get(&server, "/docs/other.js", "").refused(404, "NOT_FOUND");
    for (path, to) in [("/", "docs"), ("/docs/", "../docs")] {
        let reply = get(&server, path, "");
        assert_eq!((reply.status, reply.header("location")), (307, Some(to)));
    }
}

#[test]
fn reference_loads_nothing_from_other_hosts() {
    let server = Server::start();
    let page = get(&server, "/docs", "");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(!policy.contains("http") && !policy.contains('*'), "{policy}");
    let (text, script) = (page.text(), get(&server, "/docs/start.js", "").text());
    assert!(!text.contains("://") && !script.contains("://"), "{text}{script}");
    // Inline scripts and styles would not run.
    assert!(!text.contains("<style") && !text.contains("style="), "{text}");
    for part in text.split("<script").skip(1) {
        assert!(part.starts_with(" src=\"docs/") && part.contains("></script>"), "{part}");
    }
    for part in text.split("<link rel=\"stylesheet\"").skip(1) {
        let file = part.split('"').nth(1).unwrap();
        let reply = get(&server, &format!("/{file}"), "");
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (200, Some("text/css; charset=utf-8")),
            "{file}"
        );
    }
    for file in ["/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css"] {
        assert!(text.contains(&file[1..]), "{file}");
        let reply = get(&server, file, "");
        assert_eq!(reply.header("content-encoding"), Some("gzip"), "{file}");
        assert!(reply.body.starts_with(&[0x1f, 0x8b]) && reply.body.len() < 600_000, "{file}");
    }
}
