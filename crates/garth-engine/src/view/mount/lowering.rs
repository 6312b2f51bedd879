//! Lowering of a batch through a mounted tree.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;

use super::part::{Other, Part, Source, no_past};
use super::{Below, Mount, Place, check_body};
use crate::error::{Error, ErrorKind, OptionalExt as _, Result};
use crate::fs::Incoming;
use crate::fs::lower::{LoweredAddress, Lowering, Store, StoreId};
use crate::model::{Access, At, Body, Ino, NamesPage, Op, Precondition, Within};
use crate::path::TreePath;
use crate::view::lower::LoweredOps;

/// Lowering of one batch.
#[derive(Debug)]
pub(super) struct MountLowering {
    mount: Mount,
    base: Box<dyn Lowering>,
    /// Lowerings of the other parts that were addressed, by index.
    others: HashMap<usize, Box<dyn Lowering>>,
    /// Indices of the parts that were addressed by path. Errors are shown in their paths first.
    addressed: BTreeSet<usize>,
    /// Indices of the parts that show the source of a link, until its destination is lowered.
    linked: Option<BTreeSet<usize>>,
    /// True if the nodes that the operation writes expire.
    expires: bool,
}

impl MountLowering {
    pub(super) fn new(mount: Mount) -> Self {
        let base = mount.base.view_base().lowering();
        Self { mount, base, others: HashMap::new(), addressed: BTreeSet::new(), linked: None, expires: false }
    }
}

/// Returns the address in a part. An inode that the base does not find now becomes `NONE`: another filesystem
/// of the same store may let the batch reach further than the base, to where it stores its own state.
async fn known(mount: &Mount, place: &Place<'_>) -> Result<At> {
    let shares = |part: &Part| matches!(&part.source, Source::Other(other) if other.has_past);
    let (Source::Base(_), At::Node(ino) | At::Child(ino, _)) = (&place.part.source, &place.at) else {
        return Ok(place.at.clone());
    };
    if !mount.parts.all().iter().any(shares) {
        return Ok(place.at.clone());
    }
    match (mount.base.stat(&At::Node(*ino)).await, &place.at) {
        (Err(error), At::Child(_, name)) if error.is_absent() => Ok(At::Child(Ino::NONE, name.clone())),
        (Err(error), _) if error.is_absent() => Ok(At::Node(Ino::NONE)),
        (Err(error), _) if !error.is(ErrorKind::Unsupported) => Err(error),
        _ => Ok(place.at.clone()),
    }
}

#[async_trait]
impl Lowering for MountLowering {
    fn home(&self) -> Store {
        self.base.home()
    }

    fn admit(&self, op: &Op) -> Result<()> {
        let size = op.body().map_or(0, Body::size);
        let at = match op {
            Op::Write { at, .. } | Op::Append { at, .. } | Op::Patch { at, .. } => Some(at),
            _ => None,
        };
        check_body(self.mount.largest_body, size, at)?;
        self.base.admit(op)
    }

    fn begin(&mut self, expires: bool) {
        self.expires = expires;
        self.base.begin(expires);
    }

