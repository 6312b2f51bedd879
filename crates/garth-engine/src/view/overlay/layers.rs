//! Which layer shows what: the one place that knows how the upper layer is laid out.

use super::Overlay;
use super::layered_tree::{LOWER, UPPER};
use crate::error::{Error, ErrorKind, OptionalExt as _, Result};
use crate::model::{At, ByteRange, Entry, Ino, Kind, Moment, NamesPage};
use crate::path::TreePath;
use crate::view::numbers::renumbered;

/// On a node that was copied up: which overlay did that, and the number that it had below.
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

impl Overlay {
    /// Where the upper layer has what was written at a path.
    pub(super) fn tree(&self, path: &TreePath) -> Result<TreePath> {
        Ok(self.places.tree.append(path)?)
    }

    /// Where it hides a path of the lower layer.
    pub(super) fn hidden(&self, path: &TreePath) -> Result<TreePath> {
        Ok(self.places.hidden.append(path)?)
    }

    /// What is noted on a node that had this number below.
    pub(super) fn origin_note(&self, ino: Ino) -> String {
        format!("{} {}", self.id, ino.0)
    }

    /// The number that a node had below before this overlay copied it up. Another one may have brought it.
    pub(super) fn origin(&self, entry: &Entry) -> Option<Ino> {
        let text = std::str::from_utf8(entry.attributes.xattrs.get(ORIGIN)?).ok()?;
        let (id, ino) = text.split_once(' ')?;
        (id == &*self.id).then(|| ino.parse().ok().map(Ino))?
    }

    /// Where it is noted to which path a node was copied up.
    pub(super) fn copy_note(&self, ino: Ino) -> TreePath {
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
        match self.upper.view_base().stat_first([&tree, &hidden]).await {
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

    /// Returns true if the answer of a look-up where a path would be hidden says that it is.
    pub(super) fn hides(&self, found: Result<Entry>) -> Result<bool> {
        match found {
            Ok(entry) => Ok(!entry.is_dir()),
            Err(error) if error.is(ErrorKind::NotADirectory) => Ok(true),
            Err(error) if error.is(ErrorKind::NotFound) => Ok(false),
            Err(error) => Err(self.of_upper(error)),
        }
    }

    /// Returns what shows of the lower layer at a path, whatever the upper one has there.
    pub(super) async fn below(&self, path: &TreePath) -> Result<Option<Entry>> {
        if self.is_hidden(path).await? {
            return Ok(None);
        }
        self.lower.stat(&At::Path(path.clone())).await.optional()
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

    /// Returns what the upper layer has at a path.
    pub(super) async fn look_upper(&self, path: &TreePath) -> Result<Option<Entry>> {
        self.upper.stat(&At::Path(self.tree(path)?)).await.optional().map_err(|error| self.of_upper(error))
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
        let (mut page, mut copy) = (NamesPage::default(), None);
        loop {
            let names = match self.lower.names(&At::Node(raw), &page).await {
                Ok(names) => names,
                Err(error) if error.is(ErrorKind::NotFound) => break,
                Err(error) => return Err(error),
            };
            for path in &names.items {
                match self.look(path).await {
                    Ok(Found::Lower(entry)) if entry.ino == raw => return Ok(Node::Lower(raw, path.clone())),
                    Ok(Found::Upper(entry)) if self.origin(&entry) == Some(raw) => copy = Some(entry.ino),
                    _ => {}
                }
            }
            match names.items.last() {
                Some(last) if names.more => page = page.after(last.clone()),
                _ => break,
            }
        }
        let copy = match copy {
            Some(copy) => Some(copy),
            None => self.copy_of(raw).await?,
        };
        match copy {
            Some(copy) => self.shown_node(copy).await,
            None if self.one_store && self.upper.stat(&At::Node(raw)).await.is_ok() => {
                self.shown_node(raw).await
            }
            None => Err(Error::no_node()),
        }
    }

    /// What a node of the lower layer was copied up to, by its number in the upper one, wherever it is now.
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
        // renamed since: it was there when that was noted
        Ok(match self.upper.as_of(&Moment::Seq(noted)).await {
            Ok(then) => copy(then.stat(&place).await),
            Err(_) => None,
        })
    }

    /// Whether a node that was copied up, and is found at this path, has its number from below still: unless
    /// the lower layer shows the node that has it by another name, which somebody gave it since.
    async fn keeps_number(&self, below: Ino, path: Option<&TreePath>) -> Result<bool> {
        if !self.lower.capabilities(&TreePath::root()).nodes {
            // without numbers there is none to keep
            return Ok(false);
        }
        if let Some(path) = path
            && let Ok(entry) = self.lower.stat(&At::Path(path.clone())).await
            && entry.ino == below
            && (entry.nlink == 1 || entry.is_dir())
        {
            // most often: it has the one name that the copy hides
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

    /// A node of the upper layer, if it has a name that shows, or none at all.
    pub(super) async fn shown_node(&self, raw: Ino) -> Result<Node> {
        match self.has_name(raw).await? {
            true => Ok(Node::Upper(raw)),
            false => Err(Error::no_node()),
        }
    }

    /// Whether a node of the upper layer has a name that this tree shows, or is held open without one.
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

    /// The path of a directory known by number.
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

    /// The number that the tree shows for a node of the upper layer, found at this path.
    pub(super) async fn number(&self, entry: &Entry, path: Option<&TreePath>) -> Result<Ino> {
        match self.origin(entry) {
            Some(below) if self.keeps_number(below, path).await? => Ok(self.numbers.shown(LOWER, below)),
            _ => Ok(self.raw_number(entry.ino)),
        }
    }

    /// The same where nothing was copied up.
    pub(super) fn raw_number(&self, ino: Ino) -> Ino {
        if self.one_store { ino } else { self.numbers.shown(UPPER, ino) }
    }

    /// A node as the tree shows it; `path`: where it was found.
    pub(super) async fn entry(&self, found: Found, path: Option<&TreePath>) -> Result<Entry> {
        match found {
            Found::Lower(entry) => Ok(self.lower_entry(entry, path)),
            Found::Upper(entry) => self.upper_entry(entry, path).await,
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
        entry.attributes.xattrs.remove(BASE);
        let was_brought = entry.attributes.xattrs.remove(ORIGIN).is_some();
        if was_brought && entry.kind == Kind::Directory {
            // both layers have directories in it: how many is not known
            entry.nlink = 1;
        }
        Ok(renumbered(entry, ino))
    }
}

/// The error of asking for what the tree was.
pub(super) fn no_past() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "an overlay has no history of its own; ask for that of the tree below it",
    )
}
