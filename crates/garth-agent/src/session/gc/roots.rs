//! Roots of the collection of a session: the references to its chunks and blobs in derived files, in the
//! references of its children, and in its pack. Only these files are read, so nothing else may name a chunk
//! or blob.

use std::collections::HashSet;

use crate::retry::yield_now;
use crate::session::derived::entry::{Entry, EntryKind, MAX_DERIVED};
use crate::session::handle::Sessions;
use crate::session::lifecycle::children::MAX_CHILDREN;
use crate::session::pack::Pack;
use crate::session::store::files::{CHILDREN, PACK, PACK_TEXT, SUMMARY, TODO};
use crate::small_file::{as_read, read_all};
use garth_engine::error::{OptionalExt as _, Result};
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::{At, Kind, Page, Precondition};
use garth_engine::path::TreePath;

/// Size limit of a file that is searched for names, one byte below the limit of a read.
const MAX_READ: usize = (16 << 20) - 1;
/// Children whose references are read at a time.
const AT_ONCE: usize = 16;
/// Prefix of the ids of content, and the number of hexadecimal digits after it.
const ID: (&str, usize) = ("sha256-", 64);

/// Referenced names.
#[derive(Debug, Default)]
pub(super) struct Roots {
    names: HashSet<String>,
    /// True if a file could not be read: it can name anything.
    blind: bool,
}

impl Roots {
    /// Returns true if something refers, or can refer, to a file of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.blind || self.names.contains(name)
    }

    /// Adds each id in a text, wherever it occurs.
    fn read(&mut self, text: &str) {
        let (prefix, digits) = ID;
        for (at, _) in text.match_indices(prefix) {
            let id = text.get(at..at + prefix.len() + digits);
            let is_hex = |id: &&str| id[prefix.len()..].bytes().all(|byte| byte.is_ascii_hexdigit());
            self.names.extend(id.filter(is_hex).map(str::to_owned));
        }
    }

    /// Adds the name that a source or path leads to.
    fn name(&mut self, to: &str) {
        let to = to.rsplit('/').next().unwrap_or(to);
        let swap = to.rsplit_once("swap:").map(|(_, id)| id.to_owned());
        self.names.extend(swap.into_iter().chain([to.to_owned()]));
    }

    fn entries(&mut self, kind: EntryKind, text: &str) {
        for entry in text.lines().filter_map(|line| Entry::parse(kind, line).ok()) {
            let sources = entry.sources.iter().chain(&entry.resolved);
            sources.for_each(|source| self.name(&source.to_string()));
            entry.to.iter().for_each(|(path, _)| self.name(path));
        }
    }
}

impl Sessions<'_> {
    /// Returns the roots, and the condition that the files that have them do not change. A pack counts if it
    /// stays.
    pub(super) async fn roots(
        &self,
        session: &str,
        pack_stays: bool,
    ) -> Result<(Roots, Vec<(At, Precondition)>)> {
        let (mut roots, mut conditions) = (Roots::default(), Vec::new());
        let derived = EntryKind::ALL.map(|kind| (kind.file(), Some(kind)));
        let pack = [(PACK, None), (PACK_TEXT, None)].into_iter().filter(|_| pack_stays);
        let files = derived.into_iter().chain([(SUMMARY, None), (TODO, None)]).chain(pack);
        for (name, kind) in files {
            let path = self.file(session, name)?;
            self.names_in(vec![path], kind, MAX_READ, &mut roots, &mut conditions).await?;
        }
        let children = self.file(session, CHILDREN)?;
        // A child that is spawned meanwhile may name chunks, and its files are not read: the commit then
        // fails.
        let there = self.fs.lookup(&children).await?.map(|dir| Precondition::Etag(dir.etag));
        conditions.push((At::from(&children), there.unwrap_or(Precondition::Absent)));
        let page = Page::default().limit(MAX_CHILDREN);
        let Some(listing) = self.fs.list(&At::from(&children), &page).await.optional()? else {
            return Ok((roots, conditions));
        };
        // Other programs can make more children than `spawn`. References of those beyond the page are not
        // read.
        roots.blind |= listing.more;
        let dirs = listing.items.into_iter().filter(|item| item.kind == Kind::Directory);
        let paths = dirs.map(|dir| self.file(session, &format!("{CHILDREN}/{}/refs.jsonl", dir.name)));
        let paths = paths.collect::<Result<Vec<_>>>()?;
        // Each of up to 1,000 files can have 1 MiB: they are not held all at once.
        for some in paths.chunks(AT_ONCE) {
            let kind = Some(EntryKind::Ref);
            self.names_in(some.to_vec(), kind, MAX_DERIVED, &mut roots, &mut conditions).await?;
            yield_now().await;
        }
        Ok((roots, conditions))
    }

    async fn names_in(
        &self,
        paths: Vec<TreePath>,
        of: Option<EntryKind>,
        limit: usize,
        roots: &mut Roots,
        conditions: &mut Vec<(At, Precondition)>,
    ) -> Result<()> {
        let files = read_all(self.fs, &paths, limit).await?;
        for (path, file) in paths.into_iter().zip(files) {
            let is_pack = path.as_str().ends_with("/context/pack.json");
            // It shows entries from the time of its build, which derived files may no longer have.
            let shows_entries = path.as_str().ends_with("/context/pack.md");
            conditions.push((At::from(path), as_read(file.as_ref())));
            let Some(file) = file else { continue };
            // A file that is too long to be read may name any chunk: then none is removed.
            let Some(bytes) = &file.bytes else {
                roots.blind = true;
                continue;
            };
            let text = String::from_utf8_lossy(bytes);
            // Ids are also looked for outside of entries: in Markdown, in summaries, and in lines that are no
            // entry.
            roots.read(&text);
            for kind in EntryKind::ALL {
                if shows_entries || of == Some(kind) {
                    roots.entries(kind, &text);
                }
            }
            if let Some(pack) = serde_json::from_slice::<Pack>(bytes).ok().filter(|_| is_pack) {
                pack.items.iter().for_each(|item| roots.name(&item.source));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_find_ids_anywhere_in_text() {
        let id = format!("sha256-{}", "0a".repeat(32));
        let mut roots = Roots::default();
        roots.read(&format!("sha256-short sha256- see swap:{id}, größe sha256-{}", "ü".repeat(60)));
        roots.name("sha256-work#swap:odd-name");
        roots.name("/users/ann/agents/coder/session/sha256-work/context/swap/chunk/note.txt");
        assert!(roots.has(&id) && roots.has("odd-name") && roots.has("note.txt"));
        assert!(!roots.has("sha256-short") && !roots.has("sha256-"));
    }
}
