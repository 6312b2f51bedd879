//! An embedding service behind an HTTP endpoint: its requests, the order that it gives a recall, the texts
//! that it never gets, and recalls without its answer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, RwLock, mpsc};
use std::time::Duration;

use futures::executor::block_on;
use garth_agent::models::{Embedder as _, ServiceError};
use garth_engine::FileSystem as _;
use garth_engine::env::ManualClock;
use garth_server::embedder::{HttpEmbedder, ServedEmbedder};
use garth_server::{Limits, Options};
use garth_testkit::data::random::Random;
use garth_testkit::data::secrets::each;
use garth_testkit::embedding_service::{EmbeddingService as Service, reply};
use serde_json::{Value, json};

use super::harness::Server;

const NAMES: [&str; 5] = ["alpha", "beta", "gamma", "delta", "epsilon"];
const DAY: Duration = Duration::from_secs(86_400);

/// Status and body of an answer to some texts.
type Answer = Box<dyn Fn(&[String]) -> (u16, String) + Send + Sync>;

/// Clients of an embedding service.
trait Clients {
    fn client(&self) -> HttpEmbedder;

    /// Starts a server that uses the service.
    fn server(&self, daily_tokens: Option<u64>, limits: Limits) -> Server;
}

impl Clients for Service {
    fn client(&self) -> HttpEmbedder {
        HttpEmbedder::new(self.url(), "small", Some("sk-1".to_owned())).unwrap()
    }

    fn server(&self, daily_tokens: Option<u64>, limits: Limits) -> Server {
        server(&self.client(), daily_tokens, limits)
    }
}

fn server(client: &HttpEmbedder, daily_tokens: Option<u64>, limits: Limits) -> Server {
    let embedder = Arc::new(client.clone().limits(&limits));
    let embedder = ServedEmbedder { embedder, daily_tokens };
    Server::start_with(Options::default().limits(limits).embedder(Some(embedder)))
}

/// Returns an answer that is the same for all texts.
fn fixed(status: u16, body: impl Into<String>) -> Answer {
    let body = body.into();
    Box::new(move |_| (status, body.clone()))
}

/// Returns the vector of a text: each name has an axis of its own, and each question one of a name.
fn vector(text: &str) -> Vec<f64> {
    let named = match text {
        "which ferry note" => "delta",
        "which note of the ferry" => "beta",
        text => text,
    };
    NAMES.iter().map(|name| if named.contains(name) { 1.0 } else { 0.1 }).collect()
}

fn good(texts: &[String]) -> (u16, String) {
    reply(texts.iter().map(|text| vector(text)), 10)
}

fn put(server: &Server, uri: &str, content: &str) {
    server.ok("memories/put", json!({"uri": uri, "content": content}).to_string());
}

/// Stores a memory for each name. All have the same words of the questions.
fn notes(server: &Server) {
    for name in NAMES {
        let uri = format!("ctx://acme/users/ann/memories/events/{name}");
        put(server, &uri, &format!("The ferry note about {name}."));
    }
}

fn ask(server: &Server, question: &str) -> Value {
    server.ok("recall", json!({"question": question}).to_string())
}

/// Returns source, score and text of each piece.
fn shown(answer: &Value) -> Vec<(Value, Value, Value)> {
    let items = answer["items"].as_array().unwrap();
    items.iter().map(|item| (item["source"].clone(), item["score"].clone(), item["text"].clone())).collect()
}

/// Returns the first note of an answer; empty without one.
fn note(answer: &Value) -> &str {
    answer["notes"][0].as_str().unwrap_or_default()
}

