//! One tree made of directories of one filesystem and of other filesystems, each at its own path.

mod handles;
mod lowering;
mod pages;
mod part;
mod parts;
mod reads;

use std::sync::Arc;

use crate::error::{Advice, Error, ErrorKind, OptionalExt as _, Result};
use crate::fs::named_errors::named_errors;
use crate::fs::{FileSystem, OpenFile};
use crate::model::{At, Confinement, Ino, Owner, Within};
use crate::path::TreePath;

use self::part::{Other, Part, Source};
pub use self::parts::MAX_PARTS;
use self::parts::Parts;

/// One tree made of others: directories of a filesystem, the *base*, and other filesystems, each at a path.
/// An address belongs to the part with the longest path that it begins with, by segment.
///
/// The base is confined to the directories that are shown, so that it checks this in the transaction of each
/// read and commit. A batch on parts of one store is one commit, and so is a rename or copy from one part to
/// another; a batch on parts of two stores fails with `CrossesMounts`.
///
/// The path of a part hides what the tree below has there. It is listed, and cannot be removed, renamed or
/// replaced (`Busy`). A directory that leads to a part exists even if nobody created it.
///
/// Nodes of the base keep their inodes, except for the root, which is 1. Inodes of other filesystems, and of
/// directories of the base that are shown twice, get a mark (`view/numbers.rs`).
///
/// Sequence numbers, snapshots, changes and the past are those of the base; a part of another store has none
/// of them. Search returns the hits of the parts that support it.
#[derive(Clone, Debug)]
pub struct Mount {
    /// Base, confined to the directories that are shown.
    base: Arc<dyn FileSystem>,
    parts: Arc<Parts>,
    /// Paths of the tree that are shown.
    within: Within,
    /// Limit on the bytes of one write.
    largest_body: Option<u64>,
    /// True if the root is an empty directory to reads while the base has none there.
    empty_root: bool,
}

/// [`Mount`] under construction.
#[derive(Debug)]
pub struct Builder<'a> {
    base: &'a dyn FileSystem,
    owner: Owner,
    parts: Vec<Part>,
    largest_body: Option<u64>,
    empty_root: bool,
}

