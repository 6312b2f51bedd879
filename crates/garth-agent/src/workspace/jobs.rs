//! Jobs for a model: memories to extract from a session that was archived while no model answered. A job is a
//! file in the account's outbox, done once by a process with a model, and never sent to a sink.

use serde::{Deserialize, Serialize};

use super::daily::WhenBlocked;
use super::extract_memories::{Asking, MAX_ASKED, MAX_QUESTIONS, ask};
use super::handle::{Keeper, Workspace};
use crate::boxed;
use crate::identity::{Class, is_reserved};
use crate::ids::uuid;
use crate::memory::OUTBOX;
use crate::session::{Export, Meta, TranscriptFormat, archived_said};
use crate::small_file::{File, as_read, pretty, read_all};
use crate::time_zone::{Day, Zone};
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Author, Batch, Kind, Op, Page, Precondition, Timestamp};
use garth_engine::path::{TreePath, check_id};

/// Directory of the jobs in the account's outbox.
const JOBS: &str = "jobs";
/// Directory of failed jobs in [`JOBS`].
const FAILED: &str = "dlq";

/// Kind of the jobs that extract memories.
const MEMORY: &str = "memory";

/// Lease time of a job in seconds. A model answers within 120.
const LEASE: i64 = 600;
/// Limit on the retries of a job: after 1, 4, 16, 64 and 256 seconds.
const RETRIES: u32 = 5;
/// Seconds between attempts while no file of the day has room: an hour.
const WHILE_FULL: i64 = 3600;
/// Seconds after which a job that finds no room fails for good: a week.
const LONGEST_FULL: i64 = 7 * 24 * 3600;
/// Number of files read at a time.
const LOOKED_AT: usize = 256;
/// Limit on the bytes of a job's file.
const MAX_JOB: usize = 64 << 10;

/// Job to extract memories from an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) id: String,
    kind: String,
    agent: String,
    user: String,
    class: Class,
    session: String,
    archive: String,
    /// First line of the archive that is still to be asked about.
    first: u64,
    /// Day to which the memories belong.
    day: String,
    status: String,
    attempts: u32,
    created_at: String,
    next_attempt_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

/// Outcome of extracting memories at the end of a session, or in a compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Extraction {
    /// Nothing to remember, or no model to ask.
    Nothing,
    /// Added to this file.
    Added(TreePath),
    /// The model did not answer, or no file of the day had room: this job asks the model again.
    Later(String),
}

/// Result of a run over the jobs of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Jobs {
    /// Number of completed jobs.
    pub done: u64,
    /// Number of jobs that failed for good.
    pub failed: u64,
    /// Time at which the next job is due.
    pub next: Option<Timestamp>,
}

impl Job {
    /// Returns a job that extracts memories from an archive and adds them to a day.
    pub(super) fn new(
        workspace: &Workspace<'_>,
        meta: &Meta,
        (archive, first): (&TreePath, u64),
        day: Day,
    ) -> Result<Self> {
        let now = workspace.env.now().to_rfc3339();
        let kind = MEMORY.to_owned();
        Ok(Self {
            id: uuid(&workspace.env)?,
            kind,
            agent: meta.agent.clone(),
            user: meta.user.clone(),
            class: meta.class.of_requests(),
            session: meta.name.clone(),
            archive: archive.to_string(),
            first,
            day: day.to_string(),
            status: "PENDING".to_owned(),
            attempts: 0,
            created_at: now.clone(),
            next_attempt_at: now,
            lease_until: None,
            last_error: None,
        })
    }

    /// Returns the write of its file.
    pub(super) fn op(&self) -> Result<Op> {
        Ok(Op::write(self.path()?, pretty(self)?).with_parents())
    }

    fn path(&self) -> Result<TreePath> {
        check_id("job", &self.id)?;
        Ok(TreePath::from_row(directory()?.key(), &format!("{}.json", self.id)))
    }

    /// Returns true if a job that finds no room is still retried.
    fn is_younger(&self, env: &Env) -> bool {
        let created = Timestamp::parse_rfc3339(&self.created_at).unwrap_or_default();
        env.now() < created.plus_seconds(LONGEST_FULL)
    }

    /// Returns when it may be done. After a lease has ended, another process may take it.
    fn due(&self) -> Timestamp {
        let at = self.lease_until.as_ref().unwrap_or(&self.next_attempt_at);
        Timestamp::parse_rfc3339(at).unwrap_or_default()
    }
}

