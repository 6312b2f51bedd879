//! Events over HTTP: the form of a request, the answers that count, and the courier, which notices commits.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use garth_agent::memory::event::Payload;
use garth_agent::memory::{Event, EventType, Memories, Put, Uri};
use garth_agent::outbox::Sink;
use garth_agent::session::{Append, Change, Create, Draft, PackOptions, Sessions, State};
use garth_engine::model::Timestamp;
use garth_engine::{Env, ErrorKind, FileSystemExt};
use garth_server::Collecting;
use garth_server::outbox::{Courier, HttpSink};
use tokio::sync::watch;

const SECRET: &[u8] = b"0123456789abcdef";

/// Request: head in lower case, and body.
type Request = (String, Vec<u8>);

/// Starts an endpoint that gives each request the next of these answers, and the last one from then on. An
/// empty text means no answer.
fn endpoint(answers: &[&str]) -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    let answers = Arc::new(Mutex::new(answers.iter().map(|answer| (*answer).to_owned()).collect::<Vec<_>>()));
    let (heard, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, heard, answers) = (stream.unwrap(), heard.clone(), Arc::clone(&answers));
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
                let head = head.to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.unwrap().parse().unwrap()];
                reader.read_exact(&mut body).unwrap();
                // The test may have ended.
                let _ = heard.send((head, body));
                let answer = {
                    let mut answers = answers.lock().unwrap();
                    if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() }
                };
                if answer.is_empty() {
                    std::thread::park();
                }
                let _ = stream.write_all(answer.as_bytes());
            });
        }
    });
    (url, requests)
}

fn answer(code: &str, headers: &str) -> String {
    format!("HTTP/1.1 {code}\r\ncontent-length: 0\r\n{headers}\r\n")
}

fn event() -> Event {
    let uri = "ctx://acme/users/ann/memories/profile";
    Event::new(&Env::system(), EventType::DeleteContext, uri, Payload::default()).unwrap()
}

fn sink(url: &str) -> HttpSink {
    HttpSink::new(url, SECRET, Env::system()).unwrap()
}

#[tokio::test]
async fn delivery_has_event_key_and_signature() {
    let (url, requests) = endpoint(&[&answer("204 No Content", "")]);
    let event = event();
    sink(&url).deliver(&event).await.unwrap();
    let (head, body) = requests.recv().unwrap();
    assert_eq!(Event::parse(&body).unwrap(), event);
    let header = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {head}")).to_owned()
    };
    assert!(head.starts_with("post /events http/1.1\r\n"));
    assert_eq!(header("idempotency-key"), event.event_id);
    assert_eq!(header("content-type"), "application/json");
    assert!(header("x-garth-timestamp").parse::<u64>().unwrap() > 1_700_000_000);
    let signature = header("x-garth-signature");
    assert!(signature.starts_with("v1=") && signature.len() == 67, "{signature}");
}

#[tokio::test]
async fn delivery_needs_a_2xx_in_time() {
    let (moved, elsewhere) = endpoint(&[&answer("200 OK", "")]);
    let redirect = answer("307 Temporary Redirect", &format!("location: {moved}\r\n"));
    let late = answer("503 Unavailable", "retry-after: 30\r\n");
    let no_time = answer("400 Bad", "retry-after: 30\r\n");
    let (url, _requests) = endpoint(&[&redirect, &late, &no_time, "nonsense\r\n\r\n", ""]);
    let sink = sink(&url).timeout_after(Duration::from_millis(300));
    let mut failures = Vec::new();
    for _ in 0..5 {
        let error = sink.deliver(&event()).await.unwrap_err();
        assert!(!error.message().contains("127.0.0.1"), "{error}");
        failures.push((error.message().to_owned(), error.asked_for()));
    }
    assert_eq!(failures[0], ("the sink answered 307".to_owned(), None));
    assert!(elsewhere.try_recv().is_err(), "nobody follows it");
    assert_eq!(failures[1], ("the sink answered 503".to_owned(), Some(Duration::from_secs(30))));
    assert_eq!(failures[2].1, None);
    assert!(failures[3].0.contains("HTTP"), "{failures:?}");
    assert_eq!(failures[4].0, "the sink did not answer in time");
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = self::sink(&format!("http://{unused}/")).deliver(&event()).await.unwrap_err();
    assert!(refused.message().contains("cannot be reached"), "{refused}");
}

