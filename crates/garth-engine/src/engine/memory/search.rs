//! Search, by the code that all engines share. Only the files and the index of their words are those of this
//! engine.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;

use super::state::Node;
use super::text_index::{SearchableFile, TextIndex};
use super::tree::{Tree, View};
use crate::engine::search::local::search_files;
use crate::engine::search::{FileNode, Files, Passage, QueryFilter};
use crate::error::{Error, Result};
use crate::model::{Attributes, ByteRange, Ino, Kind, Projection, SearchAnswer, SearchQuery, Within};
use crate::path::TreePath;
use crate::rule::Registry;
use crate::threads::lock::lock;

impl View<'_> {
    pub(super) fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        let mut index = lock(&self.state.text);
        if !index.is_at(self.seq) {
            index.update(self.seq, &self.searchable_files());
        }
        let (everything, keys) = (Within::everything(), RefCell::default());
        let files = StoredFiles { view: *self, everything, index: &index, keys };
        match QueryFilter::new(&files, query, self.within, &self.state.rules)? {
            Some(filter) => search_files(&*index, filter, 0),
            None => Ok(SearchAnswer::default()),
        }
    }

    fn searchable_files(&self) -> BTreeMap<Ino, SearchableFile<'_>> {
        let nodes = self.state.nodes.values().filter_map(|versions| versions.at(self.seq));
        nodes.filter_map(searchable).map(|file| (file.ino, file)).collect()
    }
}

/// Returns a file that search may see, whoever asks and whether it has expired or not.
fn searchable(node: &Node) -> Option<SearchableFile<'_>> {
    let Attributes { searchable, content_type, .. } = &*node.attributes;
    let is_searchable = node.kind == Kind::File && node.has_name() && searchable.unwrap_or(true);
    let content_type = content_type.as_deref();
    let file = SearchableFile { ino: node.ino, version: node.version, content_type, content: &node.content };
    is_searchable.then_some(file)
}

/// Files of the newest state.
struct StoredFiles<'a> {
    view: View<'a>,
    everything: Within,
    index: &'a TextIndex,
    /// Keys of the nodes that decide about others, by node and projection.
    keys: RefCell<BTreeMap<(Ino, Projection), BTreeSet<String>>>,
}

impl Files for StoredFiles<'_> {
    type Error = Error;

    fn node(&self, ino: Ino) -> Result<Option<FileNode>> {
        let node = self.view.node(ino).filter(|node| node.has_name() && !node.is_expired(self.view.now));
        Ok(node.map(|node| FileNode {
            ino,
            size: node.size(),
            version: node.version,
            changed: node.mtime,
            attributes: 0,
        }))
    }

    fn attributes(&self, node: &FileNode) -> Result<Attributes> {
        Ok(Attributes::clone(&self.view.get(node.ino).attributes))
    }

    fn names_behind(
        &self,
        ino: Ino,
        within: &Within,
        after: (&str, &str),
        limit: usize,
    ) -> Result<Vec<(String, String)>> {
        let mut names = self.names(ino, within)?;
        names.retain(|(dir, name)| (dir.as_str(), name.as_str()) > after);
        names.sort_unstable();
        names.truncate(limit);
        Ok(names)
    }

    fn names(&self, ino: Ino, within: &Within) -> Result<Vec<(String, String)>> {
        let mut paths = self.view.every_path(ino);
        paths.retain(|path| within.contains(path));
        let names = paths.iter().filter_map(|path| path.key().rsplit_once('/'));
        Ok(names.map(|(dir, name)| (dir.to_owned(), name.to_owned())).collect())
    }

    fn nodes_within(&self, within: &Within, top: &TreePath, limit: usize) -> Result<Vec<u64>> {
        let mut view = View { within, ..self.view };
        let Ok(ino) = view.find_path(top) else { return Ok(Vec::new()) };
        let mut inos = if top.is_root() { Vec::new() } else { vec![ino.0] };
        inos.extend(view.below(top, ino).into_iter().map(|found| found.ino.0));
        inos.truncate(limit);
        Ok(inos)
    }

    fn live_file(&self, path: &TreePath) -> Result<Option<Ino>> {
        let mut view = View { within: &self.everything, ..self.view };
        Ok(view.find_path(path).ok())
    }

    fn has_key(&self, ino: Ino, projection: Projection, key: &str) -> Result<bool> {
        let mut known = self.keys.borrow_mut();
        let keys = known.entry((ino, projection)).or_insert_with(|| self.view.keys_of(ino, projection));
        Ok(keys.contains(key))
    }

    fn read(&self, node: &FileNode, range: ByteRange) -> Result<Bytes> {
        let length = node.size.saturating_sub(range.offset).min(range.length);
        let content = &self.view.get(node.ino).content;
        Ok(content.read(range.offset, usize::try_from(length).unwrap_or(usize::MAX)))
    }

    fn lines(&self, passage: &Passage) -> Result<Range<u64>> {
        Ok(self.index.lines(passage))
    }

    fn registry(&self) -> &Registry {
        &self.view.state.registry
    }

    fn step(&self) -> Result<()> {
        Ok(())
    }
}
