//! Collections in a model run, and comparisons of what they leave.

use garth_engine::model::{At, Batch, ByteRange, Kind, Moment, Op, Precondition, Seq};
use garth_engine::rule::retention::Retention;
use garth_engine::{Error, ErrorKind, FileSystem, FileSystemExt};

use super::{Run, is_durable};
use crate::model::comparisons::{Checked, same, same_blame, same_history, same_tree};
use crate::model::retention;
use crate::tools::{Fs, snapshots};

/// Limit on the readable states that are compared after a collection, besides the present one. They are
/// evenly spread from the oldest on; other steps compare more of them.
const COMPARED: u64 = 8;

/// Longest content that is compared at once, in bytes.
const COMPARED_BYTES: u64 = 1 << 20;

impl Run {
    /// Collects on another instance of the subject, which the retention in force limits as well.
    pub(super) async fn collect_elsewhere(&mut self) -> Checked {
        if self.subject.collect.is_none() {
            return Ok(());
        }
        let to = self.model.retention().set;
        self.collect(&to, false).await?;
        self.tally.collected += 1;
        self.tree().await
    }

    /// Sets a retention, if given, and collects; if `alone`, with no snapshot that holds the past. Then
    /// compares states of the past that are readable, and those that are not.
    pub(super) async fn retain(&mut self, to: Option<&Retention>, alone: bool) -> Checked {
        if !self.subject.retained {
            return Ok(());
        }
        if alone {
            self.drop_snapshots().await?;
        }
        let to = to.cloned().unwrap_or_else(|| self.model.retention().set);
        self.collect(&to, true).await?;
        self.tree().await?;
        self.readable_past().await
    }

    async fn drop_snapshots(&mut self) -> Checked {
        let all = snapshots(&self.model).await.map_err(|error| error.to_string())?;
        if all.is_empty() {
            return Ok(());
        }
        let batch = Batch::new(all.into_iter().map(|snapshot| Op::drop_snapshot(snapshot.name)));
        let mut subject = self.subject.fs.commit(batch.clone()).await;
        if let Ok(commit) = &mut subject {
            is_durable(&*self.subject.fs, commit)?;
        }
        same("dropping snapshots", subject, self.model.commit(batch).await).map(drop)
    }

    async fn collect(&mut self, to: &Retention, here: bool) -> Checked {
        let told = |error: Error| format!("collecting fails: {error}");
        if retention::any_expired(&self.subject.store).await.map_err(told)? {
            // First without limits on the log: it must name the ends of expired entries until the model has
            // repeated them.
            let content = to.content.clone();
            self.collect_once(&Retention { content, ..Retention::default() }, here).await?;
        }
        self.collect_once(to, here).await
    }

    /// Collects on both sides. On the subject this also commits the ends of expired entries, which are
    /// repeated on the model.
    async fn collect_once(&mut self, to: &Retention, here: bool) -> Checked {
        retention::set(&self.subject.store, &self.model, to).await?;
        if here {
            let collected = retention::collect_now(&self.subject.store).await?;
            self.tally.folded += collected.folded;
            self.tally.contents += collected.contents;
        } else if let Some(collect) = &self.subject.collect {
            collect().await.map_err(|error| format!("collecting fails: {error}"))?;
        }
        self.collected = self.now;
        loop {
            let since = self.model.head().await.map_err(|error| error.to_string())?.seq;
            let next = Seq(since.0 + 1);
            if self.subject.fs.head().await.map_err(|error| error.to_string())?.seq < next {
                break;
            }
            let ends = self.subject.fs.changes_of(next).await.map_err(|error| error.to_string())?;
            let paths = ends.changes.iter().filter_map(|change| change.path().cloned());
            let ops = paths.map(|path| Op::check(path, Precondition::Absent));
            // With the message of that commit, so that the logs stay equal.
            let batch = Batch { message: ends.commit.message.clone(), ..Batch::new(ops) };
            self.model.commit(batch).await.map_err(|error| format!("the model keeps {ends:?}: {error}"))?;
            same("the log", self.subject.fs.changes_of(next).await, self.model.changes_of(next).await)?;
        }
        self.model.collect_now();
        retention::same_retention(&self.subject.store, &self.model).await
    }

    /// Compares readable states of the past, and checks that those before fail with `Gone` on both sides.
    async fn readable_past(&mut self) -> Checked {
        let oldest = self.model.retention().oldest.0;
        for seq in [0, oldest / 2, oldest.saturating_sub(1)] {
            let moment = Moment::Seq(Seq(seq));
            if seq < oldest {
                for fs in [&*self.subject.fs, &self.model as &Fs] {
                    let found = fs.as_of(&moment).await.map(drop);
                    if !found.as_ref().is_err_and(|error| error.is(ErrorKind::Gone)) {
                        return Err(format!("state {seq} before {oldest} of {fs:?} is {found:?}"));
                    }
                }
                self.tally.gone += 1;
            }
        }
        let head = self.model.head().await.map_err(|error| error.to_string())?.seq.0;
        let step = (head - oldest).div_ceil(COMPARED).max(1);
        let states = (oldest..head).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        for seq in states.chain([head]) {
            self.state(Seq(seq), seq == oldest).await?;
        }
        Ok(())
    }

    /// Compares everything that a readable state shows; for the oldest one with the histories, which end
    /// there.
    async fn state(&mut self, seq: Seq, is_oldest: bool) -> Checked {
        self.tally.checks += 1;
        let moment = Moment::Seq(seq);
        let (subject, model) = match (self.subject.fs.as_of(&moment).await, self.model.as_of(&moment).await) {
            (Ok(subject), Ok(model)) => (subject, model),
            (Err(subject), Err(model)) => return Err(format!("state {seq}: {subject}, {model}")),
            (subject, model) => return same("a state", subject.map(drop), model.map(drop)).map(drop),
        };
        for item in same_tree(&*subject, &*model).await? {
            if is_oldest {
                same_history(&*subject, &*model, item.path.as_str(), 20).await?;
            }
            if item.kind != Kind::File {
                continue;
            }
            let place = At::Path(item.path);
            let range = ByteRange { offset: 0, length: COMPARED_BYTES };
            let expected = model.read(&place, range).await;
            self.tally.gone += u64::from(expected.as_ref().is_err_and(|error| error.is(ErrorKind::Gone)));
            same("content of a readable state", subject.read(&place, range).await, expected)?;
            same_blame(&*subject, &*model, &place, range).await?;
        }
        Ok(())
    }
}
