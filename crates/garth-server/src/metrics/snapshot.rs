//! Numbers that the home, the server and the process count by themselves, read for one scrape.

use std::fmt;

use garth_engine::stats::{Distribution, HomeStats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::process::ProcessStats;
use crate::answers::RoomCounts;

/// Units of the engine's times in a second.
const SECOND: f64 = 1e9;

/// Numbers at the time of one scrape.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) home: HomeStats,
    pub(crate) process: ProcessStats,
    /// Rooms of the server with their names.
    pub(crate) rooms: Vec<(&'static str, RoomCounts)>,
    /// Free bytes on the disk of the home.
    pub(crate) disk_free: Option<u64>,
}

/// Encoder of metrics with at most one label.
struct Encoder<'a>(DescriptorEncoder<'a>);

impl Encoder<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, u64, u64>(&value, None)
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_gauge(&value)
    }

    /// Encodes a gauge that may be unknown.
    fn known(&mut self, name: &str, help: &str, value: Option<u64>) -> fmt::Result {
        match value {
            Some(value) => self.gauge(name, help, value),
            None => Ok(()),
        }
    }

    fn counters<'v>(
        &mut self,
        (name, help): (&str, &str),
        label: &str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (of, value) in values {
            metric.encode_family(&[(label, of)])?.encode_counter::<NoLabelSet, u64, u64>(&value, None)?;
        }
        Ok(())
    }

    fn gauges<'v>(
        &mut self,
        (name, help): (&str, &str),
        label: &str,
        values: impl IntoIterator<Item = (&'v str, f64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (of, value) in values {
            metric.encode_family(&[(label, of)])?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn histogram(&mut self, name: &str, help: &str, values: &Distribution, unit: f64) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        let (sum, count) = (values.sum as f64 / unit, values.count());
        metric.encode_histogram::<NoLabelSet>(sum, count, &classes(values, unit), None)
    }

    fn histograms<'v>(
        &mut self,
        (name, help): (&str, &str),
        label: &str,
        values: impl IntoIterator<Item = (&'v str, &'v Distribution)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (of, values) in values {
            let (sum, classes) = (values.sum as f64 / SECOND, classes(values, SECOND));
            let labels = [(label, of)];
            let mut series = metric.encode_family(&labels)?;
            series.encode_histogram::<NoLabelSet>(sum, values.count(), &classes, None)?;
        }
        Ok(())
    }
}

/// Returns the classes of a distribution as the encoder expects them: bound and number of values.
fn classes(values: &Distribution, unit: f64) -> Vec<(f64, u64)> {
    let bounds = values.bounds.iter().map(|bound| *bound as f64 / unit).chain([f64::INFINITY]);
    bounds.zip(values.counts.iter().copied()).collect()
}

impl Snapshot {
    fn encode_commits(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let commits = &self.home.commits;
        let help =
            "Commits by outcome: refused by a precondition, a rule or a quota, or failed in the storage.";
        let outcomes = [("ok", commits.committed), ("refused", commits.refused), ("failed", commits.failed)];
        encoder.counters(("garth_commits", help), "outcome", outcomes)?;
        let help = "Commits of one transaction.";
        encoder.histogram("garth_commit_group_size", help, &commits.group_sizes, 1.0)?;
        let help = "Time of the durable end of a transaction, with its sync.";
        encoder.histogram("garth_commit_sync_seconds", help, &commits.syncs, SECOND)
    }

    fn encode_queues(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let queues = &self.home.queues;
        let waiting = queues.iter().map(|queue| (queue.name, queue.waiting as f64));
        encoder.gauges(("garth_queue_length", "Pieces of work that wait, by kind."), "kind", waiting)?;
        let waits = queues.iter().map(|queue| (queue.name, &queue.waits));
        let help = "Time that work waited until it began, by kind.";
        encoder.histograms(("garth_queue_wait_seconds", help), "kind", waits)?;
        let help = "Input of the work that is computed or waits for it.";
        encoder.gauge("garth_compute_queue_bytes", help, self.home.compute_bytes)?;
        let help = "Work refused because too much of it was queued.";
        encoder.counter("garth_compute_refused", help, self.home.compute_refused)
    }

