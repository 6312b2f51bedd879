//! Log of events of `tracing` on standard error, with their spans. See `docs/specs/operations.md`.

use garth_engine::{Error, ErrorKind};
use tracing::Span;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::Global;
use crate::config::{LogFormat, log_filter, may_be_logged};
use crate::fail::Result;
use crate::terminal;

/// Variable with the level.
const LOG: &str = "GARTH_LOG";

/// Starts the log of a server. The access log, if enabled, does not depend on the level.
pub(crate) fn start(filter: &str, format: LogFormat, access_log: bool) -> Result {
    // The configuration of a server was checked already; this is the filter of another verb.
    let filter = log_filter(filter)
        .map_err(|error| Error::new(ErrorKind::InvalidArgument, format!("{LOG}: {error}")))?;
    let filter = match access_log.then(|| "garth_server::access=info".parse()) {
        Some(Ok(directive)) => filter.add_directive(directive),
        _ => filter,
    };
    // No colours: the writer cannot tell them from escape sequences in a logged name.
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(terminal::stderr).with_ansi(false);
    // A filter of its own, because a directive such as `ureq_proto::util=trace` would win over any other one.
    let cap = filter_fn(may_be_logged);
    match format {
        LogFormat::Text => log.finish().with(cap).init(),
        LogFormat::Json => log.json().flatten_event(true).with_current_span(false).finish().with(cap).init(),
    }
    Ok(())
}

/// Begins a verb: returns its span, and starts its log if `GARTH_LOG` sets a filter. The server starts its
/// own log by its configuration, and has a span for each request.
pub(crate) fn begin(verb: &str, global: &Global) -> Result<Span> {
    if verb == "serve" {
        return Ok(Span::none());
    }
    match std::env::var(LOG) {
        Ok(filter) if !filter.is_empty() => start(&filter, LogFormat::Text, false)?,
        _ => {}
    }
    let Global { account, agent, chat, .. } = global;
    if global.operator {
        // Neither names what an operator works on.
        return Ok(tracing::error_span!("verb", verb));
    }
    let key = chat.session_key.as_ref().map(ToString::to_string);
    let (user, session) = (chat.user.as_deref(), chat.session.as_deref().or(key.as_deref()));
    Ok(tracing::error_span!("verb", verb, account, agent, user, session))
}
