//! Figures of a scrape, and what a count by hand says about them.

use std::collections::BTreeMap;

use garth_testkit::proof::{Broken, Proven, hold};

/// Series with their values.
pub(super) type Figures = BTreeMap<String, f64>;

/// Comparison of a figure with the count by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// It has grown by the count, which is 0 if nothing was counted.
    Growth,
    /// It has grown by the count at least: garth does such work also by itself.
    AtLeast,
    /// It is the present state.
    State,
    /// It is a time, or depends on the machine or on when background work runs: not negative.
    Measured,
}

impl Rule {
    const fn name(self) -> &'static str {
        match self {
            Self::Growth => "growth",
            Self::AtLeast => "growth at least",
            Self::State => "state",
            Self::Measured => "measured",
        }
    }
}

/// Rules by the start of a series. The first one that fits applies.
const RULES: [(&str, Rule); 44] = [
    ("garth_http_requests_total", Rule::Growth),
    ("garth_http_request_duration_seconds_count", Rule::Growth),
    ("garth_http_request_duration_seconds_", Rule::Measured),
    ("garth_http_response_bytes_total", Rule::Growth),
    ("garth_http_requests_in_flight", Rule::State),
    ("garth_connections_total", Rule::Growth),
    ("garth_connections_open", Rule::State),
    ("garth_received_bytes_total", Rule::Growth),
    ("garth_sent_bytes_total", Rule::Growth),
    ("garth_refusals_total", Rule::Growth),
    ("garth_wrong_keys_total", Rule::Growth),
    ("garth_room_used_ratio", Rule::State),
    ("garth_room_refused_total", Rule::Growth),
    ("garth_commits_total", Rule::Growth),
    ("garth_commit_group_size_sum", Rule::Growth),
    ("garth_commit_group_size_count", Rule::Growth),
    ("garth_commit_group_size_", Rule::Measured),
    ("garth_commit_sync_seconds_count", Rule::AtLeast),
    ("garth_commit_sync_seconds_", Rule::Measured),
    ("garth_queue_length{kind=\"commit\"}", Rule::State),
    ("garth_queue_length{kind=\"reader\"}", Rule::State),
    ("garth_queue_length{kind=\"compute\"}", Rule::State),
    ("garth_queue_length{kind=\"upload\"}", Rule::State),
    ("garth_queue_length", Rule::Measured),
    ("garth_queue_wait_seconds_count{kind=\"commit\"}", Rule::AtLeast),
    ("garth_queue_wait_seconds_", Rule::Measured),
    ("garth_compute_queue_bytes", Rule::State),
    ("garth_compute_refused_total", Rule::Growth),
    ("garth_accounts_open", Rule::Measured),
    ("garth_stored_bytes", Rule::Measured),
    ("garth_database_connections", Rule::Measured),
    ("garth_index_backlog_accounts", Rule::Measured),
    ("garth_index_steps_total{outcome=\"failed\"}", Rule::Growth),
    ("garth_index_steps_total", Rule::Measured),
    ("garth_checkpoints_total{kind=\"restart\"}", Rule::AtLeast),
    ("garth_checkpoints_total", Rule::Measured),
    ("garth_checkpoint_failures_total", Rule::Growth),
    ("garth_checkpoint_seconds_", Rule::Measured),
    ("garth_upload", Rule::Growth),
    // No sink, no model and no background work: they stay 0.
    ("garth_deliver", Rule::Growth),
    ("garth_model_call", Rule::Growth),
    ("garth_work", Rule::Growth),
    ("garth_disk_free_bytes", Rule::Measured),
    ("process_", Rule::Measured),
];

/// Reads the text format of Prometheus.
pub(super) fn parse(text: &str) -> Proven<Figures> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let figure = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        Some((series.to_owned(), value.parse::<f64>().ok()?))
    };
    let figures = lines
        .map(|line| figure(line).ok_or_else(|| Broken::because(format!("a scrape has the line `{line}`"))));
    figures.collect()
}

/// Count by hand.
#[derive(Debug, Default)]
pub(super) struct HandCount {
    grown: Figures,
    state: Figures,
}

impl HandCount {
    /// Adds to what a series has grown by.
    pub(super) fn add(&mut self, series: impl Into<String>, n: usize) {
        *self.grown.entry(series.into()).or_default() += n as f64;
    }

    /// Adds an answer: its route, method and status, the bytes of all of it and those of its body.
    pub(super) fn count_answer(
        &mut self,
        (route, method, status): (&str, &str, u16),
        bytes: usize,
        body: usize,
    ) {
        let (labels, class) = (format!("route=\"{route}\",method=\"{method}\""), status / 100);
        self.add(format!("garth_http_requests_total{{{labels},status=\"{class}xx\"}}"), 1);
        self.add(format!("garth_http_request_duration_seconds_count{{{labels}}}"), 1);
        self.add(format!("garth_http_response_bytes_total{{{labels}}}"), body);
        self.add("garth_sent_bytes_total", bytes);
    }

    /// Sets the present state of a series; 0 if it is not set.
    pub(super) fn set(&mut self, series: &str, value: f64) {
        self.state.insert(series.to_owned(), value);
    }

    /// Compares every figure. Returns the number of series by rule.
    pub(super) fn check(&self, before: &Figures, after: &Figures) -> Proven<BTreeMap<&'static str, u64>> {
        let mut rules = BTreeMap::new();
        for (series, value) in after {
            let found = RULES.iter().find(|(start, _)| series.starts_with(start));
            let Some((_, rule)) = found else {
                return Err(Broken::because(format!("no rule compares {series} with a count by hand")));
            };
            let of = |figures: &Figures| figures.get(series).copied().unwrap_or_default();
            let (grown, counted) = (value - of(before), of(&self.grown));
            let (holds, due) = match rule {
                Rule::Growth => (grown == counted, counted),
                Rule::AtLeast => (grown >= counted, counted),
                Rule::State => (*value == of(&self.state), of(&self.state)),
                Rule::Measured => (*value >= 0.0, 0.0),
            };
            hold(holds, || {
                format!("{series} is {value} and has grown by {grown}; by hand: {due} ({})", rule.name())
            })?;
            *rules.entry(rule.name()).or_default() += 1;
        }
        let missing = self.grown.keys().find(|series| !after.contains_key(*series));
        hold(missing.is_none(), || format!("{missing:?} was counted by hand and is not in the scrape"))?;
        Ok(rules)
    }
}
