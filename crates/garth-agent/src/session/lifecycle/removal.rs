//! Removes the directory of a session, as a part of one commit.

use super::successor::CloseTarget;
use crate::session::handle::Sessions;
use crate::session::store::files::META;
use crate::session::store::meta::PARENT;
use crate::small_file::as_read;
use garth_engine::error::{Advice, Error, ErrorKind, Result};
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::{At, Op, Precondition};

/// Directory of a session for messages and events that its policy archived.
const COLLECTED_LOGS: &str = "archive";

impl Sessions<'_> {
    /// Returns the operations that cancel the unfinished children of a session and remove its directory, with
    /// their conditions: the commit fails with `Conflict` if messages were appended since `target` was read.
    ///
    /// # Errors
    /// `Conflict` for an unfinished child of another session, and for a session that holds the only copy of
    /// collected messages.
    pub(crate) async fn removal(&self, target: &CloseTarget) -> Result<(Vec<Op>, Vec<(At, Precondition)>)> {
        let (session, meta) = (&target.listed.name, &target.listed.meta);
        // The parent would wait for a result that nobody can write any more.
        let parent = meta.other.get(PARENT).and_then(serde_json::Value::as_str);
        if let Some(parent) = parent.filter(|_| meta.finished_at.is_none()) {
            let (parent, child) = parent.rsplit_once('#').unwrap_or((parent, "ID"));
            let parent = parent.split_once('/').map_or(parent, |(_, session)| session);
            let message = format!("{session}: works as child {child} of session {parent}");
            let advice =
                format!("end it first: `garth context child set {parent} {child} --status cancelled`");
            return Err(Error::new(ErrorKind::Conflict, message).advising(Advice::Command, &advice));
        }
        let collected = self.file(session, COLLECTED_LOGS)?;
        // The archive of a removal has only what is in `messages.jsonl`.
        if self.fs.lookup(&collected).await?.is_some() {
            let message = format!(
                "{session}: {collected} has messages or events that its gc.policy archived, and no other copy \
                 exists; move the directory away first"
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let mut ops = Vec::new();
        // Their sessions are in other directories and would continue, with no parent left for the result.
        let mut conditions = self.end_children(session, &mut ops).await?;
        ops.push(Op::remove_tree(self.directory(session)?));
        conditions.push((At::from(self.file(session, META)?), as_read(Some(&target.file))));
        // A message that is appended later is not in the archive.
        let (messages, etag) = &target.messages;
        conditions.push((At::from(messages), Precondition::Etag(*etag)));
        Ok((ops, conditions))
    }
}
