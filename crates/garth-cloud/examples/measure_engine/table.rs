//! Tables in Markdown, and their cells.

use std::fmt;
use std::time::Duration;

/// Table whose columns, apart from the first, are aligned to the right.
pub(crate) struct Table {
    text: String,
}

impl Table {
    /// Returns a table with these columns.
    pub(crate) fn new(columns: &[&str]) -> Self {
        let lines = "--:|".repeat(columns.len().saturating_sub(1));
        Self { text: format!("| {} |\n|---|{lines}\n", columns.join(" | ")) }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: &[String]) {
        self.text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the median of times.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Returns a time with three digits.
pub(crate) fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..100.0 => format!("{micros:.1} µs"),
        ..1_000.0 => format!("{micros:.0} µs"),
        ..100_000.0 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.0} ms", micros / 1e3),
    }
}

/// Returns the ratio of two times.
pub(crate) fn ratio(of: Duration, to: Duration) -> String {
    format!("{:.2}×", of.as_secs_f64() / to.as_secs_f64().max(1e-9))
}
