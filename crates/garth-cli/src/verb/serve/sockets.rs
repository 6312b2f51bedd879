//! Sockets of the server, by their addresses.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use tokio::net::{TcpListener, TcpSocket};

use crate::fail::{Failure, Result};

/// Address that a server would listen on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) address: SocketAddr,
    /// True if a program listens on it now.
    pub(super) in_use: bool,
}

/// Opens the sockets. Returns them with their addresses as URLs. By default, an address that the machine does
/// not have, such as `::1`, is skipped.
pub(super) fn bind_all(
    listen: &[String],
    is_default: bool,
    backlog: u32,
) -> Result<(Vec<TcpListener>, Vec<String>)> {
    let bound = each(listen, is_default, |address| bind(address, backlog))?;
    Ok(bound.into_iter().unzip())
}

/// Checks that the sockets can be opened, and opens none. An address in use is not an error: it may be that
/// of the server that the next one replaces.
pub(super) fn check_all(listen: &[String], is_default: bool) -> Result<Vec<Address>> {
    let check = |address: SocketAddr| match socket(address) {
        Ok(_) => Ok(Address { address, in_use: false }),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(Address { address, in_use: true }),
        Err(error) => Err(error),
    };
    each(listen, is_default, |address| first(address, check))
}

fn each<T>(listen: &[String], is_default: bool, open: impl Fn(&str) -> io::Result<T>) -> Result<Vec<T>> {
    let mut all = Vec::new();
    for (number, address) in listen.iter().enumerate() {
        match open(address) {
            Ok(opened) => all.push(opened),
            Err(error) if is_default && number > 0 && is_no_address(&error) => {
                tracing::info!("{address}: this machine does not have this address");
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(Failure::Usage(format!("{address}: not HOST:PORT")));
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let error = io::Error::new(error.kind(), format!("{error}; choose another with --listen"));
                return Err(Failure::host(Path::new(address))(error));
            }
            Err(error) => return Err(Failure::host(Path::new(address))(error)),
        }
    }
    Ok(all)
}

/// Returns what opens first of the addresses of a host.
fn first<T>(address: &str, open: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let mut failed = io::Error::from(io::ErrorKind::InvalidInput);
    for address in address.to_socket_addrs()? {
        match open(address) {
            Ok(opened) => return Ok(opened),
            // Another address of the host may work.
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn bind(address: &str, backlog: u32) -> io::Result<(TcpListener, String)> {
    first(address, |address| {
        let listener = socket(address)?.listen(backlog)?;
        let url = format!("http://{}", listener.local_addr()?);
        Ok((listener, url))
    })
}

fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart can then use the port while old connections end.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Returns true if the machine does not have the address (no IPv6), as opposed to an address in use.
fn is_no_address(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
        || error.raw_os_error() == Some(97) // EAFNOSUPPORT, for which there is no kind
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn many_clients_can_connect_at_once() {
        let (listener, _) = bind("127.0.0.1:0", 1024).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(500));
        // Nobody accepts. These are more than the 128 connections of the standard library's backlog.
        let connected: io::Result<Vec<TcpStream>> = (0..400).map(connect).collect();
        assert_eq!(connected.unwrap().len(), 400);
    }
}
