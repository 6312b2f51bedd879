//! Clients that send a byte of a request at a time, or take an answer slowly.

use std::io;
use std::time::Duration;

use garth_testkit::proof::{Broken, Proven, hold};
use serde_json::json;

use super::mix::{LARGE, LARGE_BYTE, LARGE_SIZE};
use super::run::Run;
use crate::served::{Connection, Request, broken_off};

/// Bytes of an answer that are taken at a time.
const TAKEN: usize = 256 << 10;
/// Length of a body that is sent slowly. At a byte a second it stays within the time limit of the server.
const BODY: usize = 12;

/// Server, and a key that stays valid.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) address: &'a str,
    pub(super) key: &'a str,
}

/// Requests of slow clients.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlowCounts {
    /// Requests that were sent slowly and answered.
    pub(super) answered: u64,
    /// Requests whose head took longer than the time limit, so that the server closed the connection.
    pub(super) closed: u64,
    /// Answers that were taken slowly, to their end.
    pub(super) taken: u64,
}

impl SlowCounts {
    /// Adds the requests of another client.
    pub(super) fn add(&mut self, more: Self) {
        self.answered += more.answered;
        self.closed += more.closed;
        self.taken += more.taken;
    }
}

/// Sends requests, each byte `pace` after the one before, or takes answers at that pace, until the run ends.
/// The number of the client decides which. Each client finishes its first request.
///
/// # Errors
/// A request that is answered by an error, or an answer that breaks off.
pub(super) fn send_slowly(target: Target<'_>, number: u64, pace: Duration, run: &Run) -> Proven<SlowCounts> {
    let mut counts = SlowCounts::default();
    for n in 0_u64.. {
        let client = Client { target, number, pace, run, is_first: n == 0 };
        match number % 6 {
            0 | 1 => client.send_head(&mut counts)?,
            2 => client.take_answer(&mut counts)?,
            _ => client.send_body(&mut counts)?,
        }
        if run.is_ending() {
            break;
        }
    }
    Ok(counts)
}

/// Client with one request.
struct Client<'a> {
    target: Target<'a>,
    number: u64,
    pace: Duration,
    run: &'a Run,
    is_first: bool,
}

impl Client<'_> {
    /// Waits for the next byte. Returns false if the run ends and the request need not be finished.
    fn goes_on(&self) -> bool {
        if self.is_first && !self.run.has_failed() {
            garth_engine::Env::system().sleep(self.pace);
            return true;
        }
        self.run.sleep(self.pace);
        !self.run.is_ending()
    }

    fn send_head(&self, counts: &mut SlowCounts) -> Proven<()> {
        let request = Request::post("get", &json!({"path": "/load/0"})).key(self.target.key);
        let mut connection = Connection::open(self.target.address)?;
        for byte in request.bytes() {
            if !self.goes_on() {
                return Ok(());
            }
            match connection.send(&[byte]) {
                Err(error) if is_closed(&error) => {
                    counts.closed += 1;
                    return Ok(());
                }
                sent => sent.map_err(|error| broken_off(&request, &error))?,
            }
        }
        match connection.answer() {
            Ok(answer) => {
                hold(answer.is_ok(), || format!("{} is answered {}", request.name(), answer.shown()))?;
                counts.answered += 1;
            }
            Err(error) if is_closed(&error) => counts.closed += 1,
            Err(error) => return Err(broken_off(&request, &error)),
        }
        Ok(())
    }

    fn send_body(&self, counts: &mut SlowCounts) -> Proven<()> {
        let request = Request::new("PUT", format!("/v1/fs/slow/{}", self.number));
        let request = request.key(self.target.key).body([b'x'; BODY]);
        let failed = |error: io::Error| broken_off(&request, &error);
        let mut connection = Connection::open(self.target.address)?;
        connection.send(&request.head()).map_err(failed)?;
        for _ in 0..BODY {
            if !self.goes_on() {
                return Ok(());
            }
            connection.send(b"x").map_err(failed)?;
        }
        let answer = connection.answer().map_err(failed)?;
        hold(answer.is_ok(), || format!("{} is answered {}", request.name(), answer.shown()))?;
        counts.answered += 1;
        Ok(())
    }

    fn take_answer(&self, counts: &mut SlowCounts) -> Proven<()> {
        let request = Request::new("GET", LARGE).key(self.target.key);
        let failed = |error: io::Error| broken_off(&request, &error);
        let mut connection = Connection::open(self.target.address)?;
        connection.send(&request.bytes()).map_err(failed)?;
        let (status, length) = connection.head().map_err(failed)?;
        let is_whole = status == 200 && length == LARGE_SIZE;
        hold(is_whole, || format!("{} is answered {status}, {length} bytes", request.name()))?;
        let mut left = length;
        while left > 0 {
            if !self.goes_on() {
                return Ok(());
            }
            let next = left - TAKEN.min(left);
            while left > next {
                let part = connection.part(left - next).map_err(failed)?;
                if part.iter().any(|byte| *byte != LARGE_BYTE) {
                    return Err(Broken::because(format!("{} has other bytes", request.name())));
                }
                left -= part.len();
            }
        }
        counts.taken += 1;
        Ok(())
    }
}

/// Returns true if the server has closed the connection.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}
