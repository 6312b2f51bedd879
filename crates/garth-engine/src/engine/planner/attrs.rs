//! Attributes of nodes. They are rows of their own, so that a change of content copies none of them.

use super::rows::{NodeRow, Rows};
use super::state::Planner;
use super::subtrees::key_of;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{At, Attributes, ChangeKind, Kind, Outcome, SetAttrs};
use crate::text::passage::Edit;

impl<R: Rows> Planner<'_, R> {
    pub(super) fn set_attrs(&mut self, at: &At, attrs: &SetAttrs) -> Result<Outcome> {
        let mut node = self.node_at(at)?;
        // Rules judge by path. The name that was used here spares them a lookup.
        if let At::Path(path) = at {
            self.addressed.extend(key_of(path).map(|key| (node.ino, key)));
        }
        node.ctime = self.time;
        if let Err(error) = self.apply_attrs(&mut node, attrs) {
            return Err(self.about_expiry(error, at));
        }
        let ino = node.ino;
        self.put_held(node);
        self.delta.log(ChangeKind::Attributes, ino, None);
        Ok(self.outcome(ino, false))
    }

    /// Adds the path to an error about the node (`NotPermitted`). Errors about the given values carry none.
    pub(super) fn about_expiry(&mut self, error: Error, at: &At) -> Error {
        if error.is(ErrorKind::NotPermitted) { self.about(error, at) } else { error }
    }

    /// Returns the attributes of a node as the batch sees them.
    pub(super) fn attributes(&self, node: &NodeRow) -> Result<Attributes> {
        if node.attrs_seq == 0 {
            return Ok(Attributes::default());
        }
        match self.delta.attributes.get(&node.ino) {
            Some(attributes) => Ok(attributes.clone()),
            None => self.rows.attributes(node.ino, node.attrs_seq),
        }
    }

    /// Replaces the attributes of a node.
    pub(super) fn put_attributes(&mut self, node: &mut NodeRow, attributes: Attributes) -> Result<()> {
        let before = self.attributes(node)?;
        let looked_at = |attributes: &Attributes| (attributes.searchable, attributes.content_type.clone());
        // Both decide whether the file is indexed. The edit spans all of it, so that it is indexed or
        // dropped as one.
        if node.kind == Kind::File && looked_at(&attributes) != looked_at(&before) {
            self.delta.touch(node.ino, Edit::replace(node.size, node.size));
        }
        self.delta.keyed.insert(node.ino);
        if attributes == Attributes::default() {
            node.attrs_seq = 0;
            self.delta.attributes.remove(&node.ino);
        } else {
            node.attrs_seq = self.seq;
            self.delta.attributes.insert(node.ino, attributes);
        }
        Ok(())
    }

    /// Applies the requested changes to the row. The caller puts it.
    pub(super) fn apply_attrs(&mut self, node: &mut NodeRow, attrs: &SetAttrs) -> Result<()> {
        if *attrs == SetAttrs::default() {
            return Ok(());
        }
        if let Some(expires_at) = attrs.expires_at {
            // Its entries would disappear with it, though they have not expired.
            if node.kind == Kind::Directory {
                return Err(Error::new(ErrorKind::NotPermitted, "a directory does not expire"));
            }
            self.put_expiry(node, expires_at.map(|at| at.0));
        }
        if attrs.has_attributes() {
            let before = self.attributes(node)?;
            let mut after = before.clone();
            attrs.apply(&mut after)?;
            self.totals.attributes(&after, None)?;
            // Unchanged attributes write no row.
            if after != before {
                self.put_attributes(node, after)?;
            }
        }
        node.mode = attrs.mode.unwrap_or(node.mode);
        node.uid = attrs.uid.unwrap_or(node.uid);
        node.gid = attrs.gid.unwrap_or(node.gid);
        node.atime = attrs.atime.map_or(node.atime, |time| time.0);
        node.mtime = attrs.mtime.map_or(node.mtime, |time| time.0);
        Ok(())
    }

    /// Sets the expiry of a node.
    pub(super) fn put_expiry(&mut self, node: &mut NodeRow, expires_at: Option<i64>) {
        if node.expires_at != expires_at {
            node.expires_at = expires_at;
            // A node without a name has nothing left that could expire.
            self.delta.expiry.insert(node.ino, if node.nlink == 0 { None } else { expires_at });
        }
    }
}