impl Mount {
    /// Starts a tree whose root is the directory `root` of `base`. Snapshots, commit ids, idempotency keys
    /// and staged bodies are stored under `owner`.
    pub fn builder<'a>(base: &'a dyn FileSystem, root: &TreePath, owner: Owner) -> Builder<'a> {
        Builder { base, owner, parts: Vec::new(), largest_body: None, empty_root: false }
            .directory(TreePath::root(), root.clone())
    }

    /// Returns the address of the root by its inode in the base.
    async fn root(&self) -> Result<At> {
        let part = &self.parts.all()[0];
        let root = self.base.stat(&At::Path(part.root())).await;
        Ok(At::Node(self.told(part, root)?.ino))
    }

    /// Returns the filesystem of a part.
    fn fs<'a>(&'a self, part: &'a Part) -> Result<&'a Arc<dyn FileSystem>> {
        match &part.source {
            Source::Base(_) => Ok(&self.base),
            Source::Other(other) => Ok(&other.fs),
            Source::NoPast => Err(part::no_past(part)),
        }
    }

    /// Returns the filesystem that stages content for a place, and the address there.
    fn stager<'a>(&'a self, place: &Place<'a>) -> Result<(&'a Arc<dyn FileSystem>, At)> {
        Ok(match &place.part.source {
            // One store: staged content can be written to any of its parts.
            Source::Other(Other { has_past: true, .. }) => (&self.base, At::Path(self.parts.all()[0].root())),
            _ => (self.fs(place.part)?, place.at.clone()),
        })
    }

    /// Returns the part that an address belongs to, and the address there.
    async fn place(&self, at: &At) -> Result<Place<'_>> {
        match at {
            At::Path(path) => self.path_place(path),
            At::Node(ino) => match self.parts.own_path(*ino) {
                // An inode of the tree itself: the root, or a directory that nobody created.
                Some(path) => self.path_place(path),
                None => {
                    let (part, ino) = self.parts.node(*ino).ok_or_else(Error::no_node)?;
                    Ok(Place { part, at: At::Node(ino), path: None })
                }
            },
            At::Child(dir, name) => {
                if let Some(path) = self.parts.own_path(*dir) {
                    return self.path_place(&path.join(name)?);
                }
                // The directory's own part has the child, unless the path of another part has this segment.
                if self.parts.has_segment(name.as_str())
                    && let Some(dir) = self.directory(*dir).await?
                    && self.parts.leads(&dir.join(name)?)
                {
                    return self.path_place(&dir.join(name)?);
                }
                let (part, dir) = self.parts.node(*dir).ok_or_else(Error::no_node)?;
                Ok(Place { part, at: At::Child(dir, name.clone()), path: None })
            }
        }
    }

    fn path_place(&self, path: &TreePath) -> Result<Place<'_>> {
        let part = self.parts.of(path);
        Ok(Place { part, at: At::Path(part.down(path)?), path: Some(path.clone()) })
    }

    /// Returns the path of a directory by inode; `None` if there is none.
    async fn directory(&self, ino: Ino) -> Result<Option<TreePath>> {
        let Some((part, ino)) = self.parts.node(ino) else { return Ok(None) };
        let page = crate::model::NamesPage::default().limit(1);
        let names = self.fs(part)?.names(&At::Node(ino), &page).await.optional();
        let names = names.map_err(|error| self.told_of(part, error))?;
        Ok(names.and_then(|names| self.up(part, names.items.first()?)))
    }

    /// Translates the paths of an error of a part into those of the tree.
    fn told_of(&self, part: &Part, error: Error) -> Error {
        error.mapped(|path| self.up(part, path).or_else(|| self.left_out(path)))
    }

    /// Returns a file of a part, with errors that name paths of the tree. `path` is that of the file, if it
    /// was opened by one.
    fn file(&self, part: &Part, path: Option<TreePath>, file: Arc<dyn OpenFile>) -> Arc<dyn OpenFile> {
        let (mount, index) = (self.clone(), part.index);
        named_errors(file, move |error| match &path {
            Some(path) => error.mapped(|_| Some(path.clone())),
            None => mount.told_of(&mount.parts.all()[index], error),
        })
    }

    /// Returns the tree's path of a path of the base that is left out, which only an error names.
    fn left_out(&self, path: &TreePath) -> Option<TreePath> {
        self.parts.up_from_base(path).find(|path| self.within.is_excluded(path))
    }

    /// Returns the tree's path of a path that a part reported.
    fn up(&self, part: &Part, path: &TreePath) -> Option<TreePath> {
        let up = self.parts.shown_by(part, path);
        // All directories of the base are one filesystem, so its answer may name a path that another part
        // shows.
        if up.is_some() || !part.is_base() { up } else { self.up_from_base(path) }
    }

    /// Returns the tree's path of a path of the base.
    fn up_from_base(&self, path: &TreePath) -> Option<TreePath> {
        self.parts.up_from_base(path).find(|path| self.within.contains(path))
    }

    /// Returns true if a part is shown at or below a path, which then is a directory or the part's file.
    fn leads(&self, path: &TreePath) -> bool {
        self.parts.leads(path) && self.within.contains(path)
    }

    /// Returns true if a read of `path` failed with `error` because nobody created the root, and the root is
    /// then an empty directory. Returns false for a root that the tree does not reach.
    fn is_empty_root(&self, path: &TreePath, error: &Error) -> bool {
        self.empty_root && path.is_root() && error.is(ErrorKind::NotFound) && self.within.contains(path)
    }

    /// Returns the path under which the tree shows a file of an alias in another part; `None` outside of
    /// aliases.
    fn original(&self, path: &TreePath) -> Option<TreePath> {
        let (alias, original) = self.parts.alias(path)?;
        // Where the other part is left out, at least partly, the alias is the only place of some files.
        let shows_all =
            self.within.contains(original) && self.within.exclusions_below(original).next().is_none();
        path.rebase(&alias.at, original).filter(|_| shows_all)?.ok()
    }

    /// Returns true if a walk of `top` leaves out a path of an alias, because it shows the file under its
    /// other path.
    fn is_repeated(&self, top: &TreePath, path: &TreePath) -> bool {
        self.original(path).is_some_and(|original| original.is_within(top))
    }

    /// Returns true if the part at a path may be a file or a link. With other parts below, it is a directory.
    fn may_be_file(&self, path: &TreePath) -> bool {
        self.parts.is_point(path) && !self.parts.has_below(path)
    }

    fn told<T>(&self, part: &Part, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| self.told_of(part, error))
    }

    /// Returns the paths of the base, and the other parts with paths in them, that are shown at and below
    /// `tops`.
    fn below(&self, tops: &Within) -> Result<Below<'_>> {
        let mut below = Below { base: Vec::new(), others: Vec::new() };
        for part in self.parts.all() {
            let mut inside = Vec::new();
            for top in tops.tops() {
                // The top contains all of the part.
                if part.at.is_within(top) {
                    inside.push(part.root());
                // The part contains the top.
                } else if self.parts.of(top).at == part.at {
                    inside.push(part.down(top)?);
                }
            }
            match &part.source {
                Source::Base(_) => below.base.append(&mut inside),
                Source::Other(_) if !inside.is_empty() => below.others.push((part, inside)),
                Source::Other(_) | Source::NoPast => {}
            }
        }
        Ok(below)
    }
}