    async fn lower(&mut self, at: &At, access: Access) -> Result<LoweredAddress> {
        let Self { mount, base, others, addressed, linked, expires } = self;
        let mut place = mount.place(at).await?;
        place.at = known(mount, &place).await?;
        let mut missing = missing(mount, &place, access).await?;
        match (&place.path, at) {
            (Some(path), At::Node(_)) if path.is_root() || access != Access::Write => {
                // The operation takes no inode, and the store has to refuse it for that. The path would be
                // accepted.
                (place.at, missing) = (mount.root().await?, None);
            }
            (Some(path), _) => refuse_points(mount, path, access)?,
            (None, _) if matches!(access, Access::ReadTree | Access::ReadPast) => {
                if let Some(path) = tree_of(mount, &place).await? {
                    refuse_points(mount, &path, access)?;
                }
            }
            (None, _) => {}
        }
        if let (Access::ReadPast, Source::Other(Other { has_past: false, .. })) = (access, &place.part.source)
        {
            return Err(no_past(place.part));
        }
        if !access.changes() && missing.is_some() {
            // The directory exists for the tree alone. A condition can only ask for existence and kind, which
            // the root shares.
            place.at = mount.root().await?;
        }
        let parts = match access.changes() {
            true => parts_of(mount, &place).await?,
            false => BTreeSet::new(),
        };
        if parts.iter().any(|part| mount.parts.all()[*part].read_only)
            && parts.iter().all(|part| mount.parts.all()[*part].read_only)
        {
            let at = place.path.as_ref().unwrap_or(&place.part.at);
            return Err(Error::at(ErrorKind::ReadOnly, at, "is mounted read-only"));
        }
        // With one of them unknown, the store reports the missing node.
        let known = |from: &BTreeSet<usize>| !from.is_empty() && !parts.is_empty();
        if linked.take().filter(known).is_some_and(|from| from.is_disjoint(&parts)) {
            let at = place.path.as_ref().unwrap_or(&place.part.at);
            let message = "a file cannot be linked across mounts; copy it";
            return Err(Error::at(ErrorKind::CrossesMounts, at, message));
        }
        if access == Access::Link {
            *linked = Some(parts);
        }
        if place.path.is_some() {
            addressed.insert(place.part.index);
        }
        let lowered = match &place.part.source {
            Source::Base(_) => base.lower(&place.at, access).await,
            // Begun for each address, because a part may be addressed first in a later operation.
            Source::Other(other) => {
                let lowering =
                    others.entry(place.part.index).or_insert_with(|| other.fs.view_base().lowering());
                lowering.begin(*expires);
                lowering.lower(&place.at, access).await
            }
            Source::NoPast => mount.fs(place.part).map(drop).and(Err(Error::no_node())),
        };
        let mut lowered = mount.told(place.part, lowered)?;
        lowered.shown.ino = match (place.is_root(), lowered.shown.ino) {
            (true, _) => Some(Ino::ROOT),
            (false, known) => known.map(|ino| mount.parts.shown(place.part, ino)),
        };
        lowered.shown.tag = mount.parts.tag(place.part, lowered.shown.tag);
        if access.changes()
            && let Some((part, made)) = missing
        {
            let lowering = match &part.source {
                Source::Other(other) => {
                    others.entry(part.index).or_insert_with(|| other.fs.view_base().lowering())
                }
                Source::Base(_) | Source::NoPast => base,
            };
            let through = LoweredOps::of(&mut **lowering, vec![made], Vec::new()).await;
            mount.told(part, through)?.before(&mut lowered);
        }
        Ok(lowered)
    }

    async fn condition(&mut self, at: &At, that: &Precondition) -> Result<(LoweredAddress, Precondition)> {
        let place = self.mount.place(at).await?;
        let Source::Other(other) = &place.part.source else {
            let (lowered, mut that) = (self.lower(at, Access::Read).await?, that.clone());
            for version in that.versions() {
                version.ino = self.number(version.ino).await?;
            }
            return Ok((lowered, that));
        };
        let mut that = that.clone();
        for version in that.versions() {
            // A part numbers its nodes itself. A version of another part matches none of them.
            let node = self.mount.parts.node(version.ino);
            version.ino =
                node.filter(|(part, _)| part.index == place.part.index).map_or(Ino::NONE, |(_, ino)| ino);
        }
        let lowering = self.others.entry(place.part.index).or_insert_with(|| other.fs.view_base().lowering());
        self.mount.told(place.part, lowering.condition(&place.at, &that).await)
    }

    async fn number(&mut self, ino: Ino) -> Result<Ino> {
        if ino == Ino::ROOT {
            return match self.mount.root().await? {
                At::Node(root) => self.base.number(root).await,
                At::Path(_) | At::Child(..) => Ok(ino),
            };
        }
        let Self { mount, base, others, .. } = self;
        let Some((part, below)) = mount.parts.node(ino) else { return Ok(ino) };
        match &part.source {
            Source::Base(_) => base.number(below).await,
            Source::Other(other) => {
                others
                    .entry(part.index)
                    .or_insert_with(|| other.fs.view_base().lowering())
                    .number(below)
                    .await
            }
            Source::NoPast => Ok(below),
        }
    }

    async fn tops(&mut self, top: &TreePath) -> Result<Vec<(StoreId, TreePath)>> {
        let Self { mount, base, others, .. } = self;
        let Below { base: of_base, others: of_others } = mount.below(&Within::new([top.clone()]))?;
        let mut tops = Vec::new();
        for top in of_base {
            tops.extend(base.tops(&top).await?);
        }
        for (part, inside) in of_others {
            if let Source::Other(other) = &part.source {
                let lowering = others.entry(part.index).or_insert_with(|| other.fs.view_base().lowering());
                for top in inside {
                    tops.extend(lowering.tops(&top).await?);
                }
            }
        }
        Ok(tops)
    }

