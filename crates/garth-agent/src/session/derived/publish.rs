//! Publishes a fact or a decision as a memory, with its provenance.

use super::entry::EntryKind;
use crate::boxed;
use crate::memory::{Provenance, Put};
use crate::session::handle::Sessions;
use crate::session::log::source::Resolved;
use crate::session::store::files::CHUNKS;
use garth_engine::error::{Error, Result};

impl Sessions<'_> {
    /// Returns a fact or decision as a memory to put, with the lines that it was derived from.
    ///
    /// # Errors
    /// `NotFound` for an unknown id; `InvalidArgument` for that of a reference; from the filesystem.
    #[boxed]
    #[doc(hidden)]
    pub async fn to_publish(&self, session: &str, id: &str) -> Result<Put> {
        let why = self.why(session, id).await?;
        if why.kind == EntryKind::Ref {
            return Err(Error::invalid(format!("{id} is a reference; publish facts and decisions")));
        }
        let (mut sources, chunks) = (Vec::new(), self.file(session, CHUNKS)?);
        for (_, resolved) in &why.sources {
            // A reference from a memory does not keep a chunk from collection. The memory names the lines
            // instead, which stay.
            let lines = match resolved {
                Resolved::File { path, .. } if path.parent().as_ref() == Some(&chunks) => {
                    self.lines_of_chunk(session, path).await?
                }
                _ => None,
            };
            sources.push(lines.unwrap_or_else(|| resolved.fixed()));
        }
        let mut put = Put::new(format!("{}\n", why.entry.says.trim_end()));
        put.provenance = Some(Provenance {
            user: self.user.clone(),
            agent: self.agent.clone(),
            session: session.to_owned(),
            entry: id.to_owned(),
            sources,
        });
        Ok(put)
    }
}
