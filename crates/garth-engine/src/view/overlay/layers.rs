//! Layout of the upper layer, and lookups that decide which layer shows a path or a node.

use super::Overlay;
use super::layered_tree::{LOWER, UPPER};
use crate::error::{Advice, Error, ErrorKind, OptionalExt as _, Result};
use crate::model::{At, ByteRange, Entry, Ino, Kind, Moment, NamesPage};
use crate::path::TreePath;
use crate::view::inode_map::renumbered;

/// Attribute of a copy: the overlay that wrote it, and the inode of the original in the lower layer.
pub(super) const ORIGIN: &str = "garth.overlay.origin";

/// Attribute of a copied directory, and of a node that hides a path: the state of the lower layer at the time
/// (see `base`).
pub(super) const BASE: &str = "garth.overlay.base";

/// Entry that shows at a path.
#[derive(Clone, Debug)]
pub(super) enum ShownEntry {
    /// The upper layer has it.
    Upper(Entry),
    /// Only the lower layer has it.
    Lower(Entry),
}

/// Node that an inode leads to.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Node of the upper layer, by its inode there.
    Upper(Ino),
    /// Node that only the lower layer has, by its inode there and the first of its names that show.
    Lower(Ino, TreePath),
}

impl Overlay {
    /// Returns the path in the upper layer that holds what was written at `path`.
    pub(super) fn tree(&self, path: &TreePath) -> Result<TreePath> {
        Ok(self.places.tree.append(path)?)
    }

    /// Returns the address in the upper layer for which content is staged.
    pub(super) fn staged_at(&self, at: &At) -> Result<At> {
        Ok(match at {
            At::Path(path) => At::Path(self.tree(path)?),
            // The lower layer may have the node; any path of the upper layer leads to its store.
            At::Node(_) | At::Child(..) => At::Path(self.places.tree.clone()),
        })
    }

    /// Returns the path in the upper layer that hides `path` of the lower layer.
    pub(super) fn hidden(&self, path: &TreePath) -> Result<TreePath> {
        Ok(self.places.hidden.append(path)?)
    }

    /// Returns the origin note of a copy, for the inode of its original.
    pub(super) fn origin_note(&self, ino: Ino) -> String {
        format!("{} {}", self.id, ino.0)
    }

    /// Returns the inode of the original of a copy. `None` if another overlay made the copy: the note means
    /// nothing here.
    pub(super) fn origin(&self, entry: &Entry) -> Option<Ino> {
        let text = std::str::from_utf8(entry.attributes.xattrs.get(ORIGIN)?).ok()?;
        let (id, ino) = text.split_once(' ')?;
        (id == &*self.id).then(|| ino.parse().ok().map(Ino))?
    }

    /// Returns the path of the file that notes where a node was copied up.
    pub(super) fn copy_note(&self, ino: Ino) -> TreePath {
        TreePath::from_key(format!("{}/{}", self.places.nodes.key(), ino.0))
    }

    /// Returns the path in the tree of a path of the upper layer; `None` outside `tree`.
    pub(super) fn in_tree(&self, path: &TreePath) -> Option<TreePath> {
        path.rebase(&self.places.tree, &TreePath::root())?.ok()
    }

    /// Returns the path in the tree that a path of the upper layer is about, be it written or hidden.
    pub(super) fn in_view(&self, path: &TreePath) -> Option<TreePath> {
        let tops = [&self.places.tree, &self.places.hidden];
        tops.into_iter().find_map(|top| path.rebase(top, &TreePath::root())?.ok())
    }

    /// Returns the entry that shows at a path, as its layer has it.
    pub(super) async fn look(&self, path: &TreePath) -> Result<ShownEntry> {
        if let Some(entry) = self.look_above(path).await? {
            return Ok(ShownEntry::Upper(entry));
        }
        match self.lower.stat(&At::Path(path.clone())).await {
            Ok(entry) => Ok(ShownEntry::Lower(entry)),
            Err(error) => Err(self.of_lower(path, error).await),
        }
    }