    fn raise(&self, store: StoreId, path: &TreePath) -> Option<TreePath> {
        let parts = self.mount.parts.all();
        if let Some(path) = self.base.raise(store, path) {
            let addressed = self.addressed.iter().map(|part| &parts[*part]).filter(|part| part.is_base());
            let up = addressed.filter_map(|part| self.mount.parts.shown_by(part, &path)).next();
            return up.or_else(|| self.mount.up_from_base(&path)).or_else(|| self.mount.left_out(&path));
        }
        self.others.iter().find_map(|(part, lowering)| {
            self.mount.parts.shown_by(&parts[*part], &lowering.raise(store, path)?)
        })
    }
}

/// Refuses to remove, move or replace the path of a part, or a directory that leads to one.
fn refuse_points(mount: &Mount, path: &TreePath, access: Access) -> Result<()> {
    let busy = match access {
        // A part that is left out entirely cannot refuse by itself.
        Access::Create | Access::Replace | Access::Exchange
            if mount.within.is_excluded(&mount.parts.of(path).at) =>
        {
            return Err(Error::closed(path));
        }
        Access::Read | Access::Snapshot | Access::Write | Access::Link | Access::Create => return Ok(()),
        Access::ReadTree | Access::ReadPast if !mount.parts.has_below(path) => return Ok(()),
        Access::ReadTree | Access::ReadPast => {
            let message = "another filesystem or directory is mounted inside; copy the entries one by one";
            return Err(Error::at(ErrorKind::CrossesMounts, path, message));
        }
        Access::Replace | Access::Move | Access::Exchange | Access::Remove | Access::RemoveTree => {
            // A directory of the base that is shown once is held by the store itself, which checks in its own
            // order.
            let part = mount.parts.of(path);
            let says_so = part.at == *path && part.is_base() && !part.tagged && !part.read_only;
            mount.leads(path) && !says_so
        }
    };
    match busy {
        true => Err(Error::at(ErrorKind::Busy, path, "something is mounted here or below")),
        false => Ok(()),
    }
}

/// Returns the path of a node that is addressed by inode.
async fn tree_of(mount: &Mount, place: &Place<'_>) -> Result<Option<TreePath>> {
    let names = mount.fs(place.part)?.names(&place.at, &NamesPage::default().limit(1)).await;
    // The store reports why it is missing, in its own order.
    let names = names.optional().map_err(|error| mount.told_of(place.part, error))?;
    Ok(names.and_then(|names| mount.up(place.part, names.items.first()?)))
}

/// Returns the parts that show the node of an address. A node of the base that is addressed by inode shows in
/// each part that has one of its names.
async fn parts_of(mount: &Mount, place: &Place<'_>) -> Result<BTreeSet<usize>> {
    let several = mount.parts.all().iter().filter(|part| part.is_base()).count() > 1;
    let at = match &place.at {
        At::Node(ino) | At::Child(ino, _) if place.path.is_none() && place.part.is_base() && several => {
            At::Node(*ino)
        }
        _ => return Ok(BTreeSet::from([place.part.index])),
    };
    let names = mount.base.names(&at, &NamesPage::default()).await.optional();
    let Some(names) = mount.told(place.part, names)? else { return Ok(BTreeSet::new()) };
    let shown = names.items.iter().filter_map(|path| mount.up_from_base(path));
    Ok(shown.map(|path| mount.parts.of(&path).index).collect())
}

/// Returns the operation that creates a directory which leads to a part, and the part to create it in, if the
/// address needs it and nobody created it yet.
async fn missing<'a>(mount: &'a Mount, place: &Place<'_>, access: Access) -> Result<Option<(&'a Part, Op)>> {
    let Some(path) = &place.path else { return Ok(None) };
    let needed = match access {
        Access::Create | Access::Replace | Access::Move | Access::Exchange if !mount.parts.leads(path) => {
            path.parent()
        }
        _ => Some(path.clone()),
    };
    let Some(needed) = needed.filter(|path| mount.parts.leads(path) && !mount.parts.is_point(path)) else {
        return Ok(None);
    };
    let part = mount.parts.of(&needed);
    let (fs, below) = (mount.fs(part)?, part.down(&needed)?);
    match fs.stat(&At::Path(below.clone())).await {
        Err(error) if error.is(ErrorKind::NotFound) => {
            // Creating a closed directory would fail with its path. Without it, the part refuses the complete
            // path.
            let nothing = Incoming { room: u64::MAX, has_begun: true, ..Incoming::default() };
            let admitted = fs.admit(&At::Path(below.clone()), &nothing).await;
            let is_closed = needed != *path
                && (mount.within.is_excluded(&needed)
                    || admitted.is_err_and(|error| error.is(ErrorKind::AccessDenied)));
            Ok((!is_closed).then(|| (part, Op::mkdir_all(below))))
        }
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(mount.told_of(part, error)),
        Ok(_) => Ok(None),
    }
}
