//! The schedule of garbage collection. The files that gc examines are marked with a time in their metadata,
//! so that a server finds the sessions that are due without reading any other.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use super::policy::Policy;
use crate::boxed;
use crate::identity::check_audience;
use crate::retry::yield_now;
use crate::session::handle::Sessions;
use crate::session::store::files::{DEDUPED, META, PACK, POLICY, SWAPPED};
use crate::session::store::meta::Meta;
use crate::small_file::{File, read_all, unreadable};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::{FileSystem, FileSystemExt as _};
use garth_engine::model::{Entry, FindCursor, FindQuery, Op, SetAttrs, Timestamp};
use garth_engine::path::{TreePath, check_id};

/// Custom metadata of a file: time at which its session is due. RFC 3339, UTC.
const COLLECT_AT: &str = "garth.collect_at";

/// Marked files: for the pack, for chunks, for blobs, for messages and events.
pub(crate) const MARKED: [&str; 4] = [PACK, SWAPPED, DEDUPED, META];

/// Limit on the marks that are read at once, and on the sessions of one look.
const PAGE: usize = 1000;

/// Limit on the pages of marks that one look reads.
const MAX_PAGES: usize = 4;

/// Seconds until the marks after those of an incomplete look are read.
const NEXT_LOOK: i64 = 10;

/// Size limit of a policy.
const MAX_POLICY: usize = 64 << 10;

/// Seconds until a session that could not be collected, or not all at once, is due again.
pub(crate) const PAUSE: i64 = 60 * 60;

/// Sessions that are due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due {
    /// The sessions, without duplicates.
    pub sessions: Vec<DueSession>,
    /// Time at which the next one is due, or at which the next look should be made.
    pub next: Option<Timestamp>,
    /// Position at which the next look continues; `None` if it starts again with the first mark.
    pub after: Option<FindCursor>,
}

/// A session that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueSession {
    /// The user.
    pub user: String,
    /// The agent.
    pub agent: String,
    /// The session.
    pub session: String,
}

impl Due {
    /// Returns the sessions of an account that are due for collection, up to 1,000 at a time. One look reads
    /// at most 4,000 marks: if more are due, the next look continues after [`Due::after`] of this one.
    ///
    /// # Errors
    /// From the filesystem.
    #[boxed]
    pub async fn find(fs: &dyn FileSystem, now: Timestamp, after: Option<&FindCursor>) -> Result<Self> {
        Self::marked(fs, (COLLECT_AT, &MARKED), now, after).await
    }

    /// Returns the sessions of which one of `files` has a `mark` that is due.
    pub(crate) async fn marked(
        fs: &dyn FileSystem,
        (mark, files): (&str, &[&str]),
        now: Timestamp,
        after: Option<&FindCursor>,
    ) -> Result<Self> {
        let users = TreePath::parse("/users")?;
        let query = FindQuery::metadata_from(mark, "").within(users).limit(PAGE);
        let (mut due, mut seen) = (Self { after: after.cloned(), ..Self::default() }, HashSet::new());
        // Marks that lead to no session, such as those on files that were moved out of theirs, stay before
        // all others. Nobody removes them, so a look ends after some pages, and the next one continues there:
        // otherwise every look would cost as much as there are such files.
        for _ in 0..MAX_PAGES {
            let marks = fs.find(&query.clone().after(due.after.take())).await?;
            let mut is_end = marks.next.is_none();
            for item in marks.items {
                let time = item.key.split_once('\0').map(|(_, at)| Timestamp::parse_rfc3339(at));
                let Some(Ok(at)) = time else { continue };
                if at > now {
                    (due.next, is_end) = (Some(at), true);
                    break;
                }
                // A session has a mark on each of its files, and is collected once.
                if let Some(one) = DueSession::of(&item.path, files)
                    && seen.insert(one.to_string())
                {
                    due.sessions.push(one);
                }
            }
            if is_end {
                if after.is_some() {
                    // A mark before the start of this look may have been set after the look that passed it.
                    let first = now.plus_seconds(PAUSE);
                    due.next = Some(due.next.map_or(first, |next| next.min(first)));
                }
                return Ok(due);
            }
            due.after = marks.next;
            if due.sessions.len() >= PAGE {
                // More are due: the next look is later, not immediate.
                due.next = Some(now.plus_seconds(PAUSE));
                return Ok(due);
            }
            yield_now().await;
        }
        due.next = Some(now.plus_seconds(NEXT_LOOK));
        Ok(due)
    }
}

impl fmt::Display for DueSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.user, self.agent, self.session)
    }
}

impl DueSession {
    /// Returns the session that a marked file belongs to.
    fn of(path: &TreePath, files: &[&str]) -> Option<Self> {
        let mut parts = path.as_str().strip_prefix("/users/")?.splitn(6, '/');
        let mut next = || parts.next();
        let (user, agents, agent, sessions, session, file) =
            (next()?, next()?, next()?, next()?, next()?, next()?);
        let is_one = agents == "agents" && sessions == "session" && files.contains(&file);
        // Other programs may create any names. Nobody can open such a session, so it would be due forever.
        let is_named = check_audience(user).is_ok()
            && check_id("agent", agent).is_ok()
            && check_id("session", session).is_ok();
        (is_one && is_named).then(|| Self {
            user: user.to_owned(),
            agent: agent.to_owned(),
            session: session.to_owned(),
        })
    }
}