    /// Returns the entry of the upper layer at a path, in one lookup; `None` if the lower layer shows there.
    /// Fails with `NotFound` if the path is hidden.
    pub(super) async fn look_above(&self, path: &TreePath) -> Result<Option<Entry>> {
        if !self.within.contains(path) {
            return Err(Error::not_found(path));
        }
        let (tree, hidden) = (At::Path(self.tree(path)?), At::Path(self.hidden(path)?));
        match self.upper.view_base().stat_first([&tree, &hidden]).await {
            (0, Ok(entry)) => Ok(Some(entry)),
            (0, Err(error)) => Err(self.of_upper(error)),
            (_, hidden) => match self.hides(hidden)? {
                true => Err(Error::not_found(path)),
                false => Ok(None),
            },
        }
    }

    /// Returns true if the upper layer hides a path or a directory above it.
    pub(super) async fn is_hidden(&self, path: &TreePath) -> Result<bool> {
        self.hides(self.upper.stat(&At::Path(self.hidden(path)?)).await)
    }

    /// Interprets the lookup of the place that hides a path: returns true if the path is hidden.
    pub(super) fn hides(&self, found: Result<Entry>) -> Result<bool> {
        match found {
            // A directory only leads to hidden paths below it.
            Ok(entry) => Ok(!entry.is_dir()),
            // The place of a directory above has a whiteout, which hides everything below.
            Err(error) if error.is(ErrorKind::NotADirectory) => Ok(true),
            Err(error) if error.is(ErrorKind::NotFound) => Ok(false),
            Err(error) => Err(self.of_upper(error)),
        }
    }

    /// Returns the entry of the lower layer at a path, whatever the upper layer has there; `None` if it is
    /// hidden.
    pub(super) async fn below(&self, path: &TreePath) -> Result<Option<Entry>> {
        if self.is_hidden(path).await? {
            return Ok(None);
        }
        self.lower.stat(&At::Path(path.clone())).await.optional()
    }

    /// Translates the paths of an error of the upper layer into those of the tree.
    pub(super) fn of_upper(&self, error: Error) -> Error {
        error.mapped(|path| self.in_view(path))
    }

    /// Corrects an error of the lower layer about a path.
    pub(super) async fn of_lower(&self, path: &TreePath, error: Error) -> Error {
        if !error.is(ErrorKind::NotADirectory) {
            return error;
        }
        // Where the lower layer has a file, the upper one may have a directory. Then the path is merely
        // missing.
        let Some(above) = error.path().cloned() else { return error };
        match self.look_upper(&above).await {
            Ok(Some(entry)) if entry.is_dir() => Error::not_found(path),
            _ => error,
        }
    }

    /// Returns the entry of the upper layer at a path.
    pub(super) async fn look_upper(&self, path: &TreePath) -> Result<Option<Entry>> {
        self.upper.stat(&At::Path(self.tree(path)?)).await.optional().map_err(|error| self.of_upper(error))
    }

    /// Returns the directory above a path if the upper layer has it.
    pub(super) async fn upper_parent(&self, path: &TreePath) -> Result<Option<TreePath>> {
        let Some(parent) = path.parent() else { return Ok(None) };
        Ok(self.look_upper(&parent).await?.map(|_| parent))
    }

