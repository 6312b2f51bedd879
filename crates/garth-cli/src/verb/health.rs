//! `garth health`: whether a server is ready. For the health checks of containers and service managers, which
//! should not need another program.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};

/// Time limit of each step: to connect, to send, and to read the answer. A server checks itself for at most
/// two seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest answer that is read.
const MAX_ANSWER: u64 = 64 << 10;

/// Check that a server is ready to serve requests
///
/// Asks GET /readyz. Exits with 0 if the server is ready, with 1 if it is not, and with 7 if nothing answers.
/// Opens no data folder.
///
/// With --json, prints one object: server, ready, reason (null if ready).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth health --server 127.0.0.1:8787")]
pub(crate) struct Health {
    /// Address of the server
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8787")]
    server: String,
}

impl Health {
    pub(crate) fn run(self, app: &mut App) -> Result {
        app.no_tree("health")?;
        let answer = ask(&self.server).map_err(Failure::host(Path::new(&self.server)))?;
        let reason = reason(&answer);
        let json = json!({"server": self.server, "ready": reason.is_none(), "reason": reason});
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