    fn encode_storage(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let HomeStats { index, checkpoints, uploads, .. } = &self.home;
        encoder.gauge("garth_accounts_open", "Accounts whose tree is open.", self.home.open_accounts)?;
        let help = "Stored bytes of the accounts that this process has open, as of the last minute.";
        encoder.gauge("garth_stored_bytes", help, self.home.stored_bytes)?;
        let (open, idle) = (self.home.connections, self.home.idle_connections);
        let help = "Open connections to databases, and pack files open for reading.";
        encoder.gauge("garth_database_connections", help, open)?;
        let help = "Idle ones among the connections to databases.";
        encoder.gauge("garth_database_connections_idle", help, idle)?;
        let help = "Open accounts whose search index is behind their files or has segments to merge.";
        encoder.gauge("garth_index_backlog_accounts", help, index.behind)?;
        let help = "Steps of work on search indexes, by outcome.";
        let steps = [("ok", index.steps), ("failed", index.failures)];
        encoder.counters(("garth_index_steps", help), "outcome", steps)?;
        let kinds = [("passive", checkpoints.passive), ("restart", checkpoints.restart)];
        let help = "Checkpoints of databases, by kind; commits wait for those of the kind restart.";
        encoder.counters(("garth_checkpoints", help), "kind", kinds)?;
        let help = "Checkpoints that failed.";
        encoder.counter("garth_checkpoint_failures", help, checkpoints.failures)?;
        let help = "Time of a checkpoint.";
        encoder.histogram("garth_checkpoint_seconds", help, &checkpoints.times, SECOND)?;
        encoder.gauge("garth_uploads_open", "Uploads in progress.", uploads.open)?;
        encoder.counter("garth_uploads", "Uploads finished.", uploads.finished)?;
        encoder.counter("garth_upload_bytes", "Bytes of finished uploads.", uploads.bytes)?;
        encoder.known("garth_disk_free_bytes", "Free bytes on the disk of the data.", self.disk_free)
    }

    fn encode_rooms(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let used = self.rooms.iter().map(|(name, room)| (*name, room.used));
        let help = "Part of a limit on memory or turns that is in use, 0 to 1.";
        encoder.gauges(("garth_room_used_ratio", help), "room", used)?;
        let refused = self.rooms.iter().map(|(name, room)| (*name, room.refused));
        let help = "Requests that waited for memory or a turn in vain.";
        encoder.counters(("garth_room_refused", help), "room", refused)
    }

    fn encode_process(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let ProcessStats { memory, virtual_memory, open_files, max_files, threads, cpu } = self.process;
        encoder.known("process_resident_memory_bytes", "Resident memory.", memory)?;
        encoder.known("process_virtual_memory_bytes", "Virtual memory.", virtual_memory)?;
        encoder.known("process_open_fds", "Open file descriptors.", open_files)?;
        encoder.known("process_max_fds", "Limit on open file descriptors.", max_files)?;
        encoder.known("process_threads", "Threads.", threads)?;
        let help = "Processor time.";
        let mut metric =
            encoder.0.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, f64, u64>(&cpu, None)
    }
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut encoder = Encoder(encoder);
        self.encode_commits(&mut encoder)?;
        self.encode_queues(&mut encoder)?;
        self.encode_storage(&mut encoder)?;
        self.encode_rooms(&mut encoder)?;
        self.encode_process(&mut encoder)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::prometheus_text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn classes_of_times_are_in_seconds() {
        let mut home = HomeStats::default();
        home.commits.syncs.bounds = &[100_000, 2_500_000];
        home.commits.syncs.counts = vec![1, 2, 4];
        home.commits.syncs.sum = 3_500_000_000;
        home.commits.committed = 7;
        let rooms = vec![("answers", RoomCounts { used: 0.5, refused: 3 })];
        let snapshot = Snapshot { home, process: ProcessStats::default(), rooms, disk_free: None };
        let (mut text, mut registry) = (String::new(), Registry::default());
        registry.register_collector(Box::new(snapshot));
        encode(&mut text, &registry).unwrap();
        for line in [
            "garth_commit_sync_seconds_bucket{le=\"0.0001\"} 1",
            "garth_commit_sync_seconds_bucket{le=\"0.0025\"} 3",
            "garth_commit_sync_seconds_bucket{le=\"+Inf\"} 7",
            "garth_commit_sync_seconds_sum 3.5",
            "garth_commit_sync_seconds_count 7",
            "garth_commits_total{outcome=\"ok\"} 7",
            "garth_room_used_ratio{room=\"answers\"} 0.5",
            "garth_room_refused_total{room=\"answers\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("garth_disk_free_bytes"), "it is unknown");
    }
}