    /// Returns the node that an inode of the tree leads to.
    pub(super) async fn node(&self, ino: Ino) -> Result<Node> {
        let (layer, raw) = self.numbers.node(ino).ok_or_else(Error::no_node)?;
        if layer == UPPER {
            return self.shown_node(raw).await;
        }
        // The inode is that of the original, and of the copy once no name of the original shows.
        let (mut page, mut copy) = (NamesPage::default(), None);
        loop {
            let names = match self.lower.names(&At::Node(raw), &page).await {
                Ok(names) => names,
                Err(error) if error.is(ErrorKind::NotFound) => break,
                Err(error) => return Err(error),
            };
            for path in &names.items {
                match self.look(path).await {
                    Ok(ShownEntry::Lower(entry)) if entry.ino == raw => {
                        return Ok(Node::Lower(raw, path.clone()));
                    }
                    Ok(ShownEntry::Upper(entry)) if self.origin(&entry) == Some(raw) => {
                        copy = Some(entry.ino);
                    }
                    _ => {}
                }
            }
            match names.items.last() {
                Some(last) if names.more => page = page.after(last.clone()),
                _ => break,
            }
        }
        // The copy has none of the names that the original has now: the note records where it was.
        let copy = match copy {
            Some(copy) => Some(copy),
            None => self.copy_of(raw).await?,
        };
        match copy {
            Some(copy) => self.shown_node(copy).await,
            // In one store inodes are not marked: the node may have been created in the upper layer.
            None if self.one_store && self.upper.stat(&At::Node(raw)).await.is_ok() => {
                self.shown_node(raw).await
            }
            None => Err(Error::no_node()),
        }
    }

    /// Returns the inode of the copy of a lower node in the upper layer, wherever the copy is now.
    pub(super) async fn copy_of(&self, below: Ino) -> Result<Option<Ino>> {
        let (noted, path) = match self.upper.fetch(&At::Path(self.copy_note(below)), ByteRange::ALL).await {
            Ok((entry, path)) => (entry.version.seq, path),
            Err(error) if error.is_absent() => return Ok(None),
            Err(error) => return Err(self.of_upper(error)),
        };
        let Some(path) = std::str::from_utf8(&path).ok().and_then(|path| TreePath::parse(path).ok()) else {
            return Ok(None);
        };
        let place = At::Path(self.tree(&path)?);
        let copy = |found: Result<Entry>| {
            found.ok().filter(|entry| self.origin(entry) == Some(below)).map(|entry| entry.ino)
        };
        if let Some(copy) = copy(self.upper.stat(&place).await) {
            return Ok(Some(copy));
        }
        // The copy was renamed after the note was written. The state of that commit has it at the noted path.
        Ok(match self.upper.as_of(&Moment::Seq(noted)).await {
            Ok(then) => copy(then.stat(&place).await),
            Err(_) => None,
        })
    }

    /// Returns true if a copy, found at `path`, has the inode of its original. The original keeps the inode
    /// itself if another client gave it a name that shows.
    async fn keeps_inode(&self, below: Ino, path: Option<&TreePath>) -> Result<bool> {
        if !self.lower.capabilities(&TreePath::root()).nodes {
            // Without inodes there is none to keep.
            return Ok(false);
        }
        if let Some(path) = path
            && let Ok(entry) = self.lower.stat(&At::Path(path.clone())).await
            && entry.ino == below
            && (entry.nlink == 1 || entry.is_dir())
        {
            // The usual case: the copy hides the only name of the original.
            return Ok(true);
        }
        let mut page = NamesPage::default();
        loop {
            let names = match self.lower.names(&At::Node(below), &page).await {
                Ok(names) => names,
                Err(error) if error.is(ErrorKind::NotFound) => return Ok(true),
                Err(error) => return Err(error),
            };
            for name in names.items.iter().filter(|name| Some(*name) != path) {
                // In all of the upper layer: a name outside the part that is shown also belongs to the
                // original.
                let (tree, hidden) = (At::Path(self.tree(name)?), At::Path(self.hidden(name)?));
                if let (1, hidden) = self.whole.view_base().stat_first([&tree, &hidden]).await
                    && !self.hides(hidden)?
                {
                    return Ok(false);
                }
            }
            match names.items.last() {
                Some(last) if names.more => page = page.after(last.clone()),
                _ => return Ok(true),
            }
        }
    }

