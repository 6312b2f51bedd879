//! Where events go.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::memory::Event;

/// Most bytes of what is kept of a failure.
const MAX_MESSAGE: usize = 500;

/// Somebody's index. An event may come again, under the same `event_id`: delivering it twice is as delivering
/// it once.
#[async_trait]
pub trait Sink: Send + Sync + fmt::Debug {
    /// The longest time that [`Sink::deliver`] takes, however it ends. The worker holds a lease for longer.
    fn timeout(&self) -> Duration;

    /// Delivers an event. Once this returns `Ok`, the event is never delivered again, unless the worker's
    /// process ends before it has noted that.
    ///
    /// # Errors
    /// Why it was not taken; it is tried again.
    async fn deliver(&self, event: &Event) -> Result<(), SinkError>;
}

/// Why an event was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkError {
    message: String,
    retry_after: Option<Duration>,
}

impl SinkError {
    /// What went wrong, kept in the event's `last_error`: of text at most 500 bytes, without control
    /// characters. It must hold no secret.
    pub fn new(message: impl Into<String>) -> Self {
        let message: String = message.into().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let message = message[..message.floor_char_boundary(MAX_MESSAGE)].to_owned();
        Self { message, retry_after: None }
    }

    /// The sink asks to be left alone for this long.
    #[must_use]
    pub fn retry_after(self, time: Duration) -> Self {
        Self { retry_after: Some(time), ..self }
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// How long the sink asks to be left alone.
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
