//! Many writers of one file at the same time.

use std::sync::Barrier;

use garth_server::{Limits, Options};
use serde_json::json;

use super::{bytes, etag, get, head_of_account, put, send};
use crate::it::harness::{Reply, Server};

const WRITERS: u64 = 64;
/// Sizes of content that is part of the commit, and of content that is stored before.
const SIZES: [usize; 2] = [10, 300_000];

/// Starts a server with room for the content of all writers, so that none is refused on a slow machine.
fn server() -> Server {
    Server::start_with(Options::default().limits(Limits::default().transfer_room(1 << 30)))
}

/// Returns the answers to writers that send at the same time.
fn at_once(write: impl Fn(u64) -> Reply + Sync) -> Vec<Reply> {
    let barrier = Barrier::new(WRITERS as usize);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (barrier, write) = (&barrier, &write);
                scope.spawn(move || {
                    barrier.wait();
                    write(writer)
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    })
}

fn versions(server: &Server, path: &str) -> usize {
    let history = server.ok("tree/history", json!({"path": path}).to_string());
    history["items"].as_array().unwrap().len()
}

#[test]
fn equal_puts_write_one_version() {
    let server = server();
    for size in SIZES {
        let (path, body, before) = (format!("/deep/{size}"), bytes(1, size), head_of_account(&server));
        let key = format!("idempotency-key: put-{size}\r\n");
        let replies = at_once(|_| send(&server, "PUT", &path, &key, &body));
        let answer = |reply: &Reply| (reply.status, reply.text(), reply.header("etag").map(str::to_owned));
        let first = answer(&replies[0]);
        assert_eq!(first.0, 201, "{}", first.1);
        for reply in &replies {
            assert_eq!(answer(reply), first);
        }
        assert_eq!((versions(&server, &path), head_of_account(&server).0), (1, before.0 + 1));
        assert!(get(&server, &path).body == body);
    }
}

#[test]
fn one_put_of_many_with_equal_etag_succeeds() {
    let server = server();
    for size in SIZES {
        let path = format!("/deep/{size}");
        put(&server, &path, b"old");
        let (condition, before) = (etag(&server, &path), head_of_account(&server));
        let write = |writer: u64| {
            let more = format!("idempotency-key: put-{size}-{writer}\r\nif-match: {condition}\r\n");
            send(&server, "PUT", &path, &more, &bytes(writer, size))
        };
        let replies = at_once(write);
        let won: Vec<usize> = (0..replies.len()).filter(|writer| replies[*writer].status == 200).collect();
        assert_eq!(won.len(), 1);
        for (writer, reply) in replies.iter().enumerate().filter(|(writer, _)| *writer != won[0]) {
            assert!(reply.refused(412, "CONFLICT").contains("If-Match"), "{writer}");
        }
        assert_eq!((versions(&server, &path), head_of_account(&server).0), (2, before.0 + 1));
        assert!(get(&server, &path).body == bytes(won[0] as u64, size));
        // A repeat of the winner is no second write, and one of the others is refused again.
        let again = at_once(write);
        assert_eq!(again[won[0]].text(), replies[won[0]].text());
        assert_eq!(again.iter().filter(|reply| reply.status == 412).count(), replies.len() - 1);
        assert_eq!(head_of_account(&server).0, before.0 + 1);
    }
}
