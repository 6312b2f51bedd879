//! Removes a node, with the edges that lead to it.

use super::edge::{self, Edge};
use super::event::{Event, EventType, Payload};
use super::files::{OUTBOX, RELATIONS};
use super::made::{upsert_relation, write_event};
use super::state::State;
use super::uri::Uri;
use super::{Nodes, Tries};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystemExt;
use crate::model::{At, ByteRange, Op, Page, Precondition, Seq};
use crate::path::TreePath;

/// Most edges of others that one commit rewrites; the rest is done beside it, in steps.
const MAX_REWRITTEN: usize = if cfg!(test) { 20 } else { 10_000 };

/// Most bytes of these.
const MAX_REWRITTEN_BYTES: usize = 4 << 20;

/// Most waiting events of a node that are taken along; one that has more is not at rest.
const MAX_TAKEN: usize = 1000;

/// What is done with the edges that lead to a node.
pub(super) enum Incoming<'a> {
    /// They go.
    Removed,
    /// They lead elsewhere.
    To(&'a str),
}

impl Nodes<'_> {
    /// Removes a node, whatever its status, with the edges that lead to it. Its past stays.
    ///
    /// # Errors
    /// `AccessDenied` for another account's; `NotFound` if nothing is there; from the filesystem.
    pub async fn delete(&self, uri: &Uri) -> Result<Seq> {
        uri.check_account(&self.account)?;
        let mut tries = Tries::default();
        loop {
            match self.delete_once(uri).await {
                Err(error) if tries.again(&error) => {}
                done => return done,
            }
        }
    }

    async fn delete_once(&self, uri: &Uri) -> Result<Seq> {
        let state = State::read(self.fs, uri).await?;
        let there = [&state.meta, &state.content, &state.relations, &state.brief, &state.overview];
        if there.iter().all(|file| file.is_none()) {
            return Err(self.missing(uri).await);
        }
        let event = Event::new(&self.env, EventType::DeleteContext, &uri.to_string(), Payload::default())?;
        let outbox = TreePath::from_row("", OUTBOX);
        let in_outbox = |name: &str| TreePath::from_row(outbox.key(), name);
        let away = in_outbox(&format!("{}.d", event.event_id));
        let (mut ops, mut conditions) = (Vec::new(), state.unchanged());
        if self.fs.lookup(&outbox).await?.is_none() {
            ops.push(Op::mkdir_all(outbox.clone()));
        }
        for kept in self.outliving(uri, &mut conditions).await? {
            let name = kept.name().unwrap_or_default().to_owned();
            ops.push(Op::rename(kept, in_outbox(&name)));
        }
        // where a batch is not atomic, a directory that is partly removed is no node
        ops.push(Op::rename(uri.dir(), away.clone()));
        self.rewrite(uri, &Incoming::Removed, &mut ops, &mut conditions).await?;
        ops.push(Op::write(in_outbox(&format!("{}.json", event.event_id)), event.to_json()).create_new());
        ops.push(Op::remove_tree(away));
        let commit = self.fs.commit(self.batch(ops, conditions).message(format!("delete {uri}"))).await?;
        Ok(commit.seq)
    }

    /// The events of a node that outlive it. The others must be as they are here when it goes: one that is
    /// being told by then would outlive it, too.
    async fn outliving(&self, uri: &Uri, conditions: &mut Vec<(At, Precondition)>) -> Result<Vec<TreePath>> {
        let dir = uri.file(OUTBOX);
        let page = Page { limit: MAX_TAKEN, ..Page::default() };
        let listing = match self.fs.list(&At::from(&dir), &page).await {
            Ok(listing) => listing,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let mut kept = Vec::new();
        for item in listing.items.iter().filter(|item| item.name.as_str().ends_with(".json")) {
            let path = TreePath::from_row(dir.key(), item.name.as_str());
            let at = At::from(&path);
            let (entry, bytes) = match self.fs.fetch(&at, ByteRange::ALL).await {
                Ok(found) => found,
                // done meanwhile
                Err(error) if error.is(ErrorKind::NotFound) => continue,
                Err(error) => return Err(error),
            };
            conditions.push((at, Precondition::Etag(entry.etag)));
            let event = Event::parse(&bytes).ok();
            if event.is_some_and(|event| event.outlives_node()) {
                kept.push(path);
            }
        }
        if listing.more {
            let message =
                format!("{uri}: has more than {MAX_TAKEN} waiting events; run garth outbox run first");
            return Err(Error::new(ErrorKind::Busy, message));
        }
        Ok(kept)
    }

    /// Rewrites the edges that lead to a node, as many as one commit takes; each node that has such gets an
    /// event.
    pub(super) async fn rewrite(
        &self,
        uri: &Uri,
        incoming: &Incoming<'_>,
        ops: &mut Vec<Op>,
        conditions: &mut Vec<(At, Precondition)>,
    ) -> Result<()> {
        let to = uri.to_string();
        let (nodes, _) = self.incoming(uri, MAX_REWRITTEN).await?;
        let (mut edges_left, mut bytes_left) = (MAX_REWRITTEN, MAX_REWRITTEN_BYTES);
        for node in nodes.into_iter().filter(|node| node.from != *uri) {
            let leading = node.edges.iter().filter(|edge| edge.to_uri == to).count();
            let edges = match incoming {
                Incoming::Removed => node.edges.into_iter().filter(|edge| edge.to_uri != to).collect(),
                Incoming::To(new) => moved(node.edges, &to, new),
            };
            let text = edge::to_json(&edges);
            let (Some(edges_then), Some(bytes_then)) =
                (edges_left.checked_sub(leading), bytes_left.checked_sub(2 * text.len()))
            else {
                break;
            };
            (edges_left, bytes_left) = (edges_then, bytes_then);
            let file = node.from.file(RELATIONS);
            conditions.push((file.clone().into(), Precondition::Etag(node.etag)));
            ops.push(Op::write(file, text));
            if node.is_node {
                ops.push(write_event(&node.from, &upsert_relation(&self.env, &node.from, &edges)?));
            }
        }
        Ok(())
    }
}

/// Edges of which those that led to one node lead to another.
pub(super) fn moved(edges: Vec<Edge>, from: &str, to: &str) -> Vec<Edge> {
    let other = |uri: String| if uri == from { to.to_owned() } else { uri };
    edges.into_iter().map(|edge| Edge { to_uri: other(edge.to_uri), ..edge }).collect()
}
