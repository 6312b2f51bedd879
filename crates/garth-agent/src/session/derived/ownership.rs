//! Chunks and blobs that entries name. Each session collects its own, and looks for references in its own
//! files alone: an entry must not name one of another session.

use super::entry::Entry;
use crate::session::handle::Sessions;
use crate::session::log::source::{Source, What};
use crate::session::store::files::{BLOBS, CHUNKS};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::{At, Precondition};
use garth_engine::path::TreePath;

impl Sessions<'_> {
    /// Checks that entries name no chunk or blob of another session, whose collection would not know of it.
    /// Returns conditions: chunks and blobs of this session that they name exist at the commit.
    ///
    /// The references of a child were written in another session, so a chunk or blob that they name must
    /// exist here.
    pub(crate) async fn named_here(
        &self,
        session: &str,
        entries: &[Entry],
        of_child: bool,
    ) -> Result<Vec<(At, Precondition)>> {
        let (own, mut conditions) = (self.directory(session)?, Vec::new());
        for entry in entries {
            let to = entry.to.iter().filter_map(|(path, _)| path.parse::<Source>().ok());
            let sources = entry.sources.iter().chain(&entry.resolved).map(|source| (source.clone(), true));
            for (source, is_source) in sources.chain(to.map(|to| (to, false))) {
                let Some(path) = self.file_named(session, &source)? else { continue };
                let Some(holder) = holder_of(&path) else { continue };
                let is_own = holder == own.as_str();
                let is_there = is_own && (is_source || of_child) && self.fs.exists(&path).await?;
                if !is_own || of_child && !is_there {
                    let id = &entry.id;
                    let message = format!(
                        "{id}: {source} is a chunk or blob that {session} does not have; another session \
                         collects its own, so name the lines it came from"
                    );
                    return Err(Error::new(ErrorKind::Conflict, message));
                }
                // Held until the commit: a collection that runs now has not seen this entry, and may remove
                // the chunk.
                if is_there {
                    conditions.push((At::from(path), Precondition::Exists));
                }
            }
        }
        Ok(conditions)
    }

    /// Returns the path of the file that a source names, whether or not it exists.
    fn file_named(&self, session: &str, source: &Source) -> Result<Option<TreePath>> {
        let of = source.session.as_deref().unwrap_or(session);
        Ok(match &source.what {
            What::Swap(id) => Some(self.file(of, &format!("{CHUNKS}/{id}"))?),
            What::Path(path) if path.starts_with('/') => TreePath::parse(path).ok(),
            What::Path(path) => TreePath::parse(&format!("{}/{path}", self.directory(of)?)).ok(),
            _ => None,
        })
    }
}

/// Returns the directory of the session that collects a chunk or blob.
fn holder_of(path: &TreePath) -> Option<&str> {
    let parts: Vec<&str> = path.as_str().split('/').collect();
    let ["", "users", _, "agents", _, "session", _, "context", dir, _, ..] = &*parts else { return None };
    // `context/swap`, `context/dedup`
    let is_held = [CHUNKS, BLOBS].iter().any(|held| held.split('/').nth(1) == Some(dir));
    let end = parts[..7].iter().map(|part| part.len() + 1).sum::<usize>() - 1;
    path.as_str().get(..end).filter(|_| is_held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_chunks_and_blobs_have_a_holder() {
        let of = |path: &str| holder_of(&TreePath::parse(path).unwrap()).map(str::to_owned);
        let session = "/users/ann/agents/coder/session/work";
        for file in ["swap/chunk/sha256-1", "dedup/blob/a", "swap/index.jsonl", "dedup/blob/a/b"] {
            assert_eq!(of(&format!("{session}/context/{file}")).as_deref(), Some(session));
        }
        for file in ["context/swap", "context/summary.md", "swap/chunk/a", "context/child/a/artifact/b"] {
            assert_eq!(of(&format!("{session}/{file}")), None, "{file}");
        }
        assert_eq!(of("/src/session/work/context/swap/chunk/a"), None);
    }
}
