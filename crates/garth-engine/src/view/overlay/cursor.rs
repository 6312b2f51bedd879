//! Walk over the places that an overlay has changed, each with the entries of both layers. It goes depth
//! first, so that it can begin at any path. Its cost grows with the upper layer, and with the names in lower
//! directories that another directory has replaced.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::Overlay;
use super::base::{HiddenState, copied_at};
use crate::error::{OptionalExt as _, Result};
use crate::fs::FileSystem;
use crate::model::{At, Entry, Listing, Page, Seq};
use crate::path::{Name, TreePath};

/// Path at which an overlay may differ from the lower tree.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) path: TreePath,
    /// Entry that the overlay shows.
    pub(super) shown: Option<Entry>,
    /// Entry of the lower tree.
    pub(super) lower: Option<Entry>,
    /// State of the lower layer that the overlay noted.
    pub(super) base: Base,
    /// Entry in `tree` of the upper layer.
    pub(super) above: Option<Entry>,
    /// Entry in `hidden` of the upper layer.
    pub(super) hidden: Option<Entry>,
}

/// State of the lower layer at a path when the overlay changed it, as far as it was noted.
#[derive(Clone, Debug)]
pub(super) enum Base {
    /// The path was free.
    Nothing,
    /// The path was hidden in this state.
    Hidden(HiddenState),
    /// The path was hidden together with a directory above it, when this was the last commit.
    Since(Seq),
    /// The path was copied up as a directory, with attributes of this digest.
    Directory(String),
}

/// Relation of a directory of the lower tree to the overlay.
#[derive(Clone, Copy, Debug)]
enum Below {
    /// There is no directory.
    Nothing,
    /// Its entries show.
    Merged,
    /// Another directory took its place, when this was the last commit.
    Replaced(Seq),
}

/// Entries of the layers under one name.
#[derive(Debug, Default)]
struct Spot {
    above: Option<Entry>,
    hidden: Option<Entry>,
    below: Option<Entry>,
}

/// Directory whose entries are being visited.
#[derive(Debug)]
struct Frame {
    dir: TreePath,
    /// True if `tree` of the upper layer has the directory.
    above: bool,
    /// True if `hidden` of the upper layer has the directory.
    hidden: bool,
    below: Below,
    names: VecDeque<(Name, Spot)>,
    after: Option<Name>,
    more: bool,
}

