//! Names in `Host`, and pages of other sites in `Origin`.

use garth_server::{Hosts, Options, Origins};

use super::harness::{Reply, Server};

const APP: &str = "https://app.example.com";

fn with_origins(origins: &[&str]) -> Server {
    Server::start_with(Options::default().origins(Origins::parse(origins).unwrap()))
}

fn health(server: &Server, host: &str) -> Reply {
    server.raw(format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes())
}

/// Sends a put of 1 under `/a`, as a page of an origin does.
fn put_from(server: &Server, origin: &str) -> Reply {
    let headers = format!("authorization: Bearer {}\r\norigin: {origin}\r\n", server.key);
    server.request("POST", "/v1/put", &headers, br#"{"path":"/a","value":1}"#)
}

fn cors_headers(reply: &Reply) -> Vec<&str> {
    let names = reply.headers.iter().map(|(name, _)| name.as_str());
    names.filter(|name| name.starts_with("access-control-")).collect()
}

#[test]
fn rebound_name_of_another_site_is_refused() {
    let server = Server::start();
    let port = server.address.port();
    let (own, evil) = (format!("127.0.0.1:{port}"), format!("evil.example:{port}"));
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", own.as_str(), "[::1]:8787", ""] {
        assert_eq!(health(&server, host).status, 200, "{host}");
    }
    for host in ["evil.example", evil.as_str(), "localhost.evil.example", "10.0.0.1", "[::2]"] {
        let message = health(&server, host).refused(403, "FORBIDDEN");
        assert!(message.contains("`Host`") && message.contains("`hosts`"), "{message}");
    }
    // The target may have a host as well, which counts then.
    let reply = server.raw(b"GET http://evil.example/healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
    reply.refused(403, "FORBIDDEN");
    let reply = server.raw(b"GET http://localhost/healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(reply.status, 200);
}

#[test]
fn refused_host_reaches_no_data() {
    let server = Server::start();
    let body = r#"{"path":"/a","value":1}"#;
    let bytes = format!(
        "POST /v1/put HTTP/1.1\r\nhost: evil.example\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n{body}",
        server.key,
        body.len()
    );
    server.raw(bytes.as_bytes()).refused(403, "FORBIDDEN");
    assert_eq!(server.get("/a"), r#"{"found":false}"#, "nothing was stored");
}

#[test]
fn configured_hosts_are_answered() {
    let hosts = Hosts::parse(&["garth.example.com"]).unwrap();
    let server = Server::start_with(Options::default().hosts(Some(hosts)));
    for host in ["garth.example.com", "Garth.Example.com:443", "localhost"] {
        assert_eq!(health(&server, host).status, 200, "{host}");
    }
    health(&server, "other.example.com").refused(403, "FORBIDDEN");
}

#[test]
fn foreign_origin_is_refused_without_cors_headers() {
    for server in [Server::start(), with_origins(&[APP])] {
        for origin in
            ["https://evil.example", "null", "http://localhost:3000", "https://app.example.com.evil"]
        {
            let reply = put_from(&server, origin);
            assert!(reply.refused(403, "FORBIDDEN").contains("`origins`"), "{origin}");
            assert_eq!(cors_headers(&reply), [""; 0], "{origin}");
        }
        assert_eq!(server.get("/a"), r#"{"found":false}"#, "nothing was stored");
        // A page of the server itself.
        let reply = put_from(&server, "http://localhost");
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
}

#[test]
fn permitted_origin_may_read_answers() {
    let server = with_origins(&["https://other.example", APP]);
    let reply = put_from(&server, APP);
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some(APP)));
    assert_eq!(reply.header("access-control-expose-headers"), Some("*"));
    assert!(reply.header("vary").unwrap().contains("origin"));
    // Also refusals, in their envelope.
    let headers = format!("origin: {APP}\r\n");
    let reply = server.request("POST", "/v1/get", &headers, b"{}");
    reply.refused(401, "UNAUTHORIZED");
    assert_eq!(reply.header("access-control-allow-origin"), Some(APP));
    let any = with_origins(&["*"]);
    let reply = put_from(&any, "https://evil.example");
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some("*")));
}

fn preflight(server: &Server, origin: &str) -> Reply {
    let headers = format!(
        "origin: {origin}\r\naccess-control-request-method: POST\r\n\
         access-control-request-headers: authorization,content-type\r\n"
    );
    server.request("OPTIONS", "/v1/put", &headers, b"")
}

#[test]
fn preflight_of_permitted_origin_is_answered() {
    let server = with_origins(&[APP]);
    let reply = preflight(&server, APP);
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some(APP)));
    let methods = reply.header("access-control-allow-methods").unwrap();
    assert!(["POST", "PUT", "PATCH", "DELETE"].iter().all(|method| methods.contains(method)), "{methods}");
    assert_eq!(reply.header("access-control-allow-headers"), Some("authorization,content-type"));
    assert_eq!(reply.header("access-control-max-age"), Some("600"));
    let refused = preflight(&server, "https://evil.example");
    refused.refused(403, "FORBIDDEN");
    assert_eq!(cors_headers(&refused), [""; 0]);
}

#[test]
fn server_without_origins_answers_no_preflight() {
    let server = Server::start();
    preflight(&server, APP).refused(403, "FORBIDDEN");
    let reply = server.request("OPTIONS", "/v1/put", "", b"");
    reply.refused(405, "METHOD_NOT_ALLOWED");
    assert_eq!(cors_headers(&reply), [""; 0]);
}
