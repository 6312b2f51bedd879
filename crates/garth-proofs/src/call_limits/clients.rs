//! Clients of the proof, with valid keys and with wrong ones.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use garth_testkit::proof::{Broken, Proven, hold};
use serde_json::json;

use crate::served::{Connection, Request, broken_off};

/// Key that no server has.
const WRONG_KEY: &str = "garth_wrong";

/// Class of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Read,
    Write,
}

impl Class {
    pub(super) const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// Returns the calls in a minute that the server of the proof permits, a divisor of a minute.
    pub(super) const fn per_minute(self) -> usize {
        match self {
            Self::Read => 120,
            Self::Write => 60,
        }
    }
}

/// Calls of each class.
pub(super) type Calls = [u64; 2];

/// Client with a valid key and a connection of its own.
pub(super) struct Client {
    connection: Connection,
    /// Number of its account and of its key.
    pub(super) account: usize,
    pub(super) key: usize,
    secret: String,
    path: String,
}

impl Client {
    /// Connects to the server. `number` tells the values of the clients apart.
    pub(super) fn connect(
        address: &str,
        number: usize,
        (account, key): (usize, usize),
        secret: &str,
    ) -> Proven<Self> {
        let connection = Connection::open(address)?;
        let (secret, path) = (secret.to_owned(), format!("/client/{number}"));
        Ok(Self { connection, account, key, secret, path })
    }

    /// Sends a wrong key from now on, and waits for an answer only for a while.
    pub(super) fn spoil(&mut self) -> Proven<()> {
        WRONG_KEY.clone_into(&mut self.secret);
        Ok(self.connection.set_patience(Some(Duration::from_secs(1)))?)
    }

    /// Makes calls, and counts answers in `answered` as they arrive. Returns the admitted calls.
    ///
    /// # Errors
    /// An answer that is neither a success nor the refusal of a limit.
    pub(super) fn call(&mut self, calls: &[Class], answered: &AtomicU64) -> Proven<Calls> {
        let mut admitted = [0; 2];
        for class in calls {
            let request = match class {
                Class::Read => Request::post("get", &json!({"path": self.path})),
                Class::Write => Request::post("put", &json!({"path": self.path, "value": 1})),
            };
            let request = request.key(&self.secret);
            let answer = self.connection.ask(&request).map_err(|error| broken_off(&request, &error))?;
            match answer.status {
                200 => {
                    admitted[*class as usize] += 1;
                    answered.fetch_add(1, Ordering::SeqCst);
                }
                429 => {}
                _ => {
                    let (name, shown) = (request.name(), answer.shown());
                    return Err(Broken::because(format!("{name} with a valid key is answered {shown}")));
                }
            }
        }
        Ok(admitted)
    }
}

/// Counts of refused wrong keys.
#[derive(Debug, Default)]
pub(super) struct WrongKeys {
    /// True once the timers of the server go on.
    pub(super) is_released: AtomicBool,
    /// Refused before.
    pub(super) early: AtomicU64,
    /// Refused after.
    pub(super) late: AtomicU64,
}

impl WrongKeys {
    /// Sends wrong keys, until one is refused after the timers of the server go on.
    ///
    /// # Errors
    /// Another answer than a refusal.
    pub(super) fn send(&self, address: &str) -> Proven<()> {
        let request = Request::post("get", &json!({"path": "/wrong"})).key(WRONG_KEY);
        let mut connection = Connection::open(address)?;
        connection.set_patience(None)?;
        loop {
            let answer = connection.ask(&request).map_err(|error| broken_off(&request, &error))?;
            hold(answer.status == 401, || format!("a wrong key is answered {}", answer.shown()))?;
            if self.is_released.load(Ordering::SeqCst) {
                self.late.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            self.early.fetch_add(1, Ordering::SeqCst);
        }
    }
}
