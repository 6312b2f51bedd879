//! Runs a group of the queue on the writer's connection, in one transaction, and sends the results of its
//! members.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Group, ResultSender, Writer};
use crate::engine::sqlite::commit::group::{
    BatchRequest, GroupContext, Task, WriteConn, may_be_of_one_member,
};
use crate::engine::sqlite::writer_lock::WriterGuard;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Commit, Durability};
use crate::runtime::disk::is_short_of_descriptors;
use crate::sqlite::DbError;
use crate::threads::lock::lock;

impl Writer {
    /// Runs a group on the writer's connection and completes its members.
    pub(super) fn run_group(self: &Arc<Self>, group: Group) {
        // Held for the whole group: a connection whose slot is locked counts as in use.
        let mut slot = lock(&self.conn);
        if let Some(refusal) = self.refusal() {
            // Refused without end otherwise: index work stays due until it is done.
            self.stop_chores();
            return group.refuse(&refusal);
        }
        // Taken, not borrowed: a panic leaves the slot empty, and the next group opens a new connection.
        let kept = slot.take().inspect(|_| self.runtime.conns().remove(1));
        let mut conn = match kept.map_or_else(|| self.connect(), Ok) {
            Ok(conn) => conn,
            Err(error) => return group.refuse(&error),
        };
        match group {
            Group::Commits(commits) => self.run_commits(&mut conn, commits),
            Group::Task { durable, task, answer } => self.run_task(&mut conn, durable, task, answer),
            Group::Chore => self.run_chore(&mut conn),
        }
        // The connection is dropped here: its Drop keeps SQLite from copying the WAL, whose synced part is
        // unknown.
        if self.is_poisoned() {
            return;
        }
        // Before the checkpoint, which may wait for readers.
        self.waiters.wake();
        if let Err(error) = self.checkpoints.after_group(&conn.conn) {
            let error = error.describe(self.database.subject);
            tracing::warn!(%error, "checkpoint failed");
        }
        match conn.look_for_chores() {
            Ok(Some(due)) => self.set_chores(due),
            Ok(None) => {}
            Err(error) => self.stop_failed_chores(&error.describe(self.database.subject)),
        }
        self.has_written.store(true, Ordering::Relaxed);
        self.used.store(self.runtime.conns().add(), Ordering::Relaxed);
        *slot = Some(conn);
        drop(slot);
        // Only after the slot is free: the budget may choose to close this connection.
        self.runtime.conns().enforce();
    }

    /// Records whether work on the search index is due.
    fn set_chores(&self, due: bool) {
        let before = std::mem::replace(&mut lock(&self.queue).chores, due);
        let behind = &self.runtime.counters().index_behind;
        match (before, due) {
            (false, true) => behind.add(1),
            (true, false) => behind.sub(1),
            _ => {}
        }
    }

    /// Runs a step of the work on the search index.
    fn run_chore(&self, conn: &mut WriteConn) {
        let outcome = self.acquire().and_then(|_guard| {
            conn.run_chore(&self.runtime, &self.packs, self.control.registry())
                .map_err(|error| self.judge(error))
        });
        match outcome {
            Ok(()) => self.runtime.counters().index_steps.add(1),
            Err(error) => self.stop_failed_chores(&error),
        }
    }

    /// Ends index work for this instance: a step that failed once would fail again and again.
    fn stop_failed_chores(&self, error: &Error) {
        self.runtime.counters().index_failures.add(1);
        tracing::warn!(%error, "the search index could not be updated; run `garth fsck`");
        self.stop_chores();
    }

    /// Waits until no other process writes.
    fn acquire(&self) -> Result<WriterGuard> {
        let acquired = match self.lock.acquire() {
            // Out of file descriptors: close idle connections and try again.
            Err(_) if is_short_of_descriptors() => {
                self.runtime.conns().shrink(0);
                self.lock.acquire()
            }
            other => other,
        };
        acquired.map_err(|error| self.explained(error))
    }

    fn connect(&self) -> Result<WriteConn> {
        let opened = self.runtime.conns().open();
        let connected = match self.database.connect() {
            // Out of file descriptors: close idle readers and try again.
            Err(error) if error.is(ErrorKind::Unavailable) && is_short_of_descriptors() => {
                self.runtime.conns().shrink(0);
                self.database.connect()
            }
            other => other,
        };
        let failed = |error: DbError| self.explained(error.describe(self.database.subject));
        let conn = self.pool.watched(connected.map_err(failed)?);
        if let Err(error) = self.checkpoints.before_first(&conn) {
            let error = error.describe(self.database.subject);
            tracing::warn!(%error, "the rest of the write-ahead log could not be copied");
            // Any other failure is left to later checkpoints: the WAL is intact and read as before.
            if self.is_poisoned() {
                return Err(error);
            }
        }
        Ok(WriteConn::new(conn, opened))
    }

