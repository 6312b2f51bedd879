//! Client that reads the metrics.

use std::time::Duration;

use garth_engine::Env;
use garth_testkit::proof::{Broken, Proven, hold};

use super::figures::{Figures, HandCount, parse};
use crate::served::{Connection, Request, broken_off};

/// States that end shortly after the calls of other clients, with their values then.
const AT_REST: [(&str, f64); 5] = [
    ("garth_connections_open", 1.0),
    ("garth_queue_length{kind=\"commit\"}", 0.0),
    ("garth_queue_length{kind=\"reader\"}", 0.0),
    ("garth_queue_length{kind=\"compute\"}", 0.0),
    ("garth_queue_length{kind=\"upload\"}", 0.0),
];
/// Scrapes until the server is at rest, and the pause between them.
const SCRAPES: u64 = 6000;
const PAUSE: Duration = Duration::from_millis(10);

/// Connection that reads the metrics.
pub(super) struct Scraper {
    connection: Connection,
}

/// Bytes of a scrape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    request: usize,
    answer: usize,
    body: usize,
}

impl Cost {
    /// Counts the request. A scrape has it in its own figures.
    fn count_request(self, hand: &mut HandCount) {
        hand.add("garth_received_bytes_total", self.request);
    }

    /// Counts the answer. Only later scrapes have it.
    pub(super) fn count_answer(self, hand: &mut HandCount) {
        hand.count_answer(("/metrics", "GET", 200), self.answer, self.body);
    }
}

impl Scraper {
    /// Connects to a server.
    pub(super) fn connect(address: &str) -> Proven<Self> {
        Ok(Self { connection: Connection::open(address)? })
    }

    /// Reads the metrics once no other client is connected and nothing waits. Counts the request of the last
    /// scrape, and those before with their answers.
    pub(super) fn scrape_alone(&mut self, hand: &mut HandCount) -> Proven<(Figures, Cost)> {
        for _ in 0..SCRAPES {
            let (figures, cost) = self.scrape()?;
            cost.count_request(hand);
            if AT_REST.iter().all(|(series, value)| figures.get(*series) == Some(value)) {
                return Ok((figures, cost));
            }
            cost.count_answer(hand);
            Env::system().sleep(PAUSE);
        }
        Err(Broken::because("the server has connections or work after the calls of its clients"))
    }

    fn scrape(&mut self) -> Proven<(Figures, Cost)> {
        let request = Request::new("GET", "/metrics");
        let read = self.connection.bytes_read();
        let answer = self.connection.ask(&request).map_err(|error| broken_off(&request, &error))?;
        hold(answer.status == 200, || format!("a scrape is answered {}", answer.shown()))?;
        let cost = Cost {
            request: request.bytes().len(),
            answer: self.connection.bytes_read() - read,
            body: answer.body.len(),
        };
        Ok((parse(&String::from_utf8_lossy(&answer.body))?, cost))
    }
}
