//! Captures what a process logs at the default level, from all of its threads: each event with the spans that
//! it is in.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{LazyLock, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// Everything that was logged since the first call of [`capture`].
static LOG: LazyLock<Mutex<Vec<Logged>>> = LazyLock::new(|| {
    let subscriber = tracing_subscriber::registry().with(LevelFilter::INFO).with(Capture);
    // A test binary has one subscriber: this one.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Mutex::default()
});

/// Event as it was logged.
#[derive(Clone, Debug)]
pub struct Logged {
    /// Its level.
    pub level: Level,
    /// Its message and fields.
    pub text: String,
    /// Names and fields of its spans, from the outermost on.
    pub spans: Vec<(&'static str, Fields)>,
}

/// Fields of a span or an event as text.
#[derive(Clone, Debug, Default)]
pub struct Fields(BTreeMap<&'static str, String>);

impl Fields {
    /// Returns the value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl Logged {
    /// Returns the value of a field of the innermost span that has it.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.spans.iter().rev().find_map(|(_, fields)| fields.get(name))
    }
}

/// Begins to capture, if that has not begun. Only in a test binary that installs no other subscriber.
pub fn capture() {
    LazyLock::force(&LOG);
}

/// Returns what was logged so far and holds `text`, in the message or a field.
pub fn logged(text: &str) -> Vec<Logged> {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    log.iter().filter(|event| event.text.contains(text)).cloned().collect()
}

/// Returns all that was logged, spans included, as one text: for what must not be in it.
pub fn all_text() -> String {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    log.iter().fold(String::new(), |mut all, event| {
        let _ = writeln!(all, "{event:?}");
        all
    })
}

struct Capture;

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for Capture {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            record.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let spans = context.event_scope(event).into_iter().flat_map(|scope| scope.from_root());
        let spans = spans.map(|span| {
            let fields = span.extensions().get::<Fields>().cloned();
            (span.name(), fields.unwrap_or_default())
        });
        let logged = Logged {
            level: *event.metadata().level(),
            text: format!("{:?}", fields.0),
            spans: spans.collect(),
        };
        LOG.lock().unwrap_or_else(PoisonError::into_inner).push(logged);
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