/// Refuses content above the limit of a tree.
fn check_body(largest: Option<u64>, size: u64, at: Option<&At>) -> Result<()> {
    match largest.filter(|largest| size > *largest) {
        Some(largest) => {
            // An upload, or part of another call.
            let message = format!("content that is sent to this tree at once has at most {largest} bytes");
            let error = match at {
                Some(At::Path(path)) => Error::at(ErrorKind::TooLarge, path, message),
                _ => Error::new(ErrorKind::TooLarge, message),
            };
            Err(error.advising(Advice::UploadLimit, "see `--upload-limit`"))
        }
        None => Ok(()),
    }
}

/// Paths of the base, and other parts with paths in them, that make up some paths of a tree.
struct Below<'a> {
    base: Vec<TreePath>,
    others: Vec<(&'a Part, Vec<TreePath>)>,
}

/// Address in terms of the part that it belongs to.
struct Place<'a> {
    part: &'a Part,
    at: At,
    /// Path that was asked for; `None` for other addresses.
    path: Option<TreePath>,
}

impl Place<'_> {
    fn is_root(&self) -> bool {
        self.path.as_ref().is_some_and(TreePath::is_root)
    }
}

impl Builder<'_> {
    /// Shows the directory `root` of the base at `at`. It may be missing for now.
    #[must_use]
    pub fn directory(mut self, at: TreePath, root: TreePath) -> Self {
        self.parts.push(Part::new(at, Source::Base(root)));
        self
    }

    /// Shows another filesystem at `at`.
    #[must_use]
    pub fn mount(mut self, at: TreePath, fs: Arc<dyn FileSystem>) -> Self {
        self.parts.push(Part::new(at, Source::Other(part::Other { fs, has_past: false })));
        self
    }

    /// Makes the part that was added last read-only: writes through it fail with `ReadOnly`.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        if let Some(part) = self.parts.last_mut() {
            part.read_only = true;
        }
        self
    }

    /// Makes the directory of the base that was added last an alias of the same directory in another part. A
    /// walk or [`find`](FileSystem::find) that covers both shows the files once, in the other part. Every
    /// other access works as without it.
    ///
    /// Has no effect if no other part shows the directory, or if parts are mounted in it.
    #[must_use]
    pub fn alias(mut self) -> Self {
        if let Some(part) = self.parts.last_mut() {
            part.is_alias = true;
        }
        self
    }

    /// Limits an operation or upload to `bytes`; larger ones fail with `TooLarge`.
    #[must_use]
    pub fn largest_body(self, bytes: u64) -> Self {
        Self { largest_body: Some(bytes), ..self }
    }

    /// Sets if the root is an empty directory to reads while the base has none there. By default it is
    /// missing, like the root of a scope. Do not set it for a root that the base does not reach: the tree
    /// would show a directory where the base has none to show.
    #[must_use]
    pub fn empty_root(self, is_empty: bool) -> Self {
        Self { empty_root: is_empty, ..self }
    }

    /// Opens the tree.
    ///
    /// # Errors
    /// `InvalidArgument` for two parts at one path or more than [`MAX_PARTS`]; as [`FileSystem::confined`].
    pub async fn open(self) -> Result<Arc<dyn FileSystem>> {
        let mut parts = self.parts;
        let roots = Within::new(parts.iter().filter_map(|part| match &part.source {
            Source::Base(root) => Some(root.clone()),
            Source::Other(_) | Source::NoPast => None,
        }));
        // One handle to all directories, so that a batch on several of them is one commit.
        let base = self.base.confined(&Confinement::new(roots, self.owner)).await?;
        let store = base.view_base().lowering().home().id;
        // A filesystem of the base's store shares its sequence numbers, so its past can be asked for by them.
        for part in &mut parts {
            if let Source::Other(other) = &mut part.source {
                other.has_past = other.fs.view_base().lowering().home().id == store;
            }
        }
        let parts = Arc::new(Parts::new(parts)?);
        let (within, largest_body) = (Within::everything(), self.largest_body);
        Ok(Arc::new(Mount { base, parts, within, largest_body, empty_root: self.empty_root }))
    }
}
