//! A chat model behind an HTTP endpoint: its requests and its answers.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use garth_agent::models::{Ask, ChatModel as _};
use garth_server::chat_model::{HttpModel, ServedModel};
use garth_server::{Limits, Options};

use super::harness::Server;

/// Starts an endpoint that gives these answers in order. Returns its URL and the requests that it receives.
pub(super) fn endpoint(answers: Vec<(u16, String)>) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut seen, mut piece) = (String::new(), [0; 4096]);
            loop {
                let length = stream.read(&mut piece).unwrap();
                seen.push_str(&String::from_utf8_lossy(&piece[..length]));
                let Some((head, body)) = seen.split_once("\r\n\r\n") else { continue };
                let due = head.to_lowercase().lines().find_map(|line| {
                    line.strip_prefix("content-length: ").map(|length| length.parse::<usize>().unwrap())
                });
                if body.len() >= due.unwrap_or(0) {
                    break;
                }
            }
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            tell.send(seen).unwrap();
        }
    });
    (url, told)
}

fn ask() -> Ask {
    Ask { system: "Be brief.".to_owned(), user: "Why?".to_owned(), max_tokens: 50 }
}

#[tokio::test]
async fn model_is_asked_by_chat_completions() {
    let good =
        r#"{"choices":[{"message":{"role":"assistant","content":"Because."}}],"usage":{"total_tokens":12}}"#;
    let (url, told) = endpoint(vec![(200, good.to_owned())]);
    let model = HttpModel::new(&url, "llama", Some("sk-1".to_owned())).unwrap();
    let answer = model.ask(&ask()).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.tokens), ("Because.", Some(12)));
    let seen = told.recv().unwrap();
    assert!(seen.starts_with("POST /v1/chat/completions HTTP/1.1"), "{seen}");
    for part in ["Bearer sk-1", "\"model\":\"llama\"", "\"max_completion_tokens\":50", "Be brief.", "Why?"] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    assert!(!format!("{model:?}").contains("sk-1"));
}

#[tokio::test]
async fn answers_without_token_sum_are_taken() {
    let body = |usage: &str| format!(r#"{{"choices":[{{"message":{{"content":"Because."}}}}]{usage}}}"#);
    let usages = ["", r#","usage":null"#, r#","usage":{}"#, r#","usage":{"prompt_tokens":7}"#];
    let (url, _told) = endpoint(usages.map(|usage| (200, body(usage))).to_vec());
    let model = HttpModel::new(&url, "llama", None).unwrap();
    for usage in usages {
        let answer = model.ask(&ask()).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.tokens), ("Because.", None), "{usage}");
    }
}

#[test]
fn clients_learn_why_the_model_did_not_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let late = format!("http://{}/v1", silent.local_addr().unwrap());
    let (bad, _told) = endpoint(vec![(401, "oops sk-1".to_owned()), (200, "oops sk-1".to_owned())]);
    let model = |url: &str| HttpModel::new(url, "m", Some("sk-1".to_owned())).unwrap();
    // Raised to the least that is allowed.
    let hasty = Limits::default().model_timeout(Duration::ZERO);
    let [again, change] = ["try again", "the settings of the model must be changed"];
    for (model, dues) in [
        (model(&late).limits(&hasty), vec![("did not answer in time", again)]),
        (
            model(&bad),
            vec![
                ("refused the request (status 401)", change),
                ("returned something else than chat completions", again),
            ],
        ),
        (model("http://127.0.0.1:1/v1"), vec![("could not be reached", again)]),
    ] {
        let model = ServedModel { model: Arc::new(model), daily_tokens: None };
        let server = Server::start_with(Options::default().model(Some(model)));
        server.ok("sessions/create", r#"{"agent":"coder","name":"work"}"#);
        let message = r#"{"role":"user","content":"Hello."}"#;
        server.ok("sessions/append", format!(r#"{{"agent":"coder","name":"work","messages":[{message}]}}"#));
        for (due, advice) in dues {
            let reply = server.post("context/compact", r#"{"agent":"coder","name":"work","keep":0}"#);
            let message = reply.refused(503, "UNAVAILABLE");
            assert_eq!(message, format!("the language model {due}; nothing was lost, {advice}"));
        }
    }
}

#[tokio::test]
async fn model_errors_never_contain_the_key() {
    let bad = ["", "no JSON", "{}", r#"{"choices":"#, "[]"].map(|body| (200, body.to_owned()));
    let answers: Vec<_> =
        bad.into_iter().chain([(500, "oops sk-1".to_owned()), (302, String::new())]).collect();
    let count = answers.len();
    let (url, _told) = endpoint(answers);
    let model = HttpModel::new(&url, "llama", Some("sk-1".to_owned())).unwrap();
    for _ in 0..=count {
        // In the last round, nothing listens.
        let error = model.ask(&ask()).await.unwrap_err();
        assert!(!error.to_string().contains("sk-1"), "{error}");
    }
    for bad in ["", "ftp://x/v1", "http://", "http://user:pass@host/v1"] {
        assert!(HttpModel::new(bad, "m", None).is_err(), "{bad}");
    }
    for bad in ["T0K\n3N", "T0K3N\n", "T0K\r3N", "T0K\u{7f}3N"] {
        let error = HttpModel::new("http://host/v1", "m", Some(bad.to_owned())).unwrap_err();
        assert!(error.message().starts_with("the model's key contains a line feed"), "{error}");
        assert!(!error.message().contains("T0K"), "{error}");
    }
}