fn first(answer: &Value) -> String {
    answer["items"][0]["source"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn texts_are_embedded_in_batches() {
    let service =
        Service::start(|texts| reply(texts.iter().map(|text| vec![text.parse::<f64>().unwrap(), 1.0]), 7));
    let texts: Vec<String> = (0..70).map(|number| number.to_string()).collect();
    let answer = service.client().embed(&texts).await.unwrap();
    let due: Vec<Vec<f32>> = (0_u8..70).map(|number| vec![f32::from(number), 1.0]).collect();
    assert_eq!((answer.vectors, answer.tokens, service.count()), (due, Some(21), 3));
    let (request, _) = service.requests()[0].clone();
    assert!(request.starts_with("POST /v1/embeddings HTTP/1.1"), "{request}");
    assert!(request.contains("Bearer sk-1") && request.contains("\"model\":\"small\""), "{request}");
    assert!(!format!("{:?}", service.client()).contains("sk-1"));
    for bad in ["", "ftp://x/v1", "http://", "http://user:pass@host/v1"] {
        assert!(HttpEmbedder::new(bad, "m", None).is_err(), "{bad}");
    }
    for bad in ["T0K\n3N", "T0K3N\n", "T0K\r3N", "T0K\u{7f}3N"] {
        let error = HttpEmbedder::new("http://host/v1", "m", Some(bad.to_owned())).unwrap_err();
        assert!(error.message().starts_with("the embedding service's key contains a line feed"), "{error}");
        assert!(!error.message().contains("T0K"), "{error}");
    }
}

#[test]
fn embeddings_decide_the_order_of_a_recall() {
    let service = Service::start(good);
    let server = service.server(None, Limits::default());
    notes(&server);
    let by_delta = ask(&server, "which ferry note");
    assert!(first(&by_delta).ends_with("/delta"), "{by_delta}");
    assert_eq!((&by_delta["notes"], &by_delta["fits"]), (&json!([]), &json!(true)));
    assert_eq!(shown(&by_delta).len(), 5, "{by_delta}");
    let by_beta = ask(&server, "which note of the ferry");
    assert!(first(&by_beta).ends_with("/beta"), "{by_beta}");
    // A comparison by words asks nobody.
    let before = service.count();
    server.ok("recall", json!({"question": "which ferry", "mode": "words"}).to_string());
    assert_eq!(service.count(), before);
}

#[test]
fn embeddings_find_the_nearest_text() {
    for nearest in ["tea", "cocoa"] {
        let service = Service::start(move |texts| {
            let of = |text: &String| match text.contains("beverage") || text.contains(nearest) {
                true => vec![1.0, 0.1],
                false => vec![0.1, 1.0],
            };
            reply(texts.iter().map(of), 10)
        });
        let server = service.server(None, Limits::default());
        for name in ["tea", "coffee", "cocoa"] {
            let uri = format!("ctx://acme/users/ann/memories/events/{name}");
            put(&server, &uri, &format!("Her favourite drink is {name}."));
        }
        // No text has a word of the question.
        let answer = ask(&server, "which hot beverage does she prefer");
        assert_eq!(service.inputs().len(), 4, "{:?}", service.inputs());
        assert!(answer["fits"] == json!(false) && first(&answer).ends_with(nearest), "{answer}");
    }
}

#[test]
fn repeated_question_needs_no_vectors() {
    let service = Service::start(good);
    let server = service.server(None, Limits::default());
    notes(&server);
    let account = block_on(server.home.account("acme")).unwrap();
    let head = block_on(account.head()).unwrap().seq;
    let answer = ask(&server, "which ferry note");
    assert_eq!((service.count(), service.inputs().len()), (1, 6), "{:?}", service.inputs());
    assert_eq!(shown(&ask(&server, "which ferry note")), shown(&answer));
    assert_eq!(service.count(), 1);
    // Of another question, only its own vector is new.
    ask(&server, "which note of the ferry");
    assert_eq!(service.inputs()[6..], ["which note of the ferry"]);
    // Vectors are in memory alone.
    assert_eq!(block_on(account.head()).unwrap().seq, head);
    // Those of a text are dropped after a day.
    server.clock.advance(DAY);
    ask(&server, "which ferry note");
    assert_eq!(service.inputs().len(), 13);
    let without = service.server(None, Limits::default().embedder_cache(0));
    notes(&without);
    for _ in 0..2 {
        ask(&without, "which ferry note");
    }
    assert_eq!(service.inputs().len(), 25);
}

#[test]
fn embedding_service_gets_no_secrets() {
    let service = Service::start(good);
    let server = service.server(None, Limits::default());
    let planted = each(&mut Random::new(8));
    for (number, secret) in planted.iter().enumerate() {
        let text = format!("The harbour keeper number{number} has {} in a drawer.\n", secret.text());
        put(&server, &format!("ctx://acme/users/ann/memories/entities/k{number}"), &text);
    }
    ask(&server, "harbour keeper drawer");
    for secret in planted.iter().take(10) {
        ask(&server, &format!("harbour keeper {}", secret.text()));
    }
    let inputs = service.inputs();
    assert!(inputs.iter().filter(|text| text.contains("[secret: ")).count() > 20, "{inputs:?}");
    for secret in &planted {
        for line in secret.secret.split('\n').filter(|line| line.len() > 4 && !line.starts_with('-')) {
            // A few characters of one secret can be in another text by chance.
            let part = if line.len() < 16 { line } else { &line[line.len() / 2..] };
            assert!(inputs.iter().all(|text| !text.contains(part)), "{}: {part}", secret.kind);
        }
    }
}

#[test]
fn embedding_service_gets_no_hidden_texts() {
    let service = Service::start(good);
    let server = service.server(None, Limits::default());
    server.own("coder", "ann");
    let of = |body: Value| {
        let mut body = body;
        (body["agent"], body["user"]) = (json!("coder"), json!("ann"));
        body.to_string()
    };
    server.ok("sessions/create", of(json!({"name": "zoo"})));
    for text in
        ["The quokka keeper is Tom.", "The quokka lives on Rottnest island.", "Every quokka eats leaves."]
    {
        let message = json!({"role": "user", "content": text});
        server.ok("sessions/append", of(json!({"name": "zoo", "messages": [message]})));
    }
    server.ok("sessions/retract", of(json!({"name": "zoo", "source": "messages:2"})));
    ask(&server, "where does the quokka live, on Rottnest?");
    let inputs = service.inputs();
    assert!(inputs.iter().any(|text| text.contains("eats leaves")), "{inputs:?}");
    assert!(inputs.iter().all(|text| !text.contains("lives on")), "{inputs:?}");
    put(&server, "ctx://acme/users/alice/memories/preferences/coffee", "Alice likes her coffee black.");
    put(&server, "ctx://acme/users/bob/memories/preferences/coffee", "Bob likes his coffee: a canary.");
    put(&server, "ctx://acme/agents/bot/memories/cases/coffee", "The bot made coffee once.");
    let asked = json!({"question": "who likes coffee", "agent": "bot", "user": "alice", "chat": "trip"});
    server.ok("recall", asked.to_string());
    let inputs = service.inputs();
    assert!(inputs.iter().any(|text| text.contains("Alice likes")), "{inputs:?}");
    assert!(inputs.iter().all(|text| !text.contains("canary")), "{inputs:?}");
}

#[test]
fn recall_works_without_answer_of_embedding_service() {
    let plain = Server::start();
    notes(&plain);
    let due = shown(&ask(&plain, "which ferry note"));
    let item = |index: usize, embedding: &Value| json!({"index": index, "embedding": embedding});
    let all = |embedding: Value| -> Vec<Value> { (0..6).map(|index| item(index, &embedding)).collect() };
    let data = |items: Vec<Value>| fixed(200, json!({"data": items}).to_string());
    let mut longer = all(json!([1.0, 0.5]));
    longer[5] = item(5, &json!([1.0, 0.5, 0.2]));
    let mut twice = all(json!([1.0, 0.5]));
    twice[5] = item(4, &json!([1.0, 0.5]));
    let too_few: Answer = Box::new(|texts| good(&texts[1..]));
    for (noted, answer) in [
        ("refused the request (status 500)", fixed(500, "oops sk-1")),
        ("refused the request (status 302)", fixed(302, "")),
        ("something else than vectors", fixed(200, "no JSON sk-1")),
        ("something else than vectors", fixed(200, r#"{"data":[{"index":0,"embedding":[NaN]}]}"#)),
        ("something else than vectors", fixed(200, "{}")),
        ("no vector for a text", too_few),
        ("a vector for no text", data(vec![item(6, &json!([1.0]))])),
        ("a vector for no text", data(twice)),
        ("vectors of a wrong length", data(longer)),
        ("a number that is not finite", data(all(json!([1e300, 1.0])))),
        ("a vector of zeros", data(all(json!([0.0, 0.0])))),
        ("a vector of zeros", data(all(json!([])))),
        ("something else than vectors", data(all(json!([null, 1.0])))),
        ("an answer that is too long", fixed(200, " ".repeat(70_000))),
    ] {
        let service = Service::start(answer);
        let server = service.server(None, Limits::default().embedder_max_answer(65_536));
        notes(&server);
        let answer = ask(&server, "which ferry note");
        assert_eq!(shown(&answer), due, "{noted}");
        assert!(note(&answer).contains(noted), "{noted}: {answer}");
        assert_eq!(service.count(), 1, "{noted}");
        assert!(!answer.to_string().contains("sk-1"), "{noted}");
    }
    let slow = Service::start(|_| {
        loop {
            std::thread::park();
        }
    });
    let nobody = HttpEmbedder::new("http://127.0.0.1:1/v1", "m", None).unwrap();
    for (noted, client) in [("did not answer in time", slow.client()), ("could not be reached", nobody)] {
        let server = server(&client, None, Limits::default().embedder_timeout(Duration::from_millis(100)));
        notes(&server);
        let answer = ask(&server, "which ferry note");
        assert!(shown(&answer) == due && note(&answer).contains(noted), "{noted}: {answer}");
    }
    assert_eq!(slow.count(), 1);
}

#[test]
fn waiting_recalls_leave_room_for_other_calls() {
    // As many as may wait for the service. Fewer long answers of an account have room.
    const WAITING: usize = 8;
    let (gate, (sender, asked)) = (Arc::new(RwLock::new(())), mpsc::channel());
    let own = Arc::clone(&gate);
    let closed = gate.write().unwrap();
    let service = Service::start(move |texts| {
        sender.send(()).ok();
        drop(own.read().unwrap());
        good(texts)
    });
    // A call without room is refused at once.
    let limits = Limits::default().embedder_timeout(Duration::from_secs(300)).room_wait(Duration::ZERO);
    let server = service.server(None, limits);
    notes(&server);
    std::thread::scope(|scope| {
        let server = &server;
        let recall = |n| scope.spawn(move || ask(server, &format!("which ferry note {n}")));
        let recalls: Vec<_> = (0..WAITING).map(recall).collect();
        for _ in 0..WAITING {
            // Not measured: it ends a test that fails.
            asked.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        server.ok("search", json!({"query": "ferry", "kinds": []}).to_string());
        server.ok("memories/list", json!({"prefix": "ctx://acme/users/ann"}).to_string());
        let by_words = json!({"question": "which ferry note", "mode": "words"});
        assert_eq!(server.ok("recall", by_words.to_string())["notes"], json!([]));
        // One more would wait for its turn, here for no time.
        let over = ask(server, "which ferry note");
        assert!(note(&over).contains("too many requests") && shown(&over).len() == 5, "{over}");
        assert_eq!(service.count(), WAITING);
        drop(closed);
        for recall in recalls {
            assert_eq!(recall.join().unwrap()["notes"], json!([]));
        }
    });
    assert_eq!(ask(&server, "which ferry note")["notes"], json!([]));
}

#[test]
fn hung_embedding_service_is_seldom_asked() {
    let (clock, is_hung) = (Arc::new(OnceLock::<ManualClock>::new()), Arc::new(AtomicBool::new(true)));
    let (own, hung) = (Arc::clone(&clock), Arc::clone(&is_hung));
    let service = Service::start(move |texts| {
        if !hung.load(Ordering::Relaxed) {
            return good(texts);
        }
        own.get().unwrap().advance(Duration::from_secs(5));
        (500, String::new())
    });
    let server = service.server(Some(1_000), Limits::default());
    clock.set(server.clock.clone()).unwrap();
    notes(&server);
    let note = |question: &str| note(&ask(&server, question)).to_owned();
    for noted in ["status 500", "failed shortly before", "failed shortly before"] {
        assert!(note("which ferry note").contains(noted), "{noted}");
    }
    assert_eq!(service.count(), 1);
    is_hung.store(false, Ordering::Relaxed);
    server.clock.advance(Duration::from_secs(59));
    assert!(note("which ferry note").contains("failed shortly before"));
    server.clock.advance(Duration::from_secs(1));
    assert_eq!((note("which ferry note"), service.count()), (String::new(), 2));
    // Known vectors are used in a pause as well.
    is_hung.store(true, Ordering::Relaxed);
    assert!(note("which note of the ferry").contains("status 500"));
    assert_eq!((note("which ferry note"), service.count()), (String::new(), 3));
}

#[tokio::test]
async fn embedding_errors_never_contain_the_key() {
    let service = Service::start(fixed(500, "oops sk-1"));
    let nobody = HttpEmbedder::new("http://127.0.0.1:1/v1", "m", Some("sk-1".to_owned())).unwrap();
    for (client, due) in [(service.client(), ServiceError::Refused(500)), (nobody, ServiceError::Unreachable)]
    {
        let error = client.embed(&["text".to_owned()]).await.unwrap_err();
        assert!(error == due && !error.to_string().contains("sk-1"), "{error}");
    }
}

#[test]
fn other_model_of_same_name_is_noticed() {
    let length = Arc::new(AtomicUsize::new(5));
    let own = Arc::clone(&length);
    let service = Service::start(move |texts| {
        let of = |text: &String| {
            let mut numbers = vector(text);
            numbers.resize(own.load(Ordering::Relaxed), 0.1);
            numbers
        };
        reply(texts.iter().map(of), 10)
    });
    let server = service.server(None, Limits::default());
    notes(&server);
    assert!(first(&ask(&server, "which ferry note")).ends_with("/delta"));
    length.store(7, Ordering::Relaxed);
    let mixed = ask(&server, "which note of the ferry");
    assert!(note(&mixed).contains("another length than before"), "{mixed}");
    // The next recall computes all of them again.
    let answer = ask(&server, "which note of the ferry");
    assert!(first(&answer).ends_with("/beta") && answer["notes"] == json!([]), "{answer}");
    assert_eq!(service.inputs().len(), 6 + 1 + 6);
}

#[test]
fn recall_counts_tokens_in_one_commit() {
    let is_down = Arc::new(AtomicBool::new(true));
    let own = Arc::clone(&is_down);
    let service = Service::start(move |texts| match own.load(Ordering::Relaxed) {
        true => (500, String::new()),
        false => good(texts),
    });
    let server = service.server(Some(80), Limits::default());
    notes(&server);
    let account = block_on(server.home.account("acme")).unwrap();
    let head = || block_on(account.head()).unwrap().seq.0;
    // The first count makes the folder that it is in, too.
    ask(&server, "which ferry note");
    let before = head();
    // The tokens of two calls are beyond the limit, but a failed call counts nothing.
    for _ in 0..3 {
        assert!(note(&ask(&server, "which ferry note")).contains("status 500"));
    }
    is_down.store(false, Ordering::Relaxed);
    assert_eq!(ask(&server, "which ferry note")["notes"], json!([]));
    assert_eq!(head(), before + 4);
}

#[test]
fn recall_respects_daily_embedding_tokens() {
    let service = Service::start(|texts| reply(texts.iter().map(|text| vector(text)), 1_000_000));
    let server = service.server(Some(80), Limits::default());
    notes(&server);
    let answer = ask(&server, "which ferry note");
    assert_eq!((&answer["notes"], service.count()), (&json!([]), 1));
    let over = ask(&server, "which note of the ferry");
    assert!(note(&over).contains("used up for today"), "{over}");
    assert_eq!((shown(&over).len(), service.count()), (5, 1));
    // Known vectors cost nothing.
    assert_eq!(ask(&server, "which ferry note")["notes"], json!([]));
    // Neither the file of the count nor its text is found.
    assert!(!ask(&server, "tokens date embedder").to_string().contains("embedder.json"));
    server.clock.advance(DAY);
    assert_eq!(ask(&server, "which note of the ferry")["notes"], json!([]));
    assert_eq!(service.count(), 2);
}
