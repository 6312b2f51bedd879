//! Recorders of events, and their text.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use axum::http::Method;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::snapshot::Snapshot;

/// Content type of the text format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Route of a response that reached none.
const NO_ROUTE: &str = "none";

/// Upper bounds of the classes of times, in seconds.
const TIMES: [f64; 15] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// Labels of a series, each a name and a value.
type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Counters of each combination of labels.
type Counters<const N: usize> = Family<Labels<N>, Counter>;

/// Histograms of each combination of labels.
type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// Path of the route that a response comes from, in its extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routed(pub(crate) &'static str);

/// Kind of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkKind {
    /// Visit of an account: repairs, collection of sessions, due events.
    Visit,
    Compaction,
    Reset,
}

impl WorkKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Visit => "visit",
            Self::Compaction => "compaction",
            Self::Reset => "reset",
        }
    }
}

/// Metrics of a server. Clones count together. Pass the same to [`Options`](crate::Options) and to
/// [`Courier`](crate::outbox::Courier).
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Recorders>);

struct Recorders {
    registry: Registry,
    requests: Counters<3>,
    durations: Histograms<2>,
    response_bytes: Counters<2>,
    /// Recorders of each route and method, so that a request needs one look-up.
    routes: RwLock<HashMap<(&'static str, &'static str), Arc<RouteRecorders>>>,
    in_flight: Gauge,
    connections: Counter,
    open_connections: Gauge,
    received: Counter,
    sent: Counter,
    refusals: Counters<1>,
    wrong_keys: Counter,
    work: Counters<2>,
    working: Family<Labels<1>, Gauge>,
    deliveries: Counters<1>,
    delivery_times: Histogram,
    calls: Counters<2>,
    call_times: Histograms<1>,
}

/// Recorders of one route and method.
#[derive(Debug)]
struct RouteRecorders {
    labels: Labels<2>,
    duration: Histogram,
    bytes: Counter,
    /// Requests by the first digit of their status.
    classes: [OnceLock<Counter>; 6],
}

/// Counts as one more of a state until dropped.
#[derive(Debug)]
pub(crate) struct Held(Gauge);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn times() -> Histogram {
    Histogram::new(TIMES)
}

impl Default for Recorders {
    fn default() -> Self {
        let histograms = times as fn() -> Histogram;
        let mut recorders = Self {
            registry: Registry::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(histograms),
            response_bytes: Family::default(),
            routes: RwLock::default(),
            in_flight: Gauge::default(),
            connections: Counter::default(),
            open_connections: Gauge::default(),
            received: Counter::default(),
            sent: Counter::default(),
            refusals: Family::default(),
            wrong_keys: Counter::default(),
            work: Family::default(),
            working: Family::default(),
            deliveries: Family::default(),
            delivery_times: times(),
            calls: Family::default(),
            call_times: Family::new_with_constructor(histograms),
        };
        recorders.register_requests();
        recorders.register_work();
        // So that a rate over them exists before the first failure.
        for outcome in ["ok", "failed"] {
            drop(recorders.deliveries.get_or_create(&[("outcome", outcome)]));
            for work in [WorkKind::Visit, WorkKind::Compaction, WorkKind::Reset] {
                drop(recorders.work.get_or_create(&[("kind", work.as_str()), ("outcome", outcome)]));
            }
        }
        recorders
    }
}

impl Recorders {
    fn register_requests(&mut self) {
        let registry = &mut self.registry;
        let help = "Requests answered, by route, method and class of the status";
        registry.register("garth_http_requests", help, self.requests.clone());
        let help = "Time from the head of a request until its response was ready, by route and method";
        registry.register("garth_http_request_duration_seconds", help, self.durations.clone());
        let help = "Size of response bodies as declared, by route and method";
        registry.register("garth_http_response_bytes", help, self.response_bytes.clone());
        let help = "Requests whose response is not ready yet";
        registry.register("garth_http_requests_in_flight", help, self.in_flight.clone());
        registry.register("garth_connections", "Connections accepted", self.connections.clone());
        registry.register("garth_connections_open", "Open connections", self.open_connections.clone());
        registry.register("garth_received_bytes", "Bytes received from clients", self.received.clone());
        registry.register("garth_sent_bytes", "Bytes sent to clients", self.sent.clone());
        registry.register("garth_refusals", "Requests refused, by code of the error", self.refusals.clone());
        let help = "Requests with a key or token that is unknown, wrong, revoked or expired";
        registry.register("garth_wrong_keys", help, self.wrong_keys.clone());
    }