/// Returns the mark of a file.
pub(crate) fn mark_of(entry: &Entry) -> Option<Timestamp> {
    entry.attributes.metadata.get(COLLECT_AT).and_then(|at| Timestamp::parse_rfc3339(at).ok())
}

/// Returns the mark for `ttl` after a time, rounded up to a 24th of `ttl`, so that marks seldom change.
pub(crate) fn due_at(since: Timestamp, ttl: Duration) -> Timestamp {
    let ttl = i64::try_from(ttl.as_nanos()).unwrap_or(i64::MAX);
    let step = (ttl / 24).max(1_000_000_000);
    let due = since.0.saturating_add(ttl);
    Timestamp(due.saturating_add(step - 1).div_euclid(step).saturating_mul(step))
}

impl Sessions<'_> {
    /// Returns the attributes that mark a file for a time, or remove its mark.
    pub(crate) fn marked(&self, path: &TreePath, at: Option<Timestamp>) -> SetAttrs {
        let attrs = SetAttrs::new();
        match at {
            // A store without attributes refuses to set them, and packs must work there as well.
            _ if !self.fs.capabilities(path).attributes => attrs,
            Some(at) => attrs.metadata(COLLECT_AT, at.to_rfc3339()),
            None => attrs.remove_metadata(COLLECT_AT),
        }
    }

    /// Returns the write of `meta.json`. That of a finished session is marked, since its messages and events
    /// may be due.
    pub(crate) fn meta_op(&self, session: &str, meta: &Meta) -> Result<Op> {
        let path = self.file(session, META)?;
        // Due immediately: the first run reads the policy, and moves the mark to the time when messages may
        // be removed.
        let attrs = self.marked(&path, meta.finished_at.is_some().then(|| self.env.now()));
        Ok(Op::write(path, meta.to_json()?).with_attrs(attrs))
    }

    /// Returns the policy of a session, and its file.
    pub(crate) async fn policy(&self, session: &str) -> Result<(Option<File>, Policy)> {
        let path = self.file(session, POLICY)?;
        let file = read_all(self.fs, std::slice::from_ref(&path), MAX_POLICY).await?.pop().flatten();
        // New sessions have no policy file.
        let Some(known) = &file else { return Ok((file, Policy::default())) };
        let text = known.read().and_then(|_| known.text().ok_or_else(|| Error::invalid("is no UTF-8")));
        let policy = text.and_then(Policy::parse);
        let how = "correct it, or delete it for the default policy";
        let policy = policy.map_err(|error| unreadable(&path, error.message(), how))?;
        Ok((file, policy))
    }

    /// Returns the policy, or the default for an invalid one: collection reports that error, other calls do
    /// not fail.
    pub(crate) async fn policy_or_default(&self, session: &str) -> Result<Policy> {
        match self.policy(session).await {
            Ok((_, policy)) => Ok(policy),
            Err(error) if error.is(ErrorKind::Corrupt) => Ok(Policy::default()),
            Err(error) => Err(error),
        }
    }

    /// Moves the marks of a session that are due to an hour from now.
    ///
    /// # Errors
    /// From the filesystem.
    #[boxed]
    #[doc(hidden)]
    pub async fn postpone(&self, session: &str) -> Result<()> {
        let now = self.env.now();
        let mut ops = Vec::new();
        for name in MARKED {
            let path = self.file(session, name)?;
            if let Some(entry) = self.fs.lookup(&path).await?
                && mark_of(&entry).is_some_and(|at| at <= now)
            {
                let attrs = self.marked(&path, Some(now.plus_seconds(PAUSE)));
                ops.push(Op::set_attrs(path, attrs));
            }
        }
        if !ops.is_empty() {
            self.fs.commit(self.batch(session, ops, "put off collecting")?).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marked_files_lead_to_their_session() {
        let of = |path: &str| DueSession::of(&TreePath::parse(path).unwrap(), &MARKED);
        let found = of("/users/ann/agents/coder/session/work/context/pack.json").unwrap();
        assert_eq!((&*found.user, &*found.agent, &*found.session), ("ann", "coder", "work"));
        assert!(of("/users/ann/agents/coder/session/work/meta.json").is_some());
        for other in [
            "/users/ann/agents/coder/session/work/latest.md",
            "/users/ann/agents/coder/session/meta.json",
            "/users/ann/agents/coder/chats/work/meta.json",
            "/other/ann/agents/coder/session/work/meta.json",
        ] {
            assert!(of(other).is_none(), "{other}");
        }
        // Names that no session can have.
        let long = "x".repeat(200);
        for [user, agent, session] in [[&*long, "a", "s"], ["u", &long, "s"], ["u", "a", &long]] {
            assert!(of(&format!("/users/{user}/agents/{agent}/session/{session}/meta.json")).is_none());
        }
    }

    #[test]
    fn mark_follows_due_time_closely() {
        for (since, ttl) in [(0, 0), (1, 30), (1_700_000_000, 86_400), (1_700_000_001, 30 * 86_400)] {
            let due = due_at(Timestamp(since * 1_000_000_000), Duration::from_secs(ttl)).0 / 1_000_000_000;
            let ttl = i64::try_from(ttl).unwrap();
            assert!((since + ttl..=since + ttl + (ttl / 24).max(1)).contains(&due), "{since} {ttl} {due}");
        }
    }
}
