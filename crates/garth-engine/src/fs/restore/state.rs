//! Comparison of a node with its past state.

use std::collections::BTreeMap;

use crate::compute::{go_on, working};
use crate::error::{ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::{At, Attributes, ByteRange, Entry, HistoryPage, Kind, Seq, SetAttrs, Timestamp};
use crate::path::TreePath;

/// Largest file, in bytes, whose content is read to see whether a newer version equals the old one: 64 MiB. A
/// larger file is restored unread; that copies no content either.
pub const MAX_COMPARED: u64 = 64 << 20;

/// Bytes compared at a time: the largest extent.
const STEP: u64 = 1 << 20;

/// Range without bytes: the read of it fails if the content is no longer stored.
pub(super) const NO_BYTES: ByteRange = ByteRange { offset: 0, length: 0 };

/// Difference between a node and its past state.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Difference {
    None,
    /// Changes that make the attributes equal.
    Attributes(Box<SetAttrs>),
    /// Content, perhaps also attributes.
    Content,
    /// Content, of which the past one is no longer stored.
    Gone,
}

/// Returns true for a root that nobody has created and that a view shows as an empty directory, such as that
/// of a chat without files. A caller that makes something equal to a directory would remove everything in it.
#[doc(hidden)]
pub async fn is_uncreated_root<F: FileSystem + ?Sized>(fs: &F, path: &TreePath, entry: &Entry) -> bool {
    // The root of an account begins with this version, too, but it has a history.
    if !path.is_root() || entry.version.seq != Seq(0) {
        return false;
    }
    let history = fs.history(&At::from(path), &HistoryPage::default()).await;
    history.is_err_and(|error| error.is_absent())
}

/// Compares a node, in the past at `path`, with its current state.
pub(super) async fn compare<P, F>(
    past: &P,
    fs: &F,
    path: &TreePath,
    then: &Entry,
    now: &Entry,
    time: Timestamp,
) -> Result<Difference>
where
    P: FileSystem + ?Sized,
    F: FileSystem + ?Sized,
{
    // An expiry that has passed would remove the entry at once.
    let expires_at = then.expires_at.filter(|at| *at > time);
    let attributes = difference(then, now, expires_at);
    if then.kind == Kind::File && then.etag != now.etag {
        match check_stored(past, path).await {
            Err(error) if error.is(ErrorKind::Gone) => return Ok(Difference::Gone),
            stored => stored?,
        }
        // A write sets the time, so another version with the same time mostly has the same content, from an
        // earlier restore. Otherwise reading it costs more than the commit that it may save.
        let unlike = attributes.is_some() || then.size != now.size || now.size > MAX_COMPARED;
        if unlike || !same_content(past, fs, path, now).await? {
            return Ok(Difference::Content);
        }
    }
    Ok(attributes.map_or(Difference::None, |attrs| Difference::Attributes(Box::new(attrs))))
}

/// Fails with `Gone` if the content of a past file is no longer stored.
pub(super) async fn check_stored<P: FileSystem + ?Sized>(past: &P, path: &TreePath) -> Result<()> {
    past.read(&At::Path(path.clone()), NO_BYTES).await.map(drop)
}

async fn same_content<P, F>(past: &P, fs: &F, path: &TreePath, now: &Entry) -> Result<bool>
where
    P: FileSystem + ?Sized,
    F: FileSystem + ?Sized,
{
    let (then, there) = (At::Path(path.clone()), At::Node(now.ino));
    let mut range = ByteRange { offset: 0, length: STEP };
    while range.offset < now.size {
        // Files of any number may have to be compared, which a server bounds for each call.
        go_on()?;
        let (one, other) = (past.read(&then, range).await?, fs.read(&there, range).await?);
        working(one.len() + other.len());
        if one != other || one.is_empty() {
            return Ok(false);
        }
        range.offset += one.len() as u64;
    }
    Ok(true)
}

/// Returns the changes that make `now` equal to `then` except for content, with `expires_at` as the expiry;
/// `None` if there are none.
pub(crate) fn difference(then: &Entry, now: &Entry, expires_at: Option<Timestamp>) -> Option<SetAttrs> {
    fn changed<T: PartialEq + Clone>(then: &T, now: &T) -> Option<T> {
        (then != now).then(|| then.clone())
    }
    let (before, after) = (&now.attributes, &then.attributes);
    let attrs = SetAttrs {
        mode: changed(&then.mode, &now.mode),
        uid: changed(&then.uid, &now.uid),
        gid: changed(&then.gid, &now.gid),
        // Reads do not count as a difference.
        atime: None,
        mtime: changed(&then.mtime, &now.mtime),
        content_type: changed(&after.content_type, &before.content_type),
        tags: changed(&after.tags, &before.tags),
        importance: changed(&after.importance, &before.importance),
        searchable: changed(&after.searchable, &before.searchable),
        metadata: map_changes(&after.metadata, &before.metadata),
        xattrs: map_changes(&after.xattrs, &before.xattrs),
        expires_at: changed(&expires_at, &now.expires_at),
    };
    (attrs != SetAttrs::default()).then_some(attrs)
}

fn map_changes<V: PartialEq + Clone>(
    then: &BTreeMap<String, V>,
    now: &BTreeMap<String, V>,
) -> BTreeMap<String, Option<V>> {
    let gone = now.keys().filter(|key| !then.contains_key(*key)).map(|key| (key.clone(), None));
    let set = then.iter().filter(|(key, value)| now.get(*key) != Some(*value));
    gone.chain(set.map(|(key, value)| (key.clone(), Some(value.clone())))).collect()
}

/// Returns the attributes of a new node that is to be like `then`, except for its time.
pub(super) fn attributes(then: &Entry) -> SetAttrs {
    let plain = Entry { attributes: Attributes::default(), ..then.clone() };
    let attrs = difference(then, &plain, then.expires_at).unwrap_or_default();
    SetAttrs { mode: Some(then.mode), uid: Some(then.uid), gid: Some(then.gid), ..attrs }
}
