//! Server under load: many connections at most of its peak rate, keys that are made and revoked meanwhile,
//! and slow clients. Every answer is a success, or a refusal of a revoked key, and memory stays flat.

mod keys;
mod mix;
mod run;
mod slow_clients;

use std::thread::{Scope, ScopedJoinHandle, scope};
use std::time::{Duration, Instant};

use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold, status_of};

pub use self::keys::Fault;
use self::keys::{Keys, SLOTS};
use self::mix::KINDS;
use self::run::Run;
use self::slow_clients::{SlowCounts, Target, send_slowly};
use crate::served::{Connection, ServerProcess};

/// Threads that change keys.
const CHANGERS: u64 = 4;
/// Keys that each of them changes at least, however short the run.
const LEAST_CHANGES: u64 = 2;
/// Share of the peak rate at which the server is called, in percent.
const SHARE: f64 = 80.0;
/// Samples of the memory.
const SAMPLES: u32 = 400;
/// Permitted growth of the mean memory from the second quarter of the run to the last: a tenth, and this.
const MARGIN: u64 = 16 << 20;

/// Calls of a server at 80% of its peak rate. The size is the number of seconds.
#[derive(Clone, Copy, Debug)]
pub struct HttpLoad {
    /// Connections with calls.
    pub connections: u64,
    /// Clients that send or read slowly.
    pub slow_clients: u64,
    /// Time between two bytes of a slow client, and between two changes of a key.
    pub pace: Duration,
    /// Fails if the memory of the server grows. A short run cannot tell growth from the start of the server.
    pub judges_memory: bool,
    /// Planted fault: a negative control.
    pub fault: Option<Fault>,
}

impl Default for HttpLoad {
    /// Returns the load at full size: 256 connections and 300 slow clients.
    fn default() -> Self {
        let pace = Duration::from_secs(1);
        Self { connections: 256, slow_clients: 300, pace, judges_memory: true, fault: None }
    }
}

impl HttpLoad {
    /// Returns a small load, whose outcome does not depend on the speed of the machine.
    pub const fn small() -> Self {
        let pace = Duration::from_millis(5);
        Self { connections: 8, slow_clients: 6, pace, judges_memory: false, fault: None }
    }
}

impl Proof for HttpLoad {
    fn about(&self) -> About {
        About {
            name: "http-load",
            claim: "Under load, every call succeeds unless its key is revoked, and the memory of the server stays flat.",
            full: 600,
            ci: 2,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let server = ServerProcess::start(&setting.garth(), &setting.folder.join("data"), None)?;
        let mut connection = Connection::open(&server.address)?;
        mix::create_agent(&mut connection, &server.key)?;
        let keys = Keys::create(&mut connection, &server.key)?;
        mix::fill(&mut connection, &server.key, &keys, self.connections)?;
        drop(connection);
        let load = Load { of: *self, server: &server, keys: &keys };
        let peak = load.peak(Duration::from_secs((setting.size / 40).clamp(1, 15)))?;
        load.run(peak, Duration::from_secs(setting.size))
    }
}

const COUNTS: [&str; 8] = [
    "calls a second at peak",
    "calls a second",
    "calls",
    "calls whose key was revoked meanwhile",
    "keys revoked and refused",
    "slow requests answered",
    "slow requests closed",
    "slow answers taken",
];

/// Server and the load on it.
#[derive(Clone, Copy)]
struct Load<'a> {
    of: HttpLoad,
    server: &'a ServerProcess,
    keys: &'a Keys,
}

/// Calls of one connection.
#[derive(Default)]
struct Calls {
    /// Number of answers with success, by kind.
    by_kind: [u64; KINDS.len()],
    /// Number of refusals because of a revoked key.
    refused: u64,
    /// Times of the successes from the request to the answer.
    times: Vec<Duration>,
    /// Times from the moment at which the request was due. They include the wait for the answer before.
    times_since_due: Vec<Duration>,
}

impl Calls {
    fn count(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    fn add(&mut self, more: Self) {
        self.by_kind.iter_mut().zip(more.by_kind).for_each(|(sum, more)| *sum += more);
        self.refused += more.refused;
        self.times.extend(more.times);
        self.times_since_due.extend(more.times_since_due);
    }
}

impl Load<'_> {
    /// Returns the number of calls a second if each connection sends its next request at once.
    fn peak(self, time: Duration) -> Proven<f64> {
        let run = &Run::new(time);
        let calls = scope(|scope| {
            let callers = spawn(scope, self.of.connections, run, move |number| self.call(number, None, run));
            while !run.is_over() {
                run.sleep(time.saturating_sub(run.elapsed()));
            }
            run.end();
            joined(callers)
        })?;
        let calls: u64 = calls.iter().map(Calls::count).sum();
        hold(calls > 0, || "no call was answered at peak".to_owned())?;
        Ok(calls as f64 / run.elapsed().as_secs_f64())
    }