pub(super) struct Cursor<'a> {
    overlay: &'a Overlay,
    lower: &'a Arc<dyn FileSystem>,
    begun: bool,
    frames: Vec<Frame>,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor over all of an overlay, compared with `lower`.
    pub(super) fn new(overlay: &'a Overlay, lower: &'a Arc<dyn FileSystem>) -> Self {
        Self { overlay, lower, begun: false, frames: Vec::new() }
    }

    /// Moves the cursor after a path, which need not exist any more.
    pub(super) async fn seek(&mut self, after: &TreePath) -> Result<()> {
        self.next().await?;
        let mut path = TreePath::root();
        for segment in after.segments() {
            let Some(frame) = self.frames.last_mut().filter(|frame| frame.dir == path) else { return Ok(()) };
            let name = Name::parse(segment)?;
            path = path.join(&name)?;
            // `load` continues after the name that leads down.
            frame.after = Some(name);
            let below = frame.below;
            let spot = self.spot(&path, below).await?;
            let (_, inside) = self.visit(path.clone(), spot, below).await?;
            self.frames.extend(inside);
        }
        Ok(())
    }

    /// Returns the next place, from the root on.
    pub(super) async fn next(&mut self) -> Result<Option<Place>> {
        if !self.begun {
            self.begun = true;
            let root = TreePath::root();
            let spot = self.spot(&root, Below::Merged).await?;
            // The upper layer is empty, so nothing has been changed.
            if spot.above.is_none() && spot.hidden.is_none() {
                return Ok(None);
            }
            let (place, inside) = self.visit(root, spot, Below::Merged).await?;
            self.frames.extend(inside);
            return Ok(Some(place));
        }
        loop {
            let Some(mut frame) = self.frames.pop() else { return Ok(None) };
            if frame.names.is_empty() {
                if frame.more {
                    self.load(&mut frame).await?;
                    self.frames.push(frame);
                }
                continue;
            }
            let Some((name, mut spot)) = frame.names.pop_front() else { continue };
            let (path, below) = (frame.dir.join(&name)?, frame.below);
            self.frames.push(frame);
            // `load` does not list a merged directory of the lower tree: that could be far larger than the
            // upper layer.
            if let Below::Merged = below {
                spot.below = there(&**self.lower, path.clone()).await?;
            }
            let (place, inside) = self.visit(path, spot, below).await?;
            self.frames.extend(inside);
            return Ok(Some(place));
        }
    }

    async fn spot(&self, path: &TreePath, below: Below) -> Result<Spot> {
        let upper = &*self.overlay.whole;
        Ok(Spot {
            above: there(upper, self.overlay.tree(path)?).await?,
            hidden: there(upper, self.overlay.hidden(path)?).await?,
            below: match below {
                Below::Nothing => None,
                Below::Merged | Below::Replaced(_) => there(&**self.lower, path.clone()).await?,
            },
        })
    }

    /// Reads the next page of names in a directory.
    async fn load(&self, frame: &mut Frame) -> Result<()> {
        let page = Page::default().after(frame.after.clone()).with_entries();
        let upper = &*self.overlay.whole;
        let above = listed(upper, frame.above.then(|| self.overlay.tree(&frame.dir)), &page).await?;
        let hidden = listed(upper, frame.hidden.then(|| self.overlay.hidden(&frame.dir)), &page).await?;
        let replaced = matches!(frame.below, Below::Replaced(_));
        let below = listed(&**self.lower, replaced.then(|| Ok(frame.dir.clone())), &page).await?;
        let pages = [above, hidden, below];
        // Past the end of the shortest page, the other layers may have names that have not been read.
        let ends = pages.iter().map(|page| page.items.last().filter(|_| page.more));
        let end = ends.flatten().map(|item| item.name.clone()).min();
        let mut names: BTreeMap<Name, Spot> = BTreeMap::new();
        for (layer, page) in pages.into_iter().enumerate() {
            for item in page.items {
                if end.as_ref().is_none_or(|end| item.name <= *end) {
                    let spot = names.entry(item.name).or_default();
                    let part = [&mut spot.above, &mut spot.hidden, &mut spot.below];
                    let [above, hidden, below] = part;
                    *[above, hidden, below][layer] = item.entry.map(|entry| *entry);
                }
            }
        }
        frame.names = names.into_iter().collect();
        frame.more = end.is_some();
        // Without an end all layers are complete, and the frame is not read again.
        frame.after = end.or(frame.after.take());
        Ok(())
    }

    /// Returns the place at a path and, if it has places below it, the directory in which to continue.
    async fn visit(&self, path: TreePath, spot: Spot, within: Below) -> Result<(Place, Option<Frame>)> {
        let Spot { above, hidden, below: lower } = spot;
        let whiteout = hidden.as_ref().filter(|entry| !entry.is_dir());
        let was = whiteout.and_then(HiddenState::of);
        let base = match (was, within, &above) {
            (Some(was), ..) => Base::Hidden(was),
            (None, Below::Replaced(seq), _) => Base::Since(seq),
            (None, _, Some(above)) => {
                copied_at(&path, above).map_or(Base::Nothing, |digest| Base::Directory(digest.to_owned()))
            }
            (None, ..) => Base::Nothing,
        };
        let shown = match &above {
            Some(above) => Some(self.overlay.upper_entry(above.clone(), Some(&path)).await?),
            None if whiteout.is_some() || matches!(within, Below::Replaced(_)) => None,
            None => lower.clone(),
        };
        let is_dir = |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_dir);
        let below = match (is_dir(&lower), whiteout.is_some()) {
            (false, _) => Below::Nothing,
            // Without a note, everything below counts as changed later: a conflict rather than a lost change.
            (true, true) => Below::Replaced(was.map_or(Seq(0), |was| was.seq)),
            (true, false) => within,
        };
        let (is_above, is_hidden) = (is_dir(&above), is_dir(&hidden));
        // A directory of the lower layer alone is entered only if something in it is hidden.
        let inside = (is_above || (is_hidden && is_dir(&shown))).then(|| Frame {
            dir: path.clone(),
            above: is_above,
            hidden: is_hidden,
            below,
            names: VecDeque::new(),
            after: None,
            more: true,
        });
        Ok((Place { path, shown, lower, base, above, hidden }, inside))
    }
}

/// Returns the entry at a path; `None` if the path is missing.
pub(super) async fn there(fs: &dyn FileSystem, path: TreePath) -> Result<Option<Entry>> {
    fs.stat(&At::Path(path)).await.optional()
}

/// Returns a page of a directory; an empty page if the directory is missing.
async fn listed(fs: &dyn FileSystem, dir: Option<Result<TreePath>>, page: &Page) -> Result<Listing> {
    let Some(dir) = dir else { return Ok(Listing::default()) };
    Ok(fs.list(&At::Path(dir?), page).await.optional()?.unwrap_or_default())
}
