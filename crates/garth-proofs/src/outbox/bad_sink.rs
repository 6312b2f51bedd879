//! Sink over HTTP that misbehaves: at the first attempts of an event it fails, hangs, or responds late or
//! twice.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use garth_agent::memory::Event;
use garth_engine::Env;
use garth_testkit::data::random::Random;
use garth_testkit::proof::Proven;

use super::shared_settings::TIMEOUT;

/// Attempts of an event at which the sink may misbehave.
const BAD_TRIES: u64 = 2;

/// A request that has taken effect in the sink.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// Delivered event.
    pub(super) event: Event,
}

/// Requests that the sink received.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// Requests that took effect, in this order.
    pub(super) told: Vec<Told>,
    /// Number of all requests.
    pub(super) requests: usize,
    /// Descriptions of invalid requests.
    pub(super) wrong: Vec<String>,
    tries: HashMap<String, u64>,
}

/// A running sink.
pub(super) struct Sink {
    pub(super) url: String,
    journal: Arc<Mutex<Journal>>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Reaction to a request.
#[derive(Clone, Copy)]
enum How {
    Well,
    Failing,
    Hanging,
    Late,
    Twice,
}

impl Sink {
    pub(super) fn start(seed: u64) -> Proven<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/events", listener.local_addr()?);
        let (journal, stopped) = (Arc::<Mutex<Journal>>::default(), Arc::<AtomicBool>::default());
        let (notes, stop) = (Arc::clone(&journal), Arc::clone(&stopped));
        let thread = std::thread::spawn(move || {
            let mut random = Random::new(seed ^ 0x51_4b);
            for stream in listener.incoming() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let (Ok(stream), notes, dice) = (stream, Arc::clone(&notes), random.below(10)) else {
                    continue;
                };
                // A client that was killed in the middle is not a failure of the sink.
                std::thread::spawn(move || drop(answer(&stream, &notes, dice)));
            }
        });
        Ok(Self { url, journal, stopped, thread: Some(thread) })
    }

    /// Stops the sink and returns its journal.
    pub(super) fn stop(mut self) -> Journal {
        self.stopped.store(true, Ordering::Release);
        // Wakes it.
        let address = self.url.trim_start_matches("http://").trim_end_matches("/events");
        drop(TcpStream::connect(address));
        if let Some(thread) = self.thread.take() {
            // It does not panic.
            let _ = thread.join();
        }
        std::mem::take(&mut *self.journal.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads a request and responds to it.
fn answer(stream: &TcpStream, journal: &Mutex<Journal>, dice: u64) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut key, mut is_signed, mut line) = (0, String::new(), false, String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            if line.trim_end().is_empty() {
                break;
            }
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "idempotency-key" => value.trim().clone_into(&mut key),
            "x-garth-signature" => is_signed = value.trim().starts_with("v1="),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let how = noted(journal, &body, &key, is_signed, dice);
    let (sleep, mut out) = (Env::system(), stream);
    let text = |code: &str| format!("HTTP/1.1 {code}\r\ncontent-length: 2\r\n\r\nok");
    match how {
        How::Well => out.write_all(text("200 OK").as_bytes()),
        How::Failing => out.write_all(text("500 Failed").as_bytes()),
        How::Twice => out.write_all(text("200 OK").repeat(2).as_bytes()),
        How::Late => {
            sleep.sleep(Duration::from_millis(TIMEOUT + 150));
            out.write_all(text("200 OK").as_bytes())
        }
        How::Hanging => {
            sleep.sleep(Duration::from_millis(2 * TIMEOUT));
            Ok(())
        }
    }
}

/// Records a request, in the order in which it takes effect, and returns the reaction to it.
fn noted(journal: &Mutex<Journal>, body: &[u8], key: &str, is_signed: bool, dice: u64) -> How {
    let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
    journal.requests += 1;
    let event = match Event::parse(body) {
        Ok(event) if event.event_id == key && is_signed => event,
        Ok(event) => {
            journal.wrong.push(format!("{} came under the key `{key}`, or was not signed", event.event_id));
            return How::Well;
        }
        Err(error) => {
            journal.wrong.push(error.to_string());
            return How::Well;
        }
    };
    let tries = journal.tries.entry(key.to_owned()).or_default();
    *tries += 1;
    let how = match dice {
        0 if *tries <= BAD_TRIES => How::Failing,
        1 if *tries <= BAD_TRIES => How::Hanging,
        2 if *tries <= BAD_TRIES => How::Late,
        3 => How::Twice,
        _ => How::Well,
    };
    if matches!(how, How::Well | How::Late | How::Twice) {
        journal.told.push(Told { event });
    }
    how
}