    /// Calls the server at a share of the peak rate while keys change and slow clients hold connections.
    fn run(self, peak: f64, time: Duration) -> Proven<Report> {
        let rate = peak * SHARE / 100.0;
        let interval = Duration::from_secs_f64(self.of.connections as f64 / rate);
        let run = &Run::new(time);
        let (memory, calls, changed, slow, seconds) = scope(|scope| {
            let callers = spawn(scope, self.of.connections, run, move |number| {
                let offset = interval.mul_f64(number as f64 / self.of.connections as f64);
                self.call(number, Some((run.begun() + offset, interval)), run)
            });
            let changers = spawn(scope, CHANGERS, run, move |number| self.change(number, run));
            let slow = spawn(scope, self.of.slow_clients, run, move |number| {
                let target = Target { address: &self.server.address, key: &self.server.key };
                send_slowly(target, number, self.of.pace, run)
            });
            let memory = run.watch(self.watch_memory(run));
            let changed = joined(changers);
            run.end();
            let calls = joined(callers);
            let seconds = run.elapsed().as_secs_f64();
            Ok::<_, Broken>((memory?, calls?, changed?, joined(slow)?, seconds))
        })?;
        let mut all = Calls::default();
        calls.into_iter().for_each(|calls| all.add(calls));
        let mut of_slow = SlowCounts::default();
        slow.into_iter().for_each(|counts| of_slow.add(counts));
        let mut report = Report::of(COUNTS)
            .with("calls a second at peak", peak as u64)
            .with("calls a second", (all.count() as f64 / seconds) as u64)
            .with("calls", all.count())
            .with("calls whose key was revoked meanwhile", all.refused)
            .with("keys revoked and refused", changed.into_iter().sum::<u64>())
            .with("slow requests answered", of_slow.answered)
            .with("slow requests closed", of_slow.closed)
            .with("slow answers taken", of_slow.taken);
        for (kind, calls) in KINDS.into_iter().zip(all.by_kind) {
            report.add_in("mix", kind, calls);
        }
        report.note(format!("{rate:.0} calls a second were due, which is {SHARE}% of the peak"));
        report.note(format!("from the request to the answer: {}", percentiles(&mut all.times)));
        report.note(format!("since the request was due: {}", percentiles(&mut all.times_since_due)));
        report.note(self.judge_memory(&memory, time)?);
        Ok(report)
    }

    /// Makes calls on one connection until the run ends: at once, or from a time on at an interval. Then uses
    /// each key once more.
    fn call(self, number: u64, paced: Option<(Instant, Duration)>, run: &Run) -> Proven<Calls> {
        let mut connection = Connection::open(&self.server.address)?;
        let (mut calls, mut last) = (Calls::default(), 0);
        for n in 0_u64.. {
            // The time at which a request is due does not depend on answers before: a server that is slow for
            // a while is not called less because of it.
            let due = paced.map(|(first, interval)| first + interval.mul_f64(n as f64));
            if let Some(due) = due {
                run.sleep_until(due);
            }
            last += u64::from(run.is_ending());
            if last > SLOTS || run.has_failed() {
                break;
            }
            let sent = run.now();
            if self.keys.key(number + n).send(&mut connection, mix::call(number, n))? {
                let answered = run.now();
                calls.by_kind[mix::kind(n)] += 1;
                calls.times.push(answered.duration_since(sent));
                calls.times_since_due.push(answered.saturating_duration_since(due.unwrap_or(sent).min(sent)));
            } else {
                calls.refused += 1;
            }
        }
        Ok(calls)
    }

    /// Replaces and revokes keys until the time of the run is over. Returns the number of revoked keys.
    fn change(self, number: u64, run: &Run) -> Proven<u64> {
        let mut connection = Connection::open(&self.server.address)?;
        let mut changed = 0;
        while !run.has_failed() && (changed < LEAST_CHANGES || !run.is_over()) {
            // The changers have slots of their own.
            let slot = number + changed * CHANGERS;
            self.keys.change(&mut connection, (&*self.server.key, slot), self.of.fault)?;
            changed += 1;
            run.sleep(self.of.pace);
        }
        Ok(changed)
    }

    /// Returns the resident memory of the server from time to time, until the time of the run is over.
    fn watch_memory(self, run: &Run) -> Proven<Vec<(Duration, u64)>> {
        let process = self.server.id().to_string();
        let mut samples = Vec::new();
        while !run.is_over() {
            samples.push((run.elapsed(), status_of(&process, "VmRSS:")? << 10));
            run.sleep(run.time() / SAMPLES);
        }
        Ok(samples)
    }

    /// Compares the memory in the last quarter of the run with that in the second one. Returns both as text.
    fn judge_memory(self, samples: &[(Duration, u64)], time: Duration) -> Proven<String> {
        let mean = |quarter: u32| {
            let of_quarter = (time / 4 * quarter)..(time / 4 * (quarter + 1));
            let of_quarter = samples.iter().filter(|(at, _)| of_quarter.contains(at));
            let bytes: Vec<u64> = of_quarter.map(|(_, bytes)| *bytes).collect();
            bytes.iter().sum::<u64>() / u64::max(bytes.len() as u64, 1)
        };
        let (second, last) = (mean(1), mean(3));
        let text = format!(
            "resident memory: {} MiB in the second quarter, {} MiB in the last",
            second >> 20,
            last >> 20
        );
        let is_flat = last <= second + second / 10 + MARGIN;
        hold(is_flat || !self.of.judges_memory, || format!("the memory grows: {text}"))?;
        Ok(text)
    }
}

/// Starts threads, each with its number. A failure of one ends the run.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    threads: u64,
    run: &'scope Run,
    work: impl Fn(u64) -> Proven<T> + Copy + Send + 'scope,
) -> Vec<ScopedJoinHandle<'scope, Proven<T>>> {
    (0..threads).map(|number| scope.spawn(move || run.watch(work(number)))).collect()
}

/// Waits for all threads. Returns their results, or the first failure.
fn joined<T>(threads: Vec<ScopedJoinHandle<'_, Proven<T>>>) -> Proven<Vec<T>> {
    let outcomes: Vec<_> = threads
        .into_iter()
        .map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Broken::because("a thread of the proof panicked")))
        })
        .collect();
    outcomes.into_iter().collect()
}

/// Returns the median, the 99th percentile and the maximum as text.
fn percentiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: usize| times.get((times.len() * share / 1000).min(times.len().saturating_sub(1)));
    let at = |share| at(share).copied().unwrap_or_default().as_secs_f64() * 1e3;
    format!("p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms", at(500), at(990), at(1000))
}
