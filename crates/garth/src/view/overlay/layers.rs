//! Which layer shows what: the one place that knows how the upper layer is laid out.

use super::{LOWER, Overlay, UPPER};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{At, Entry, Ino, Kind, NamesPage};
use crate::path::TreePath;
use crate::view::numbers::renumbered;

/// Where the upper layer keeps what was written, what is hidden, and what was copied up.
pub(super) const TREE: &str = "/tree";
pub(super) const HIDDEN: &str = "/hidden";
pub(super) const NODES: &str = "/nodes";

/// On a node that was copied up: the number that it had below.
pub(super) const ORIGIN: &str = "garth.overlay.origin";

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

/// A path of the upper layer.
fn in_upper(top: &str, path: &TreePath) -> Result<TreePath> {
    Ok(TreePath::from_key(top.to_owned()).append(path)?)
}

pub(super) fn tree(path: &TreePath) -> Result<TreePath> {
    in_upper(TREE, path)
}

pub(super) fn hidden(path: &TreePath) -> Result<TreePath> {
    in_upper(HIDDEN, path)
}

/// Where a node that was copied up has a second name.
pub(super) fn node(ino: Ino) -> TreePath {
    TreePath::from_key(format!("{NODES}/{}", ino.0))
}

/// The path that something of the upper layer is about.
pub(super) fn from_upper(path: &TreePath) -> Option<TreePath> {
    let tops = [TREE, HIDDEN].map(|top| TreePath::from_key(top.to_owned()));
    tops.iter().find_map(|top| path.rebase(top, &TreePath::root())?.ok())
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
    /// What shows at a path, as its layer has it.
    pub(super) async fn look(&self, path: &TreePath) -> Result<Found> {
        if !self.within.contains(path) {
            return Err(Error::not_found(path));
        }
        match self.upper.stat(&At::Path(tree(path)?)).await {
            Ok(entry) => return Ok(Found::Upper(entry)),
            Err(error) if !is_missing(&error) => return Err(self.of_upper(error)),
            Err(_) if self.is_hidden(path).await? => return Err(Error::not_found(path)),
            Err(_) => {}
        }
        match self.lower.stat(&At::Path(path.clone())).await {
            Ok(entry) => Ok(Found::Lower(entry)),
            Err(error) => Err(self.of_lower(path, error).await),
        }
    }

    /// Whether the lower layer shows nothing at a path. What is hidden above hides it, too: there a look-up
    /// meets what is no directory.
    pub(super) async fn is_hidden(&self, path: &TreePath) -> Result<bool> {
        match self.upper.stat(&At::Path(hidden(path)?)).await {
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
    #[allow(clippy::unused_self)] // beside its sister
    pub(super) fn of_upper(&self, error: Error) -> Error {
        error.mapped(from_upper)
    }

    /// An error of the lower layer about a path: what is no directory there may be one above.
    async fn of_lower(&self, path: &TreePath, error: Error) -> Error {
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
        match self.upper.stat(&At::Path(tree(path)?)).await {
            Ok(entry) => Ok(Some(entry)),
            Err(error) if is_missing(&error) || error.is(ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(self.of_upper(error)),
        }
    }

    /// The node of a number that the tree shows.
    pub(super) async fn node(&self, ino: Ino) -> Result<Node> {
        let (layer, raw) = self.numbers.node(ino).ok_or_else(Error::no_node)?;
        if layer == UPPER {
            return Ok(Node::Upper(raw));
        }
        if let Ok(entry) = self.upper.stat(&At::Path(node(raw))).await {
            // its name by number is nobody's: it counts while it has one that shows
            return match self.within.is_everything() || self.has_name(entry.ino).await? {
                true => Ok(Node::Upper(entry.ino)),
                false => Err(Error::no_node()),
            };
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
            return Ok(Node::Upper(raw));
        }
        Err(Error::no_node())
    }

    /// Whether a node of the upper layer has a name that this tree shows.
    async fn has_name(&self, raw: Ino) -> Result<bool> {
        let mut page = NamesPage::default();
        loop {
            let names = self.upper.names(&At::Node(raw), &page).await;
            let names = names.map_err(|error| self.of_upper(error))?;
            if names.items.iter().filter_map(in_tree).any(|path| self.within.contains(&path)) {
                return Ok(true);
            }
            match names.items.last() {
                Some(last) if names.more => page = page.after(last.clone()),
                _ => return Ok(false),
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
                let page = NamesPage::default().after(TreePath::from_key(NODES.to_owned())).limit(8);
                let names = self.upper.names(&At::Node(raw), &page).await;
                let names = names.map_err(|error| self.of_upper(error))?;
                Ok(names.items.iter().find_map(in_tree))
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

/// The path in the tree of a path of the upper layer.
pub(super) fn in_tree(path: &TreePath) -> Option<TreePath> {
    path.rebase(&TreePath::from_key(TREE.to_owned()), &TreePath::root())?.ok()
}

/// The error of asking for what the tree was.
pub(super) fn no_past() -> Error {
    Error::new(ErrorKind::Unsupported, "an overlay has no past: ask its layers")
}