    /// Returns a node of the upper layer if one of its names shows, or if it has none.
    pub(super) async fn shown_node(&self, raw: Ino) -> Result<Node> {
        match self.has_name(raw).await? {
            true => Ok(Node::Upper(raw)),
            false => Err(Error::no_node()),
        }
    }

    /// Returns true if a node of the upper layer has a name that shows, or has none and is held open.
    async fn has_name(&self, raw: Ino) -> Result<bool> {
        let (mut page, mut elsewhere) = (NamesPage::default(), false);
        loop {
            let names = self.upper.names(&At::Node(raw), &page).await;
            let names = names.map_err(|error| self.of_upper(error))?;
            let mut shown = names.items.iter().filter_map(|path| self.in_tree(path));
            if shown.any(|path| self.within.contains(&path)) {
                return Ok(true);
            }
            elsewhere |= !names.items.is_empty();
            match names.items.last() {
                Some(last) if names.more => page = page.after(last.clone()),
                _ => return Ok(!elsewhere),
            }
        }
    }

    /// Returns the path of a directory; `None` if it has none.
    pub(super) async fn path_of(&self, dir: Ino) -> Result<Option<TreePath>> {
        if dir == Ino::ROOT {
            return Ok(Some(TreePath::root()));
        }
        match self.node(dir).await? {
            Node::Lower(_, path) => Ok(Some(path)),
            Node::Upper(raw) => {
                let names = self.upper.names(&At::Node(raw), &NamesPage::default().limit(1)).await;
                let names = names.map_err(|error| self.of_upper(error))?;
                Ok(names.items.iter().find_map(|path| self.in_tree(path)))
            }
        }
    }

    /// Returns the inode that the tree shows for a node of the upper layer, found at `path`.
    pub(super) async fn number(&self, entry: &Entry, path: Option<&TreePath>) -> Result<Ino> {
        match self.origin(entry) {
            Some(below) if self.keeps_inode(below, path).await? => Ok(self.numbers.shown(LOWER, below)),
            _ => Ok(self.unmapped_inode(entry.ino)),
        }
    }

    /// Returns the inode that the tree shows for a node of the upper layer that is not a copy.
    pub(super) fn unmapped_inode(&self, ino: Ino) -> Ino {
        if self.one_store { ino } else { self.numbers.shown(UPPER, ino) }
    }

    /// Returns an entry as the tree shows it. `path` is where it was found.
    pub(super) async fn entry(&self, found: ShownEntry, path: Option<&TreePath>) -> Result<Entry> {
        match found {
            ShownEntry::Lower(entry) => Ok(self.lower_entry(entry, path)),
            ShownEntry::Upper(entry) => self.upper_entry(entry, path).await,
        }
    }

    pub(super) fn lower_entry(&self, entry: Entry, path: Option<&TreePath>) -> Entry {
        let is_root = path.is_some_and(TreePath::is_root);
        let ino = if is_root { Ino::ROOT } else { self.numbers.shown(LOWER, entry.ino) };
        renumbered(entry, ino)
    }

    pub(super) async fn upper_entry(&self, mut entry: Entry, path: Option<&TreePath>) -> Result<Entry> {
        let is_root = path.is_some_and(TreePath::is_root);
        let ino = if is_root { Ino::ROOT } else { self.number(&entry, path).await? };
        // The notes are the overlay's own and not shown.
        entry.attributes.xattrs.remove(BASE);
        let was_brought = entry.attributes.xattrs.remove(ORIGIN).is_some();
        if was_brought && entry.kind == Kind::Directory {
            // Both layers have directories in it; their number is not known.
            entry.nlink = 1;
        }
        Ok(renumbered(entry, ino))
    }
}

/// Returns the error for a request about the past.
pub(super) fn no_past() -> Error {
    Error::new(ErrorKind::Unsupported, "an overlay has no history")
        .advising(Advice::LowerLayer, "ask its lower layer")
}
