//! Which layer shows what: the one place that knows how the upper layer is laid out.

use super::{LOWER, Overlay, UPPER};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{At, Entry, Ino, Kind, NamesPage};
use crate::path::{Name, TreePath};
use crate::view::numbers::renumbered;

/// Where the upper layer keeps its things. None of the directories is made before something is in it.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// What was written.
    pub(crate) tree: TreePath,
    /// The paths of which the lower layer shows nothing.
    pub(crate) hidden: TreePath,
    /// What was copied up, by number.
    pub(crate) nodes: TreePath,
}

impl Places {
    /// In a directory that has nothing else in it.
    pub(crate) fn below(dir: &TreePath) -> Result<Self> {
        let place = |name: &str| -> Result<TreePath> { Ok(dir.join(&Name::parse(name)?)?) };
        Ok(Self { tree: place("tree")?, hidden: place("hidden")?, nodes: place("nodes")? })
    }
}

/// On a node that was copied up: the number that it had below.
pub(super) const ORIGIN: &str = "garth.overlay.origin";

/// On a directory that was copied up, and on what hides a path: what was there below (see `base`).
pub(super) const BASE: &str = "garth.overlay.base";

/// What shows at a path.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// In the upper layer.
    Upper(Entry),
    /// In the lower one alone.
    Lower(Entry),
}

/// A node known by number.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// In the upper layer, by its number there.
    Upper(Ino),
    /// In the lower one alone, by its number there and the first of its names that show.
    Lower(Ino, TreePath),
}

/// The number that a node had below before it was copied up.
pub(super) fn origin(entry: &Entry) -> Option<Ino> {
    let text = entry.attributes.xattrs.get(ORIGIN)?;
    std::str::from_utf8(text).ok()?.parse().ok().map(Ino)
}

pub(super) fn is_missing(error: &Error) -> bool {
    error.is(ErrorKind::NotFound)
}

impl Overlay {
    /// Where the upper layer has what was written at a path.
    pub(super) fn tree(&self, path: &TreePath) -> Result<TreePath> {
        Ok(self.places.tree.append(path)?)
    }

    /// Where it hides a path of the lower layer.
    pub(super) fn hidden(&self, path: &TreePath) -> Result<TreePath> {
        Ok(self.places.hidden.append(path)?)
    }

    /// Where a node that was copied up has a second name.
    pub(super) fn node_name(&self, ino: Ino) -> TreePath {
        TreePath::from_key(format!("{}/{}", self.places.nodes.key(), ino.0))
    }

    /// The path in the tree of a path of the upper layer.
    pub(super) fn in_tree(&self, path: &TreePath) -> Option<TreePath> {
        path.rebase(&self.places.tree, &TreePath::root())?.ok()
    }

    /// The path that something of the upper layer is about.
    pub(super) fn in_view(&self, path: &TreePath) -> Option<TreePath> {
        let tops = [&self.places.tree, &self.places.hidden];
        tops.into_iter().find_map(|top| path.rebase(top, &TreePath::root())?.ok())
    }

    /// What shows at a path, as its layer has it.
    pub(super) async fn look(&self, path: &TreePath) -> Result<Found> {
        if let Some(entry) = self.look_above(path).await? {
            return Ok(Found::Upper(entry));
        }
        match self.lower.stat(&At::Path(path.clone())).await {
            Ok(entry) => Ok(Found::Lower(entry)),
            Err(error) => Err(self.of_lower(path, error).await),
        }
    }

    /// What the upper layer has at a path, in one look-up; `None` where the lower one shows.
    pub(super) async fn look_above(&self, path: &TreePath) -> Result<Option<Entry>> {
        if !self.within.contains(path) {
            return Err(Error::not_found(path));
        }
        let (tree, hidden) = (At::Path(self.tree(path)?), At::Path(self.hidden(path)?));
        match self.upper.stat_first([&tree, &hidden]).await {
            (0, Ok(entry)) => Ok(Some(entry)),
            (0, Err(error)) => Err(self.of_upper(error)),
            (_, hidden) => match self.hides(hidden)? {
                true => Err(Error::not_found(path)),
                false => Ok(None),
            },
        }
    }

    /// Whether the lower layer shows nothing at a path. What is hidden above hides it, too: there a look-up
    /// meets what is no directory.
    pub(super) async fn is_hidden(&self, path: &TreePath) -> Result<bool> {
        self.hides(self.upper.stat(&At::Path(self.hidden(path)?)).await)
    }

    /// The same of what is where a path would be hidden.
    pub(super) fn hides(&self, found: Result<Entry>) -> Result<bool> {
        match found {
            Ok(entry) => Ok(!entry.is_dir()),
            Err(error) if error.is(ErrorKind::NotADirectory) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(self.of_upper(error)),
        }
    }