    fn register_work(&mut self) {
        let registry = &mut self.registry;
        registry.register("garth_work", "Background work done, by kind and outcome", self.work.clone());
        let help = "Background work in progress, by kind";
        registry.register("garth_work_in_progress", help, self.working.clone());
        let help = "Attempts to deliver an event to the sink, by outcome";
        registry.register("garth_deliveries", help, self.deliveries.clone());
        let help = "Time of an attempt to deliver an event";
        registry.register("garth_delivery_duration_seconds", help, self.delivery_times.clone());
        let help = "Requests to the language model and the embedding service, by outcome";
        registry.register("garth_model_calls", help, self.calls.clone());
        let help = "Time of a request to the language model or the embedding service";
        registry.register("garth_model_call_duration_seconds", help, self.call_times.clone());
    }

    fn of_route(&self, route: &'static str, method: &'static str) -> Arc<RouteRecorders> {
        // A panic elsewhere leaves the map valid.
        let known = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(recorders) = known.get(&(route, method)) {
            return Arc::clone(recorders);
        }
        drop(known);
        let labels = [("route", route), ("method", method)];
        let recorders = Arc::new(RouteRecorders {
            labels,
            duration: self.durations.get_or_create_owned(&labels),
            bytes: self.response_bytes.get_or_create_owned(&labels),
            classes: Default::default(),
        });
        let mut known = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry((route, method)).or_insert(recorders))
    }
}

/// Response, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    /// Path of the route, if the request reached one.
    pub(crate) route: Option<Routed>,
    /// Method, from [`method_label`].
    pub(crate) method: &'static str,
    pub(crate) status: u16,
    /// Size of the body.
    pub(crate) bytes: u64,
    /// Time until the response was ready.
    pub(crate) time: Duration,
}

impl Metrics {
    /// Counts a request from its head until the result is dropped.
    pub(crate) fn begin(&self) -> Held {
        held(&self.0.in_flight)
    }

    /// Counts a response.
    pub(crate) fn answered(&self, answered: Answered) {
        let route = answered.route.map_or(NO_ROUTE, |Routed(path)| path);
        let of_route = self.0.of_route(route, answered.method);
        of_route.duration.observe(answered.time.as_secs_f64());
        of_route.bytes.inc_by(answered.bytes);
        let (class, name) = class_of(answered.status);
        let Some(counter) = of_route.classes.get(class) else { return };
        let [route, method] = of_route.labels;
        let counted =
            counter.get_or_init(|| self.0.requests.get_or_create_owned(&[route, method, ("status", name)]));
        counted.inc();
    }

    /// Counts a connection until the result is dropped.
    pub(crate) fn connected(&self) -> Held {
        self.0.connections.inc();
        held(&self.0.open_connections)
    }

    /// Counts bytes received from a client.
    pub(crate) fn received(&self, bytes: usize) {
        self.0.received.inc_by(bytes as u64);
    }

    /// Counts bytes sent to a client.
    pub(crate) fn sent(&self, bytes: usize) {
        self.0.sent.inc_by(bytes as u64);
    }

    /// Counts a refusal, by its code.
    pub(crate) fn refused(&self, code: &'static str) {
        self.0.refusals.get_or_create(&[("code", code)]).inc();
    }

    /// Counts a key or token that is not valid.
    pub(crate) fn wrong_key(&self) {
        self.0.wrong_keys.inc();
    }

    /// Counts background work until the result is dropped.
    pub(crate) fn working(&self, work: WorkKind) -> Held {
        held(&self.0.working.get_or_create_owned(&[("kind", work.as_str())]))
    }

    /// Counts background work that has ended.
    pub(crate) fn worked(&self, work: WorkKind, is_ok: bool) {
        let labels = [("kind", work.as_str()), ("outcome", outcome(is_ok))];
        self.0.work.get_or_create(&labels).inc();
    }

    /// Counts a request to a service that garth asks.
    pub(super) fn called(&self, service: &'static str, outcome: &'static str, time: Duration) {
        self.0.calls.get_or_create(&[("service", service), ("outcome", outcome)]).inc();
        self.0.call_times.get_or_create(&[("service", service)]).observe(time.as_secs_f64());
    }

