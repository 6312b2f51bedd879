//! Filter of the log: a level, or levels of parts, separated by commas.

use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;

/// Levels, from none to all.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Parts whose events are logged: the crates of garth, and the libraries that log by themselves.
const PARTS: [&str; 8] =
    ["garth", "garth_agent", "garth_cloud", "garth_engine", "garth_server", "rustls", "ureq", "ureq_proto"];

/// Parses a filter. The filter of `tracing` alone would take a misspelt level for a part of this name: it
/// would log all events of a part that does not exist, and no others.
///
/// # Errors
/// A text without a known level, or with the level of an unknown part.
pub(crate) fn log_filter(text: &str) -> Result<EnvFilter, String> {
    let items: Vec<&str> = text.split(',').map(str::trim).collect();
    for item in &items {
        let (part, level) = item.split_once('=').map_or((None, *item), |(part, level)| (Some(part), level));
        if !LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) {
            let levels = LEVELS.join(", ");
            return Err(format!(
                "`{level}` is not a level: write one of {levels}, or levels of parts: `warn,garth_server=debug`"
            ));
        }
        if let Some(part) = part.filter(|part| !is_part(part)) {
            return Err(format!("`{part}` is not a part of garth: the parts are {}", PARTS.join(", ")));
        }
    }
    EnvFilter::try_new(items.join(",")).map_err(|error| error.to_string())
}

/// Returns true if an event or span may be logged, whatever the filter says. The libraries log what garth
/// never does: the HTTP client writes requests with their headers, thus the keys of endpoints, and texts at
/// `trace`, and URLs, which may contain a token, at `debug`; `globset` writes the patterns of requests.
pub(crate) fn may_be_logged(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= most_of(metadata.target())
}

/// Returns the most detailed level of a target.
fn most_of(target: &str) -> Level {
    // The first segment of a target is its crate.
    match target.split("::").next().unwrap_or_default() {
        "garth" | "garth_agent" | "garth_cloud" | "garth_engine" | "garth_server" => Level::TRACE,
        // Of TLS, `trace` contains complete handshakes.
        "rustls" => Level::DEBUG,
        "ureq" | "ureq_proto" => Level::INFO,
        // It warns of failed requests with their messages, which may quote stored text.
        "rmcp" => Level::ERROR,
        // A library that is not looked at here may log content, or begin to with a new version. That of
        // PostgreSQL logs statements at `debug`.
        _ => Level::WARN,
    }
}

/// Returns true for a crate, or a module of one such as `garth_server::access`.
fn is_part(text: &str) -> bool {
    let (name, module) = text.split_once("::").unwrap_or((text, "all"));
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(is_letter);
    PARTS.contains(&name) && module.split("::").all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_levels_and_parts_are_accepted() {
        for text in [
            "info",
            "OFF",
            "warn,garth_server=debug",
            "warn, garth_engine::engine::sqlite=trace",
            "garth_server::access=info",
            "debug,ureq=off",
        ] {
            assert!(log_filter(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn only_parts_of_garth_log_details() {
        for (target, most) in [
            ("garth_server::errors", Level::TRACE),
            ("garth::verb::serve", Level::TRACE),
            ("rustls::client::hs", Level::DEBUG),
            ("ureq_proto::util", Level::INFO),
            ("globset", Level::WARN),
            ("rmcp::service", Level::ERROR),
            ("hyper::proto::h1", Level::WARN),
            ("tokio_postgres::query", Level::WARN),
            ("", Level::WARN),
        ] {
            assert_eq!(most_of(target), most, "{target}");
        }
        for part in PARTS {
            assert!(most_of(part) > Level::WARN, "{part} can be set, and would log nothing");
        }
    }

    #[test]
    fn unknown_levels_and_parts_are_refused() {
        for (text, named) in [
            ("loud", "`loud` is not a level: write one of off, error, warn, info, debug, trace"),
            ("warning", "`warning` is not a level"),
            ("info,nonsense", "`nonsense` is not a level"),
            ("garth_server", "`garth_server` is not a level"),
            ("garth_server=loud", "`loud` is not a level"),
            (
                "info,garth_servr=debug",
                "`garth_servr` is not a part of garth: the parts are garth, garth_agent",
            ),
            ("garth_server::=info", "`garth_server::` is not a part"),
            ("info,", "`` is not a level"),
            ("[request]=debug", "`[request]` is not a part"),
        ] {
            let error = log_filter(text).map(|_| ()).unwrap_err();
            assert!(error.starts_with(named), "{text}: {error}");
        }
    }
}
