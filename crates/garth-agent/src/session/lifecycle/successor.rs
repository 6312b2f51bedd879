//! Ends a session and creates its successor, as a part of the commit of a reset.

use super::create::Create;
use crate::identity::{SessionKey, StoredClass};
use crate::ids::uuid;
use crate::session::handle::Sessions;
use crate::session::store::files::{Log, META, UPDATED_AT};
use crate::session::store::list::Listed;
use crate::session::store::meta::{Meta, State};
use crate::small_file::{File, as_read};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{At, Op, Precondition, VersionId};
use garth_engine::path::{TreePath, check_id};

/// Names tried for the successor: `work-2`, `work-3` and so on.
const MAX_NAMES: u64 = 1000;

/// Part of a commit that ends a session and creates its successor.
#[derive(Debug)]
pub(crate) struct SuccessionPlan {
    pub(crate) ops: Vec<Op>,
    pub(crate) conditions: Vec<(At, Precondition)>,
    /// The successor.
    pub(crate) next: Listed,
}

/// A session to close, as it was read.
#[derive(Debug)]
pub(crate) struct CloseTarget {
    pub(crate) listed: Listed,
    /// `meta.json` as it was read.
    pub(crate) file: File,
    /// Path and version of the messages.
    pub(crate) messages: (TreePath, VersionId),
    /// Number of messages.
    pub(crate) lines: u64,
}

impl Sessions<'_> {
    /// Reads a session to close. The version of the messages is read before their number, so that later
    /// messages make the commit fail.
    pub(crate) async fn close_target(&self, session: &str) -> Result<CloseTarget> {
        self.check_writable(session)?;
        let (file, _) = self.meta(session).await?;
        let listed = self.get(session).await?;
        let path = self.file(session, Log::Messages.file())?;
        let etag = self.fs.stat(&At::from(&path)).await?.etag;
        let lines = self.end(session, Log::Messages).await?.lines;
        Ok(CloseTarget { listed, file, messages: (path, etag), lines })
    }

    /// Returns the line of a message in an archive, which lacks retracted messages; for one of these, the
    /// next line.
    pub(crate) async fn archived_line(&self, session: &str, line: u64) -> Result<u64> {
        let gone = self.retracted(session, 1..=line.saturating_sub(1)).await?;
        let mut gone: Vec<_> = gone.into_iter().map(|lines| (*lines.start(), *lines.end())).collect();
        gone.sort_unstable();
        let (mut left_out, mut seen) = (0, 0);
        for (first, last) in gone {
            // Runs can overlap, because other programs retract lines again. Each line counts once.
            let (first, last) = (first.max(seen + 1), last.min(line - 1));
            left_out += (last + 1).saturating_sub(first);
            seen = seen.max(last);
        }
        Ok(line - left_out)
    }

    /// Returns the operations that end a session and create the next one of this class, under `name` if
    /// given. `archive` is the path of its archive, if it has messages. The commit fails with `Conflict` if
    /// the session changes before it.
    pub(crate) async fn succession(
        &self,
        closed: &CloseTarget,
        archive: Option<&TreePath>,
        (name, class): (Option<&str>, StoredClass),
        reason: &str,
    ) -> Result<SuccessionPlan> {
        let Listed { name: session, cwd, meta, .. } = &closed.listed;
        let now = self.env.now().to_rfc3339();
        let mut create = Create::new(String::new()).cwd(cwd.clone());
        create.key = meta.session_key.as_deref().map(str::parse::<SessionKey>).transpose()?;
        (create.model, create.context_window) = (meta.model.clone(), meta.context_window);
        (create.class, create.previous) = (Some(class), Some(session.clone()));
        let (mut ops, mut conditions, next) = self.next_ops(session, meta, create, name).await?;
        let mut meta = meta.clone();
        conditions.extend(self.enter_state(session, &mut meta, State::Done, &mut ops).await?);
        (meta.next, meta.archive) = (Some(next.name.clone()), archive.map(TreePath::to_string));
        ops.push(self.meta_op(session, &meta)?);
        let mut fields = vec![("next", &*next.name), ("reason", reason)];
        fields.extend(meta.archive.iter().map(|archive| ("archive", &**archive)));
        self.add_event(&mut ops, session, "session.reset", &fields).await?;
        ops.push(Op::write(self.file(session, UPDATED_AT)?, format!("{now}\n")));
        conditions.push((At::from(self.file(session, META)?), as_read(Some(&closed.file))));
        let (messages, etag) = &closed.messages;
        conditions.push((At::from(messages), Precondition::Etag(*etag)));
        Ok(SuccessionPlan { ops, conditions, next })
    }

    /// Returns the operations that create the next session, under the first free name.
    async fn next_ops(
        &self,
        session: &str,
        meta: &Meta,
        mut create: Create,
        name: Option<&str>,
    ) -> Result<(Vec<Op>, Vec<(At, Precondition)>, Listed)> {
        if let Some(name) = name {
            create.name = name.to_owned();
            return self.create_ops(&create).await;
        }
        let numbered = session.rsplit_once('-').and_then(|(base, number)| Some((base, number.parse().ok()?)));
        let (base, number) = match numbered {
            // Only the name of a successor ends in a number that garth chose: `plan-9` alone is followed by
            // `plan-9-2`.
            Some((base, number)) if meta.previous.is_some() => (base, number),
            _ => (session, 1_u64),
        };
        for number in (number..number.saturating_add(MAX_NAMES)).map(|number| number.saturating_add(1)) {
            create.name = format!("{base}-{number}");
            // A UUID gets no number, and a long name can leave no room for one.
            if is_uuid(session) || check_id("session", &create.name).is_err() {
                create.name = uuid(&self.env)?;
            }
            match self.create_ops(&create).await {
                // Taken, perhaps by a session that this view does not show.
                Err(error) if error.is(ErrorKind::AlreadyExists) => {}
                made => return made,
            }
        }
        let message = format!("{base}-{number} and the following names are taken; name the next session");
        Err(Error::new(ErrorKind::AlreadyExists, message))
    }
}

/// Returns true for a UUID. The successor of a session that has one as its name gets a new UUID.
fn is_uuid(name: &str) -> bool {
    let parts: Vec<usize> = name.split('-').map(str::len).collect();
    let is_hex = |byte: u8| byte == b'-' || byte.is_ascii_hexdigit();
    parts == [8, 4, 4, 4, 12] && name.bytes().all(is_hex)
}