fn directory() -> Result<TreePath> {
    Ok(TreePath::parse(&format!("/{OUTBOX}/{JOBS}"))?)
}

/// Returns when the next job of an account is due, if there is one.
///
/// # Errors
/// From the filesystem.
#[boxed]
pub async fn next_job(fs: &dyn FileSystem) -> Result<Option<Timestamp>> {
    Ok(jobs(fs).await?.iter().map(|(_, _, job)| job.due()).min())
}

/// Returns the jobs of an account, with their files.
async fn jobs(fs: &dyn FileSystem) -> Result<Vec<(TreePath, File, Job)>> {
    let dir = directory()?;
    let (mut jobs, mut page) = (Vec::new(), Page::default().limit(LOOKED_AT));
    loop {
        let Some(listing) = fs.list(&At::from(&dir), &page).await.optional()? else { break };
        let last = listing.items.last().map(|item| item.name.clone()).filter(|_| listing.more);
        let files = listing.items.into_iter().filter(|item| item.kind == Kind::File);
        let paths: Vec<_> = files.map(|item| TreePath::from_row(dir.key(), item.name.as_str())).collect();
        let read = read_all(fs, &paths, MAX_JOB).await?;
        jobs.extend(paths.into_iter().zip(read).filter_map(|(path, file)| {
            let file = file?;
            let job: Job = serde_json::from_slice(file.bytes.as_ref()?).ok()?;
            let is_one = job.kind == MEMORY && job.path().is_ok_and(|own| own == path);
            is_one.then_some((path, file, job))
        }));
        // Jobs that are not due yet, and invalid files, must not hide those after them.
        let Some(last) = last else { break };
        page = page.after(last);
    }
    Ok(jobs)
}