#[test]
fn sink_rejects_bad_urls_and_secrets() {
    for url in ["", "example.com", "ftp://example.com", "http://", "https://ann:pass@example.com/"] {
        let error = HttpSink::new(url, SECRET, Env::system()).unwrap_err();
        assert!(error.is(ErrorKind::InvalidArgument) && !error.message().contains("pass@"), "{url}: {error}");
    }
    assert!(HttpSink::new("https://example.com/x?y", &SECRET[1..], Env::system()).is_err());
    assert!(HttpSink::new("https://example.com/x?y", SECRET, Env::system()).is_ok());
    let torn = HttpSink::new("https://example.com/", b"0123456789abcdef\nT0K3N", Env::system()).unwrap_err();
    assert!(torn.message().contains("the sink's secret contains a line feed"), "{torn}");
    assert!(!torn.message().contains("T0K3N"), "{torn}");
}

#[tokio::test(flavor = "multi_thread")]
async fn courier_delivers_commits_of_every_account() {
    let folder = tempfile::tempdir().unwrap();
    let data =
        garth_engine::DataDir::builder(garth_agent::registry()).open(&folder.path().join("data")).unwrap();
    for account in ["acme", "other"] {
        data.create_account(account).await.unwrap();
    }
    let (url, requests) = endpoint(&[&answer("200 OK", "")]);
    let (stop, stopping) = watch::channel(false);
    let running =
        tokio::spawn(Courier::new(Arc::new(data.clone()), Some(Arc::new(sink(&url)))).run(stopping));
    // Commits of this process and of another one.
    let elsewhere =
        garth_engine::DataDir::builder(garth_agent::registry()).open(&folder.path().join("data")).unwrap();
    for (account, data) in [("acme", &data), ("other", &elsewhere), ("acme", &elsewhere), ("other", &data)] {
        let tree = data.account(account).await.unwrap();
        let uri: Uri = format!("ctx://{account}/users/ann/memories/profile").parse().unwrap();
        let memories = Memories::new(&*tree, account);
        let text = format!("Fact {} about her.", Env::system().now().0);
        let version = memories.put(&uri, &Put::new(text)).await.unwrap().meta.version;
        let (_, body) =
            tokio::task::block_in_place(|| requests.recv_timeout(Duration::from_secs(20)).unwrap());
        assert_eq!(Event::parse(&body).unwrap().uri, uri.to_string());
        let done = uri.file(".outbox/.done");
        while tree.lookup(&done).await.unwrap().is_none()
            || tree.read_to_string(&done).await.unwrap() != format!("{version}\n")
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    stop.send_replace(true);
    running.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn courier_releases_accounts_that_others_delete() {
    let folder = tempfile::tempdir().unwrap();
    let open =
        || garth_engine::DataDir::builder(garth_agent::registry()).open(&folder.path().join("data")).unwrap();
    let (data, elsewhere) = (open(), open());
    data.create_account("acme").await.unwrap();
    let tree = data.account("acme").await.unwrap();
    let (stop, stopping) = watch::channel(false);
    let running = tokio::spawn(Courier::new(Arc::new(data.clone()), None).run(stopping));
    elsewhere.delete_account("acme").await.unwrap();
    let is_released = async || tree.head().await.is_err_and(|error| error.is(ErrorKind::NotFound));
    for _ in 0..2000 {
        if is_released().await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is_released().await);
    stop.send_replace(true);
    running.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn courier_collects_packs_when_due() {
    let folder = tempfile::tempdir().unwrap();
    let (env, clock) = Env::manual(Timestamp(1_769_472_000_000_000_000));
    let data = garth_engine::DataDir::builder(garth_agent::registry())
        .env(env.clone())
        .open(&folder.path().join("data"))
        .unwrap();
    data.create_account("acme").await.unwrap();
    let tree = data.account("acme").await.unwrap();
    let sessions = Sessions::new(&*tree, "ann", "coder").unwrap().env(env);
    let file = |session: &str, name: &str| sessions.directory(session).unwrap().as_str().to_owned() + name;
    for session in ["short", "long", "bad"] {
        sessions.create(&Create::new(session)).await.unwrap();
        sessions.pack(session, &PackOptions::default()).await.unwrap();
    }
    tree.write(file("short", "/context/gc.policy"), "pack_ttl=30s\n").await.unwrap();
    let said = Append::messages([Draft::user("Hello.")]);
    sessions.append("short", &said).await.unwrap();
    sessions.pack("short", &PackOptions::default()).await.unwrap();
    let (stop, stopping) = watch::channel(false);
    let courier = Courier::new(Arc::new(data.clone()), None).collecting(Collecting::default());
    let running = tokio::spawn(courier.run(stopping));
    let gone = async |session: &str| {
        let pack = file(session, "/context/pack.json");
        for _ in 0..2000 {
            if tree.lookup(&pack).await.unwrap().is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{pack} is still there");
    };
    clock.advance(Duration::from_secs(40));
    gone("short").await;
    assert!(tree.lookup(file("long", "/context/pack.json")).await.unwrap().is_some());
    // One session that cannot be collected does not stop the others.
    tree.write(file("bad", "/context/gc.policy"), "no policy").await.unwrap();
    clock.advance(Duration::from_secs(26 * 60 * 60));
    gone("long").await;
    assert!(tree.lookup(file("bad", "/context/pack.json")).await.unwrap().is_some());
    stop.send_replace(true);
    running.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_collected_only_with_permission() {
    for history in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let data = garth_engine::DataDir::builder(garth_agent::registry())
            .open(&folder.path().join("data"))
            .unwrap();
        data.create_account("acme").await.unwrap();
        let tree = data.account("acme").await.unwrap();
        let sessions = Sessions::new(&*tree, "ann", "coder").unwrap();
        let file = |name: &str| format!("{}/{name}", sessions.directory("work").unwrap().as_str());
        sessions.create(&Create::new("work")).await.unwrap();
        sessions.append("work", &Append::messages([Draft::user("Hello.")])).await.unwrap();
        let policy = "pack_ttl=0s\nkeep_messages=0\nhistory=archive\nhistory_ttl=0s\n";
        tree.write(file("context/gc.policy"), policy).await.unwrap();
        sessions.pack("work", &PackOptions::default()).await.unwrap();
        sessions.set("work", &Change::new().state(State::Done)).await.unwrap();
        let said = tree.read_to_string(file("messages.jsonl")).await.unwrap();
        let (stop, stopping) = watch::channel(false);
        let courier = Courier::new(Arc::new(data.clone()), None).collecting(Collecting { history });
        let running = tokio::spawn(courier.run(stopping));
        // Both are of the same run.
        while !tree.read_to_string(file("events.jsonl")).await.unwrap().contains("context.collected") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let archive = tree.read_to_string(file("archive/messages.jsonl")).await.ok();
        assert_eq!(archive, history.then_some(said.clone()));
        let left = tree.read_to_string(file("messages.jsonl")).await.unwrap();
        assert_eq!(left, if history { String::new() } else { said });
        stop.send_replace(true);
        running.await.unwrap();
    }
}

/// A sink that holds the events of memories named `slow` until it is released, and records all others.
#[derive(Debug)]
struct Hangs {
    let_go: tokio::sync::Semaphore,
    taken: tokio::sync::mpsc::UnboundedSender<String>,
}

#[async_trait::async_trait]
impl Sink for Hangs {
    fn timeout(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn deliver(&self, event: &Event) -> Result<(), garth_agent::outbox::SinkError> {
        if event.uri.ends_with("/slow") {
            drop(self.let_go.acquire().await);
        }
        let _ = self.taken.send(event.uri.clone());
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_delivery_delays_no_other_memory() {
    let folder = tempfile::tempdir().unwrap();
    let data =
        garth_engine::DataDir::builder(garth_agent::registry()).open(&folder.path().join("data")).unwrap();
    // More accounts than are visited at once.
    let accounts: Vec<String> = (0..8).map(|number| format!("a{number}")).collect();
    let put = async |account: &str, slug: &str| {
        let tree = data.account(account).await.unwrap();
        let uri: Uri = format!("ctx://{account}/users/ann/memories/events/{slug}").parse().unwrap();
        let memories = Memories::new(&*tree, account);
        memories.put(&uri, &Put::new("It happened.")).await.unwrap();
        uri.to_string()
    };
    let (taken, mut told) = tokio::sync::mpsc::unbounded_channel();
    let sink = Arc::new(Hangs { let_go: tokio::sync::Semaphore::new(0), taken });
    let (stop, stopping) = watch::channel(false);
    let mut slow = Vec::new();
    for account in &accounts {
        data.create_account(account).await.unwrap();
        slow.push(put(account, "slow").await);
    }
    let running = tokio::spawn(Courier::new(Arc::new(data.clone()), Some(sink.clone())).run(stopping));
    for round in 0..3 {
        let mut due = Vec::new();
        for account in &accounts {
            due.push(put(account, &format!("quick-{round}")).await);
        }
        let mut came = Vec::new();
        while came.len() < due.len() {
            came.push(told.recv().await.unwrap());
        }
        came.sort();
        assert_eq!(came, due, "beside deliveries that hang");
    }
    sink.let_go.close();
    let mut came = Vec::new();
    while came.len() < slow.len() {
        came.push(told.recv().await.unwrap());
    }
    came.sort();
    assert_eq!(came, slow);
    stop.send_replace(true);
    running.await.unwrap();
}