    /// Returns the error to report for a failure. If the failure leaves the state of the disk unknown, the
    /// pool is poisoned first, so that a caller who opens the account again after the report gets another
    /// instance.
    fn judge(&self, error: DbError) -> Error {
        if error.leaves_disk_unknown() {
            self.pool.poison();
        }
        self.explained(error.describe(self.database.subject))
    }

    /// Runs a task and sends its result.
    fn run_task(&self, conn: &mut WriteConn, durable: bool, task: Task, answer: ResultSender<()>) {
        let outcome = self.acquire().and_then(|_guard| {
            let outcome = conn.run_task(durable, &self.runtime, task);
            outcome.map_err(|error| self.judge(error))
        });
        if let Err(Err(error)) = answer.send(outcome) {
            tracing::warn!(%error, "a background write failed");
        }
    }

    /// Counts a group whose transaction was committed.
    fn count_group(&self, results: &[Result<Commit>]) {
        let counters = self.runtime.counters();
        let committed = results.iter().filter(|result| result.is_ok()).count() as u64;
        counters.group_sizes.record(results.len() as u64);
        counters.committed.add(committed);
        counters.refused.add(results.len() as u64 - committed);
    }

    /// Remembers that a sync has covered the commits of a group.
    fn note_durable(&self, results: &[Result<Commit>]) {
        let last = results.iter().flatten().map(|commit| commit.seq.0).max();
        self.durable.fetch_max(last.unwrap_or_default(), Ordering::AcqRel);
    }

    /// Runs a group of commits and sends each result.
    fn run_commits(&self, conn: &mut WriteConn, commits: Vec<(BatchRequest, ResultSender<Commit>)>) {
        let (batches, answers): (Vec<BatchRequest>, Vec<ResultSender<Commit>>) = commits.into_iter().unzip();
        let mut answers: Vec<_> = answers.into_iter().map(Some).collect();
        let guard = match self.acquire() {
            Ok(guard) => guard,
            Err(error) => {
                self.runtime.counters().failed.add(answers.len() as u64);
                return answer_all(answers, &error);
            }
        };
        // One durable member makes the group durable: the WAL is one file.
        let durable = batches.iter().any(|asked| asked.batch.durability == Durability::Durable);
        let Self { runtime, packs, open, control, .. } = self;
        let context = GroupContext { runtime, packs, open, control };
        let outcome = conn.run_batches(durable, &context, &batches, |results| {
            if self.runtime.fault().acknowledges_early() {
                acknowledge_early(&mut answers, results);
            }
        });
        // Released before the results are sent, and before members run alone, which acquire it again.
        drop(guard);
        match outcome {
            Ok(results) => {
                self.count_group(&results);
                // Before the waiters are woken, which ask for it.
                if durable {
                    self.note_durable(&results);
                }
                let mut told: Vec<_> = answers.into_iter().zip(results).collect();
                // Losers first: otherwise callers that compare and swap in a loop come back in the order of
                // this group, and the first of them wins each time.
                told.sort_by_key(|(_, result)| result.is_ok());
                for (answer, result) in told {
                    // A failed send means that nobody waits for the result any more.
                    answer.map(|answer| answer.send(result));
                }
            }
            // Damage or lack of space may be caused by one member: run each alone, so that the others
            // succeed.
            Err(error) if batches.len() > 1 && may_be_of_one_member(error.kind()) => {
                let alone = batches.into_iter().zip(answers);
                // The fault `ack-early` has taken some of the senders.
                for (batch, answer) in alone.filter_map(|(batch, answer)| Some((batch, answer?))) {
                    match self.refusal() {
                        Some(refusal) => answer_all(vec![Some(answer)], &refusal),
                        None => self.run_commits(conn, vec![(batch, answer)]),
                    }
                }
            }
            Err(error) => {
                let error = self.judge(error);
                self.runtime.counters().failed.add(answers.len() as u64);
                tracing::error!(%error, source = ?std::error::Error::source(&error), "a group of commits failed");
                answer_all(answers, &error);
            }
        }
    }
}

/// Injects the fault `ack-early`, by which the crash tests prove that they notice.
fn acknowledge_early(answers: &mut [Option<ResultSender<Commit>>], results: &[Result<Commit>]) {
    for (answer, result) in answers.iter_mut().zip(results) {
        if let (Some(answer), Ok(commit)) = (answer.take(), result) {
            // A failed send means that nobody waits for the result any more.
            let _ = answer.send(Ok(commit.clone()));
        }
    }
}

/// Sends one error to all.
fn answer_all(answers: Vec<Option<ResultSender<Commit>>>, error: &Error) {
    for answer in answers.into_iter().flatten() {
        // A failed send means that nobody waits for the result any more.
        let _ = answer.send(Err(error.clone()));
    }
}

impl Group {
    fn refuse(self, error: &Error) {
        match self {
            Self::Commits(commits) => {
                answer_all(commits.into_iter().map(|(_, answer)| Some(answer)).collect(), error);
            }
            Self::Task { answer, .. } => drop(answer.send(Err(error.clone()))),
            Self::Chore => {}
        }
    }
}