/// Does the jobs of an account that are due.
///
/// # Errors
/// From the filesystem.
pub async fn run_jobs(fs: &dyn FileSystem, env: &Env, asking: Asking<'_>) -> Result<Jobs> {
    let mut looked = Jobs::default();
    for (path, file, job) in jobs(fs).await? {
        if job.due() > env.now() {
            looked.at(job.due());
            continue;
        }
        match run(fs, env, asking, (&path, &file), job).await {
            Ok(JobOutcome::Done) => looked.done += 1,
            Ok(JobOutcome::Failed) => looked.failed += 1,
            Ok(JobOutcome::Again(at)) => looked.at(at),
            // Another process has it.
            Err(error) if error.is(ErrorKind::Conflict) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(looked)
}

impl Jobs {
    fn at(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

enum JobOutcome {
    Done,
    Failed,
    Again(Timestamp),
}

/// Claims a job, does it, and removes its file in the commit with the result.
async fn run(
    fs: &dyn FileSystem,
    env: &Env,
    asking: Asking<'_>,
    (path, file): (&TreePath, &File),
    mut job: Job,
) -> Result<JobOutcome> {
    let author = Author::agent(&job.agent).with_class(job.class.as_str()).with_session(&job.session);
    let author = if is_reserved(&job.user) { author } else { author.with_user(&job.user) };
    let workspace = Workspace::new(fs, &job.agent)?.env(env.clone()).author(author.with_audience(&job.user));
    // Counted in the claim, so that a job that crashes its worker is not retried forever.
    job.attempts = job.attempts.saturating_add(1);
    job.status = "PROCESSING".to_owned();
    job.lease_until = Some(env.now().plus_seconds(LEASE).to_rfc3339());
    let claim = workspace.batch(vec![Op::write(path.clone(), pretty(&job)?)], "claim a job");
    fs.commit(claim.require(path.clone(), as_read(Some(file)))).await?;
    let claimed = read_all(fs, std::slice::from_ref(path), MAX_JOB).await?.pop().flatten();
    // The result depends on this version: after the lease has ended, another process may have claimed the
    // job.
    let own = as_read(claimed.as_ref());
    let done = async {
        let mut batch = workspace.remembered(&job, asking).await?;
        batch.ops.push(Op::remove(path.clone()));
        fs.commit(batch.require(path.clone(), own.clone())).await
    };
    // Also if the memory changed in between: the job is given back at once, and not held until its lease
    // ends.
    match done.await {
        Ok(_) => Ok(JobOutcome::Done),
        Err(error)
            if is_full(&error) && job.is_younger(env) || job.attempts <= RETRIES && !is_final(&error) =>
        {
            // A full day only gets room when somebody makes some, so these retries are limited by age, not by
            // number.
            let pause = if is_full(&error) { WHILE_FULL } else { 1 << (2 * (job.attempts - 1)) };
            let at = env.now().plus_seconds(pause);
            (job.status, job.lease_until) = ("PENDING".to_owned(), None);
            (job.next_attempt_at, job.last_error) = (at.to_rfc3339(), Some(error.to_string()));
            let back = workspace.batch(vec![Op::write(path.clone(), pretty(&job)?)], "give a job back");
            fs.commit(back.require(path.clone(), own)).await?;
            Ok(JobOutcome::Again(at))
        }
        Err(error) => {
            tracing::warn!(job = job.id, %error, "a job failed for good");
            (job.status, job.lease_until) = ("FAILED".to_owned(), None);
            job.last_error = Some(error.to_string());
            let dir = TreePath::from_row(directory()?.key(), FAILED);
            let to = TreePath::from_row(dir.key(), path.name().unwrap_or_default());
            let ops = vec![Op::remove(path.clone()), Op::write(to, pretty(&job)?).with_parents()];
            fs.commit(workspace.batch(ops, "put a job aside").require(path.clone(), own)).await?;
            Ok(JobOutcome::Failed)
        }
    }
}

/// Returns true if no file of the day has room.
fn is_full(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::AlreadyExists)
}

/// Returns true if another attempt would fail the same way.
fn is_final(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::Corrupt
            | ErrorKind::InvalidArgument
            | ErrorKind::TooLarge
            | ErrorKind::AlreadyExists
    )
}

impl Workspace<'_> {
    /// Adds memories that a model extracted from a session to a day. If no file of the day has room, adds a
    /// job that asks again about the archive, starting at a line: the session continues, and nothing is lost.
    pub(super) async fn remember_or_later(
        &self,
        text: &str,
        (day, zone): (Day, &Zone),
        (meta, archive, first): (&Meta, &TreePath, u64),
        (ops, conditions): (&mut Vec<Op>, &mut Vec<(At, Precondition)>),
    ) -> Result<Extraction> {
        match self.remember_ops((day, zone), text, &Keeper::of(meta), WhenBlocked::GoOn).await {
            Ok((more, (path, condition))) => {
                ops.extend(more);
                conditions.push((At::from(&path), condition));
                Ok(Extraction::Added(path))
            }
            Err(error) if matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::AlreadyExists) => {
                tracing::warn!(session = meta.name, %error, "a job will extract memories of the session later");
                let job = Job::new(self, meta, (archive, first), day)?;
                ops.push(job.op()?);
                Ok(Extraction::Later(job.id))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the batch that adds the memories of an archive to a day.
    async fn remembered(&self, job: &Job, asking: Asking<'_>) -> Result<Batch> {
        let (path, day) = (TreePath::parse(&job.archive)?, job.day.parse()?);
        // A job is a file that others could have written. It must not lead to files outside the agent's
        // archives.
        if !path.is_within(&self.file("sessions")?) {
            return Err(Error::invalid(format!("{path}: is no archive of {}", self.agent)));
        }
        let (mut next, mut found) = (Some(job.first), Vec::new());
        for _ in 0..MAX_QUESTIONS {
            let Some(first) = next else { break };
            let (said, more) = self.said_in(&path, first).await?;
            next = more;
            if !said.is_empty() {
                found.extend(ask(&said, asking).await?);
            }
        }
        if found.is_empty() {
            return Ok(self.batch(Vec::new(), "remember nothing"));
        }
        let zone = self.settings().await?.zone()?;
        let keeper = Keeper { class: job.class, audience: job.user.clone() };
        let text = found.join("\n");
        let added = self.remember_ops((day, &zone), &text, &keeper, WhenBlocked::GoOn).await;
        let (ops, (file, condition)) = added?;
        Ok(self.batch(ops, "remember").require(file, condition))
    }

    /// Returns the text of an archive as a model sees it, up to the limit of one question, and the line of
    /// the next one.
    async fn said_in(&self, archive: &TreePath, first: u64) -> Result<(String, Option<u64>)> {
        let page =
            self.archive_page(archive, &Export::new(TranscriptFormat::Pi).lines(first..=u64::MAX)).await?;
        let (mut said, mut tokens) = (String::new(), 0);
        for (number, line) in (first..).zip(&page.items) {
            for (text, more) in archived_said(number, line)? {
                // At least one message, or a long one would never be passed.
                if tokens + more > MAX_ASKED && tokens > 0 {
                    return Ok((said, Some(number)));
                }
                tokens += more;
                said.push_str(&text);
            }
        }
        Ok((said, page.next))
    }
}