    /// What shows of the lower layer at a path, whatever the upper one has there.
    pub(super) async fn below(&self, path: &TreePath) -> Result<Option<Entry>> {
        if self.is_hidden(path).await? {
            return Ok(None);
        }
        match self.lower.stat(&At::Path(path.clone())).await {
            Ok(entry) => Ok(Some(entry)),
            Err(error) if is_missing(&error) || error.is(ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// An error of the upper layer in the tree's terms.
    pub(super) fn of_upper(&self, error: Error) -> Error {
        error.mapped(|path| self.in_view(path))
    }

    /// An error of the lower layer about a path: what is no directory there may be one above.
    pub(super) async fn of_lower(&self, path: &TreePath, error: Error) -> Error {
        if !error.is(ErrorKind::NotADirectory) {
            return error;
        }
        let Some(above) = error.path().cloned() else { return error };
        match self.look_upper(&above).await {
            Ok(Some(entry)) if entry.is_dir() => Error::not_found(path),
            _ => error,
        }
    }

    /// What the upper layer has at a path.
    pub(super) async fn look_upper(&self, path: &TreePath) -> Result<Option<Entry>> {
        match self.upper.stat(&At::Path(self.tree(path)?)).await {
            Ok(entry) => Ok(Some(entry)),
            Err(error) if is_missing(&error) || error.is(ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(self.of_upper(error)),
        }
    }

    /// The directory above a path, if the upper layer has it.
    pub(super) async fn upper_parent(&self, path: &TreePath) -> Result<Option<TreePath>> {
        let Some(parent) = path.parent() else { return Ok(None) };
        Ok(self.look_upper(&parent).await?.map(|_| parent))
    }

    /// The node of a number that the tree shows.
    pub(super) async fn node(&self, ino: Ino) -> Result<Node> {
        let (layer, raw) = self.numbers.node(ino).ok_or_else(Error::no_node)?;
        if layer == UPPER {
            return self.shown_node(raw).await;
        }
        if let Ok(entry) = self.upper.stat(&At::Path(self.node_name(raw))).await {
            // its name by number is nobody's: it counts while it has one that shows
            return self.shown_node(entry.ino).await;
        }
        let mut page = NamesPage::default();
        loop {
            let names = match self.lower.names(&At::Node(raw), &page).await {
                Ok(names) => names,
                Err(error) if is_missing(&error) => break,
                Err(error) => return Err(error),
            };
            for path in &names.items {
                match self.look(path).await {
                    Ok(Found::Lower(entry)) if entry.ino == raw => return Ok(Node::Lower(raw, path.clone())),
                    // a directory that was copied up has kept its path
                    Ok(Found::Upper(entry)) if origin(&entry) == Some(raw) => {
                        return Ok(Node::Upper(entry.ino));
                    }
                    _ => {}
                }
            }
            match names.items.last() {
                Some(last) if names.more => page = page.after(last.clone()),
                _ => break,
            }
        }
        if self.one_store && self.upper.stat(&At::Node(raw)).await.is_ok() {
            return self.shown_node(raw).await;
        }
        Err(Error::no_node())
    }

    /// A node of the upper layer, if it has a name that shows, or none at all.
    async fn shown_node(&self, raw: Ino) -> Result<Node> {
        match self.has_name(raw).await? {
            true => Ok(Node::Upper(raw)),
            false => Err(Error::no_node()),
        }
    }

    /// Whether a node of the upper layer has a name that this tree shows, or is held open without one.
    async fn has_name(&self, raw: Ino) -> Result<bool> {
        let mut page = NamesPage::default();
        let (mut by_number, mut elsewhere) = (false, false);
        loop {
            let names = self.upper.names(&At::Node(raw), &page).await;
            let names = names.map_err(|error| self.of_upper(error))?;
            if names
                .items
                .iter()
                .filter_map(|path| self.in_tree(path))
                .any(|path| self.within.contains(&path))
            {
                return Ok(true);
            }
            for path in &names.items {
                let numbered = *path != self.places.nodes && path.is_within(&self.places.nodes);
                *if numbered { &mut by_number } else { &mut elsewhere } = true;
            }
            match names.items.last() {
                Some(last) if names.more => page = page.after(last.clone()),
                // in a part of the tree a node that was copied up may have names that are out of sight
                _ => return Ok(!elsewhere && (!by_number || self.within.is_everything())),
            }
        }
    }

    /// The path of a directory known by number.
    pub(super) async fn path_of(&self, dir: Ino) -> Result<Option<TreePath>> {
        if dir == Ino::ROOT {
            return Ok(Some(TreePath::root()));
        }
        match self.node(dir).await? {
            Node::Lower(_, path) => Ok(Some(path)),
            Node::Upper(raw) => {
                // beside its name by number
                let names = self.upper.names(&At::Node(raw), &NamesPage::default().limit(2)).await;
                let names = names.map_err(|error| self.of_upper(error))?;
                Ok(names.items.iter().find_map(|path| self.in_tree(path)))
            }
        }
    }

    /// The number that the tree shows for a node of the upper layer.
    pub(super) fn number(&self, entry: &Entry) -> Ino {
        match origin(entry) {
            Some(below) => self.numbers.shown(LOWER, below),
            None => self.raw_number(entry.ino),
        }
    }

    /// The same where nothing was copied up.
    pub(super) fn raw_number(&self, ino: Ino) -> Ino {
        if self.one_store { ino } else { self.numbers.shown(UPPER, ino) }
    }

    /// A node as the tree shows it; `path`: where it was asked for.
    pub(super) fn entry(&self, found: Found, path: Option<&TreePath>) -> Entry {
        let is_root = path.is_some_and(TreePath::is_root);
        match found {
            Found::Lower(entry) => {
                let ino = if is_root { Ino::ROOT } else { self.numbers.shown(LOWER, entry.ino) };
                renumbered(entry, ino)
            }
            Found::Upper(mut entry) => {
                let ino = if is_root { Ino::ROOT } else { self.number(&entry) };
                entry.attributes.xattrs.remove(BASE);
                if entry.attributes.xattrs.remove(ORIGIN).is_some() {
                    entry.nlink = match entry.kind {
                        // both layers have directories in it: how many is not known
                        Kind::Directory => 1,
                        // its name by number
                        _ => entry.nlink.saturating_sub(1),
                    };
                }
                renumbered(entry, ino)
            }
        }
    }
}

/// The error of asking for what the tree was.
pub(super) fn no_past() -> Error {
    Error::new(ErrorKind::Unsupported, "an overlay has no past: ask its layers")
}
