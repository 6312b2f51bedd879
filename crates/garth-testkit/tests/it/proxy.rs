//! The proxy between a test and a server, in front of a server that answers lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use garth_engine::Env;
use garth_testkit::proxy::{Direction, Proxy};

/// Starts a server that answers each line with the same line, until the process ends. Returns its address,
/// and all that it got of each connection once that has ended.
fn server() -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (received, all) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, received) = (stream.unwrap(), received.clone());
            std::thread::spawn(move || answer(&stream, &received));
        }
    });
    (address, all)
}

fn answer(mut stream: &TcpStream, received: &Sender<Vec<u8>>) {
    stream.set_nodelay(true).unwrap();
    let (mut lines, mut got) = (BufReader::new(stream), Vec::new());
    loop {
        let start = got.len();
        // An error is a cut connection; what came before it stays in `got`.
        let read = lines.read_until(b'\n', &mut got);
        if read.is_err() || !got[start..].ends_with(b"\n") {
            break;
        }
        // In two pieces, and to a client that may be gone.
        let (first, rest) = got[start..].split_at(1);
        let _ = stream.write_all(first).and_then(|()| stream.write_all(rest));
    }
    // The test may not ask for it.
    let _ = received.send(got);
}

fn connect(proxy: &Proxy) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    BufReader::new(stream)
}

/// Sends a line in two pieces and returns the answer.
fn ask(client: &mut BufReader<TcpStream>, line: &str) -> String {
    let (first, rest) = line.split_at(1);
    client.get_mut().write_all(first.as_bytes()).unwrap();
    client.get_mut().write_all(format!("{rest}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_line(&mut answer).unwrap();
    answer
}

/// Returns all that arrives until the connection ends.
fn rest(mut client: BufReader<TcpStream>) -> Vec<u8> {
    let mut got = Vec::new();
    // A cut may also show as an error, after what had arrived.
    let _ = client.read_to_end(&mut got);
    got
}

#[test]
fn proxy_passes_bytes_and_ends_of_both_directions() {
    let (address, received) = server();
    let proxy = Proxy::to(address).unwrap();
    let mut client = connect(&proxy);
    let line = "0123456789abcdef".repeat(1 << 16);
    assert!(ask(&mut client, &line) == format!("{line}\n"), "1 MiB comes back");
    client.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(rest(client), b"", "the server ends as well");
    assert_eq!(received.recv().unwrap().len(), line.len() + 1);
}

#[test]
fn proxy_counts_answers_that_were_waited_for() {
    let proxy = Proxy::to(server().0).unwrap();
    let mut clients = [connect(&proxy), connect(&proxy)];
    assert_eq!(proxy.trips(), 0);
    for trips in 1..=10 {
        assert_eq!(ask(&mut clients[trips % 2], "line"), "line\n");
        assert_eq!(proxy.trips(), trips as u64, "two pieces there and two back are one trip");
    }
}

#[test]
fn proxy_delays_each_direction() {
    let proxy = Proxy::to(server().0).unwrap();
    let mut client = connect(&proxy);
    let each_way = Duration::from_millis(20);
    proxy.delay(each_way);
    let started = Env::system().instant();
    assert_eq!(ask(&mut client, "line"), "line\n");
    assert!(started.elapsed() >= 2 * each_way, "{:?}", started.elapsed());
    assert_eq!(proxy.trips(), 1);
}

#[test]
fn cut_request_reaches_the_server_in_part() {
    let (address, received) = server();
    let proxy = Proxy::to(address).unwrap();
    let line = b"abcdef\n";
    for (cuts, length) in (1..).zip([0, 1, 3, line.len()]) {
        proxy.cut_after(Direction::ToServer, length);
        let mut client = connect(&proxy);
        client.get_mut().write_all(line).unwrap();
        rest(client);
        assert_eq!(received.recv().unwrap(), line[..length]);
        assert_eq!(proxy.cuts(), cuts);
    }
    assert_eq!(ask(&mut connect(&proxy), "next"), "next\n", "only one connection is cut");
}

#[test]
fn cut_answer_reaches_the_client_in_part() {
    let (address, received) = server();
    let proxy = Proxy::to(address).unwrap();
    let line = b"abcdef\n";
    for (cuts, length) in (1..).zip([0, 1, 3, line.len()]) {
        proxy.cut_after(Direction::ToClient, length);
        let mut client = connect(&proxy);
        client.get_mut().write_all(line).unwrap();
        assert_eq!(rest(client), line[..length]);
        assert_eq!(received.recv().unwrap(), line, "the server got the whole request");
        assert_eq!(proxy.cuts(), cuts);
    }
    assert_eq!(proxy.trips(), 3, "a part of an answer is one, nothing is none");
}

#[test]
fn dropped_proxy_closes_its_connections() {
    let (address, received) = server();
    let proxy = Proxy::to(address).unwrap();
    let mut client = connect(&proxy);
    assert_eq!(ask(&mut client, "line"), "line\n");
    drop(proxy);
    assert_eq!(rest(client), b"");
    assert_eq!(received.recv().unwrap(), b"line\n");
}

#[test]
fn proxy_without_a_server_closes_connections() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Proxy::to(unused).unwrap();
    assert_eq!(rest(connect(&proxy)), b"");
    assert_eq!(proxy.trips(), 0);
}
