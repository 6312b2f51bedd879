//! `garth health`: whether a server is ready. For the health checks of containers and service managers, which
//! should not need another program.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::app::App;
use crate::config::is_address;
use crate::escape::escaped;
use crate::fail::{Failure, Result};

/// Time limit of each step: to connect, to send, and to read the answer. A server checks itself for at most
/// two seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Address of a server whose options name none.
const DEFAULT: &str = "127.0.0.1:8787";

/// Longest answer that is read.
const MAX_ANSWER: u64 = 64 << 10;

/// Check that a server is ready to serve requests
///
/// Asks GET /readyz. Exits with 0 if the server is ready, with 1 if it is not, and with 7 if nothing answers.
/// Opens no data folder, and does not read garth.toml.
///
/// With --json, prints one object: server, ready, reason (null if ready).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth health --server 127.0.0.1:8787")]
pub(crate) struct Health {
    /// Address of the server, or its URL [default: the first of GARTH_LISTEN, or 127.0.0.1:8787]
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
}

impl Health {
    pub(crate) fn run(self, app: &mut App) -> Result {
        app.no_tree("health")?;
        let server = match self.server {
            Some(given) => address("--server", &given)?,
            None => default_server(std::env::var("GARTH_LISTEN").ok().as_deref())?,
        };
        let answer = ask(&server).map_err(Failure::host(Path::new(&server)))?;
        let reason = reason(&answer);
        let json = json!({"server": server, "ready": reason.is_none(), "reason": reason});
        let text = match &reason {
            None => "ready".to_owned(),
            Some(reason) => format!("not ready: {}", escaped(reason)),
        };
        app.out.item(&json, text)?;
        match reason {
            None => Ok(()),
            Some(_) => Err(Failure::Reported(1)),
        }
    }
}

/// Returns the address in a text: an address, or a URL as `garth serve` prints it. Errors name the `origin`
/// of the text.
fn address(origin: &str, given: &str) -> Result<String> {
    let address = given.strip_prefix("http://").map_or(given, |url| url.trim_end_matches('/'));
    match is_address(address) {
        true => Ok(address.to_owned()),
        false => {
            let message = format!("{origin}: `{given}` is not HOST:PORT, such as {DEFAULT}");
            Err(Failure::Usage(message))
        }
    }
}

/// Returns the address at which this machine reaches a server with this value of `GARTH_LISTEN`.
fn default_server(listen: Option<&str>) -> Result<String> {
    let mut items = listen.unwrap_or_default().split(',').map(str::trim);
    let Some(first) = items.find(|item| !item.is_empty()) else { return Ok(DEFAULT.to_owned()) };
    let address = address("GARTH_LISTEN", first)?;
    // A server that listens on all addresses may answer only to the names of loopback.
    Ok(match address.rsplit_once(':') {
        Some(("0.0.0.0", port)) => format!("127.0.0.1:{port}"),
        Some(("[::]", port)) => format!("[::1]:{port}"),
        _ => address,
    })
}

/// Returns the answer of a server, with its head.
fn ask(server: &str) -> io::Result<String> {
    let mut failed = io::Error::from(io::ErrorKind::InvalidInput);
    for address in server.to_socket_addrs()? {
        let stream = TcpStream::connect_timeout(&address, PATIENCE);
        match stream.and_then(|stream| exchange(stream, server)) {
            Ok(answer) => return Ok(answer),
            // Another address of the host may work.
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn exchange(mut stream: TcpStream, server: &str) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET /readyz HTTP/1.0\r\nHost: {server}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns the reason why a server is not ready; `None` if it is.
fn reason(answer: &str) -> Option<String> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    if head.starts_with("HTTP/1") && head.split(' ').nth(1) == Some("200") {
        return None;
    }
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let message = body["error"]["message"].as_str();
    Some(message.unwrap_or("the answer is not one of a garth server").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_server_is_the_first_that_listens() {
        let default = |listen: Option<&str>| default_server(listen).unwrap();
        assert_eq!(default(None), DEFAULT);
        assert_eq!(default(Some("")), DEFAULT);
        assert_eq!(default(Some("0.0.0.0:80, [::]:80")), "127.0.0.1:80");
        assert_eq!(default(Some("[::]:81")), "[::1]:81");
        assert_eq!(default(Some("garth.example.com:82")), "garth.example.com:82");
        assert!(default_server(Some("9000")).is_err());
    }

    #[test]
    fn reason_is_that_of_the_server() {
        assert_eq!(reason("HTTP/1.0 200 OK\r\n\r\n{\"ok\":true}"), None);
        let stopping = "HTTP/1.0 503 Service Unavailable\r\n\r\n{\"error\":{\"message\":\"it stops\"}}";
        assert_eq!(reason(stopping).as_deref(), Some("it stops"));
        for other in
            ["", "HTTP/1.0 503 \r\n\r\n", "SSH-2.0 200 x\r\n\r\n", "HTTP/1.1 404 Not Found\r\n\r\n[]"]
        {
            let reason = reason(other);
            assert_eq!(reason.as_deref(), Some("the answer is not one of a garth server"), "{other}");
        }
    }
}
