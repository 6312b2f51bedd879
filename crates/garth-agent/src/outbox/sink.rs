//! Interface of event receivers.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::memory::Event;

/// Limit on the bytes that are stored of a failure message.
const MAX_MESSAGE: usize = 500;

/// External index. An event may be delivered again under the same `event_id`; the second delivery must have
/// no further effect.
#[async_trait]
pub trait Sink: Send + Sync + fmt::Debug {
    /// Returns the longest time that [`Sink::deliver`] takes, whatever its result. The worker's lease is
    /// longer.
    fn timeout(&self) -> Duration;

    /// Delivers an event. After `Ok` it is never delivered again, unless the worker's process ends before it
    /// has recorded that.
    ///
    /// # Errors
    /// The reason why the event was not accepted; it is retried.
    async fn deliver(&self, event: &Event) -> Result<(), SinkError>;
}

/// Failure of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkError {
    message: String,
    retry_after: Option<Duration>,
}

impl SinkError {
    /// Returns a failure. The message is stored in the event's `last_error`: at most 500 bytes, without
    /// control characters. It must not contain secrets.
    pub fn new(message: impl Into<String>) -> Self {
        let message: String = message.into().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let message = message[..message.floor_char_boundary(MAX_MESSAGE)].to_owned();
        Self { message, retry_after: None }
    }

    /// Sets the time that the sink asks to wait before the next attempt.
    #[must_use]
    pub fn retry_after(self, time: Duration) -> Self {
        Self { retry_after: Some(time), ..self }
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the time that the sink asks to wait.
    pub fn asked_for(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SinkError {}
