//! Calls that wait for a language model: their number is bounded, also by account, and a call without a turn
//! has no effect.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::datadir::Scope as KeyScope;
use garth_server::chat_model::{HttpModel, ServedModel};
use garth_server::{Limits, Options};

use super::harness::{Reply, Server};

const COMPACT: (&str, &str) = ("context/compact", r#"{"agent":"coder","name":"work","keep":0}"#);
const RESET: (&str, &str) = ("agents/coder/reset", r#"{"name":"work"}"#);

/// Calls that wait for the model, each with its connection at the endpoint of the model.
type Waiting<'scope> = Vec<(ScopedJoinHandle<'scope, Reply>, TcpStream)>;

/// Starts an endpoint that accepts requests and never answers. Returns its URL and its connections.
fn silent_endpoint() -> (String, Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (sender, connections) = channel();
    std::thread::spawn(move || while sender.send(listener.accept().unwrap().0).is_ok() {});
    (url, connections)
}

/// Starts a server with three accounts that have a session each. Returns their keys.
fn server(url: &str, limits: Limits) -> (Server, [String; 3]) {
    let model = Arc::new(HttpModel::new(url, "m", None).unwrap());
    // With a limit on tokens, a call that asks the model makes a commit before.
    let model = ServedModel { model, daily_tokens: Some(1_000_000) };
    let server = Server::start_with(Options::default().limits(limits).model(Some(model)));
    let keys = ["busy", "other", "third"].map(|account| {
        block_on(server.home.create_account(account)).unwrap();
        let key = server.key(account, &[KeyScope::Admin]);
        let message = r#"{"role":"user","content":"Hello."}"#;
        for (call, field) in [("create", String::new()), ("append", format!(r#","messages":[{message}]"#))] {
            let body = format!(r#"{{"agent":"coder","name":"work"{field}}}"#);
            let reply = server.post_as(&key, &format!("sessions/{call}"), body);
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
        key
    });
    (server, keys)
}

/// Starts calls of an account. Returns when each of them waits for the model.
fn begin<'scope>(
    scope: &'scope Scope<'scope, '_>,
    server: &'scope Server,
    asked: &Receiver<TcpStream>,
    key: &'scope str,
    calls: [(&'scope str, &'scope str); 2],
) -> Waiting<'scope> {
    let calls = calls.into_iter().map(|(call, body)| {
        let reply = scope.spawn(move || server.post_as(key, call, body));
        // Not measured: it ends a test that fails.
        (reply, asked.recv_timeout(Duration::from_secs(60)).unwrap())
    });
    calls.collect()
}

/// Closes the connections of calls. Returns the statuses of their answers.
fn end(waiting: Waiting<'_>) -> Vec<u16> {
    let ended = waiting.into_iter().map(|(reply, connection)| {
        drop(connection);
        reply.join().unwrap().status
    });
    ended.collect()
}

/// Returns the number of commits of an account.
fn commits(server: &Server, account: &str) -> u64 {
    block_on(block_on(server.home.account(account)).unwrap().head()).unwrap().seq.0
}

#[test]
fn hanging_model_leaves_turns_for_other_accounts() {
    let (url, asked) = silent_endpoint();
    // Two calls of an account may wait, and four in all. Another one is refused at once.
    let limits = Limits::default().model_calls(4).room_wait(Duration::ZERO);
    let (server, keys) = server(&url, limits);
    let [busy, other, third] = keys.each_ref().map(String::as_str);
    let refuse = |key: &str, (call, body): (&str, &str)| {
        let reply = server.post_as(key, call, body);
        let message = reply.refused(503, "UNAVAILABLE");
        assert!(message.contains("wait for the language model"), "{message}");
        assert_eq!(reply.header("retry-after"), Some("1"));
    };
    std::thread::scope(|scope| {
        let first = begin(scope, &server, &asked, busy, [COMPACT, COMPACT]);
        let before = commits(&server, "busy");
        refuse(busy, COMPACT);
        refuse(busy, RESET);
        assert_eq!(commits(&server, "busy"), before, "a refused call has an effect");
        let second = begin(scope, &server, &asked, other, [COMPACT, RESET]);
        refuse(third, COMPACT);
        for key in [busy, other, third] {
            assert_eq!(server.post_as(key, "get", r#"{"path":"/a"}"#).status, 200);
        }
        // Without the model, there is nothing to wait for.
        let excerpts = COMPACT.1.replace('}', r#","by_model":false}"#);
        let reply = server.post_as(third, COMPACT.0, excerpts);
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(end(first), [503, 503]);
        // A reset without an answer of the model leaves a job that asks again.
        assert_eq!(end(second), [503, 200]);
        assert_eq!(end(begin(scope, &server, &asked, busy, [COMPACT, COMPACT])), [503, 503]);
    });
}