    /// Counts an attempt to deliver an event.
    pub(super) fn delivered(&self, is_ok: bool, time: Duration) {
        self.0.deliveries.get_or_create(&[("outcome", outcome(is_ok))]).inc();
        self.0.delivery_times.observe(time.as_secs_f64());
    }

    /// Returns all metrics as text, with those of `snapshot`.
    pub(crate) fn text(&self, snapshot: Snapshot) -> Result<String, fmt::Error> {
        let (mut text, mut present) = (String::new(), Registry::default());
        encode(&mut text, &self.0.registry)?;
        present.register_collector(Box::new(snapshot));
        encode(&mut text, &present)?;
        Ok(text)
    }
}

impl fmt::Debug for Recorders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorders").finish_non_exhaustive()
    }
}

fn held(gauge: &Gauge) -> Held {
    gauge.inc();
    Held(gauge.clone())
}

const fn outcome(is_ok: bool) -> &'static str {
    if is_ok { "ok" } else { "failed" }
}

/// Returns the class of a status, and its name.
const fn class_of(status: u16) -> (usize, &'static str) {
    match status / 100 {
        1 => (1, "1xx"),
        2 => (2, "2xx"),
        3 => (3, "3xx"),
        4 => (4, "4xx"),
        5 => (5, "5xx"),
        _ => (0, "other"),
    }
}

/// Returns the label of a method. Clients may send any word, so others than these share one.
pub(crate) fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use garth_engine::stats::HomeStats;

    use super::super::process::ProcessStats;
    use super::*;

    fn text(metrics: &Metrics) -> String {
        let snapshot = Snapshot {
            home: HomeStats::default(),
            process: ProcessStats::default(),
            rooms: Vec::new(),
            disk_free: None,
        };
        metrics.text(snapshot).unwrap()
    }

    fn answered(status: u16) -> Answered {
        let (route, time) = (Some(Routed("/v1/get")), Duration::from_millis(2));
        Answered { route, method: "POST", status, bytes: 10, time }
    }

    #[test]
    fn responses_are_counted_by_route_and_class() {
        let metrics = Metrics::default();
        for status in [200, 204, 404, 999] {
            metrics.answered(answered(status));
        }
        metrics.answered(Answered { route: None, method: "other", ..answered(404) });
        let text = text(&metrics);
        for line in [
            "garth_http_requests_total{route=\"/v1/get\",method=\"POST\",status=\"2xx\"} 2",
            "garth_http_requests_total{route=\"/v1/get\",method=\"POST\",status=\"4xx\"} 1",
            "garth_http_requests_total{route=\"/v1/get\",method=\"POST\",status=\"other\"} 1",
            "garth_http_requests_total{route=\"none\",method=\"other\",status=\"4xx\"} 1",
            "garth_http_response_bytes_total{route=\"/v1/get\",method=\"POST\"} 40",
            "garth_http_request_duration_seconds_count{route=\"/v1/get\",method=\"POST\"} 4",
            "# TYPE garth_http_requests_total counter",
            "garth_deliveries_total{outcome=\"failed\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn states_are_counted_until_dropped() {
        let metrics = Metrics::default();
        let held = [metrics.begin(), metrics.begin(), metrics.connected(), metrics.working(WorkKind::Reset)];
        let during = text(&metrics);
        assert!(during.contains("\ngarth_http_requests_in_flight 2\n"), "{during}");
        assert!(during.contains("\ngarth_work_in_progress{kind=\"reset\"} 1\n"), "{during}");
        drop(held);
        let after = text(&metrics);
        assert!(after.contains("\ngarth_http_requests_in_flight 0\n"), "{after}");
        assert!(after.contains("\ngarth_connections_open 0\n"), "{after}");
        assert!(after.contains("\ngarth_connections_total 1\n"), "{after}");
    }

    #[test]
    fn servers_of_one_process_count_apart() {
        let (one, other) = (Metrics::default(), Metrics::default());
        one.answered(answered(200));
        assert!(text(&one).contains("route=\"/v1/get\""));
        assert!(!text(&other).contains("route=\"/v1/get\""));
    }

    #[test]
    fn methods_of_clients_share_a_label() {
        assert_eq!(method_label(&Method::PATCH), "PATCH");
        assert_eq!(method_label(&Method::from_bytes(b"BREW").unwrap()), "other");
    }
}
