//! Relations between memories: adds, removes and follows them.

use std::collections::BTreeSet;

use super::Memories;
use super::edge::{self, Edge, MAX_EDGES};
use super::file_names::{META, RELATIONS};
use super::state::{File, State, read_all};
use super::uri::Uri;
use super::write_ops::{upsert_relation, write_event};
use crate::boxed;
use crate::once::{Outcome, PENDING};
use crate::registry::projections;
use crate::retry::{retry, yield_now};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{FindQuery, Op, Precondition, Seq};

/// Limit on the steps from a memory to others.
pub const MAX_HOPS: usize = 5;

/// Limit on the memories that one call reads, and on the relations that it returns.
pub const MAX_LOOKED: usize = 1000;

/// Limit on the bytes of `.relations.json` of other memories that one call reads, 16 MiB: they are held in
/// memory together.
const MAX_READ: usize = 16 << 20;

/// Direction in which edges are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the memory.
    Outgoing,
    /// To the memory.
    Incoming,
    /// Both.
    Both,
}

/// Query of the edges around a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Around {
    /// Direction.
    pub direction: Direction,
    /// Number of steps, 1 to 5.
    pub hops: usize,
    /// Limit on the edges, 1 to 1,000.
    pub limit: usize,
}

impl Around {
    /// Returns a query of one step with at most 100 edges.
    pub fn new(direction: Direction) -> Self {
        Self { direction, hops: 1, limit: 100 }
    }

    /// Sets the number of steps.
    #[must_use]
    pub fn hops(self, hops: usize) -> Self {
        Self { hops, ..self }
    }

    /// Sets the limit on the edges.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }
}

/// Edges around a memory.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Related {
    /// Edges, nearest first, each with the number of steps to it. Both ends of each edge exist.
    pub edges: Vec<(usize, Edge)>,
    /// True if there may be more.
    pub more: bool,
}

impl Memories<'_> {
    /// Creates an edge from a memory to another, or changes the one of the same type.
    ///
    /// # Errors
    /// `InvalidArgument`, `TooLarge`; `AccessDenied` for another account; `NotFound` if one of the memories
    /// does not exist; from the filesystem.
    #[boxed]
    pub async fn relate(&self, edge: &Edge) -> Result<Option<Seq>> {
        let from: Uri = edge.from_uri.parse()?;
        self.check(&from)?;
        self.check_change(&from)?;
        let edge = self.edges_from(&from, std::slice::from_ref(edge))?.remove(0);
        edge.check()?;
        let to: Uri = edge.to_uri.parse()?;
        self.once.run(retry(|| self.relate_once(&from, &to, &edge))).await
    }

    async fn relate_once(&self, from: &Uri, to: &Uri, edge: &Edge) -> Result<Option<Seq>> {
        if !self.exists(to).await? {
            return Err(self.missing(to).await);
        }
        let mut edges = self.own_edges(from).await?;
        let same = |known: &Edge| known.to_uri == edge.to_uri && known.relation_type == edge.relation_type;
        match edges.1.iter_mut().find(|known| same(known)) {
            Some(known) if known == edge => {
                return self.once.unchanged(self.fs, self.nothing(format!("relate {from}")), None).await;
            }
            Some(known) => known.clone_from(edge),
            None => edges.1.push(edge.clone()),
        }
        self.write_edges(edges, Some(to), Some(PENDING)).await
    }

    /// Removes the edges from a memory to another: that of a type, or all. Returns their number.
    ///
    /// # Errors
    /// `InvalidArgument`; `AccessDenied` for another account; `NotFound` if the first memory does not exist;
    /// from the filesystem.
    #[boxed]
    pub async fn unrelate(&self, from: &Uri, to: &Uri, relation_type: Option<&str>) -> Result<usize> {
        self.check(from)?;
        self.check_change(from)?;
        to.check_account(&self.account)?;
        let to = to.to_string();
        self.once.run(retry(|| self.unrelate_once(from, &to, relation_type))).await
    }

    async fn unrelate_once(&self, from: &Uri, to: &str, relation_type: Option<&str>) -> Result<usize> {
        let mut edges = self.own_edges(from).await?;
        let before = edges.1.len();
        let goes =
            |edge: &Edge| edge.to_uri == to && relation_type.is_none_or(|due| due == edge.relation_type);
        edges.1.retain(|edge| !goes(edge));
        let gone = before - edges.1.len();
        if gone == 0 {
            return self.once.unchanged(self.fs, self.nothing(format!("unrelate {from}")), gone).await;
        }
        self.write_edges(edges, None, gone).await
    }

    /// Returns the edges around a memory, nearest first.
    ///
    /// # Errors
    /// `InvalidArgument`; `AccessDenied` for another account; `NotFound` if the memory does not exist; from
    /// the filesystem.
    #[boxed]
    pub async fn around(&self, uri: &Uri, query: &Around) -> Result<Related> {
        self.check(uri)?;
        if !(1..=MAX_HOPS).contains(&query.hops) || !(1..=MAX_LOOKED).contains(&query.limit) {
            let message = format!("follow 1 to {MAX_HOPS} steps, with a limit of 1 to {MAX_LOOKED}");
            return Err(Error::invalid(message));
        }
        if !self.exists(uri).await? {
            return Err(self.missing(uri).await);
        }
        let mut related = Related::default();
        let (mut seen, mut here) = (BTreeSet::from([uri.to_string()]), vec![uri.clone()]);
        let mut known = BTreeSet::new();
        for step in 1..=query.hops {
            let mut next = Vec::new();
            for memory in &here {
                for edge in self.edges_of(memory, query.direction, &mut related.more).await? {
                    let ends = [&edge.from_uri, &edge.to_uri];
                    let other = ends.into_iter().find(|end| **end != memory.to_string());
                    let Some(other) = other.and_then(|other| other.parse::<Uri>().ok()) else { continue };
                    let id = (edge.from_uri.clone(), edge.to_uri.clone(), edge.relation_type.clone());
                    // The next step may read the edge that led there once more.
                    // Edges may lead to memories that were deleted or moved, until the outbox has rewritten
                    // them.
                    if known.contains(&id) || !self.is_there(&other).await? {
                        continue;
                    }
                    if related.edges.len() == query.limit || seen.len() >= MAX_LOOKED {
                        related.more = true;
                        return Ok(related);
                    }
                    known.insert(id);
                    related.edges.push((step, edge));
                    if seen.insert(other.to_string()) {
                        next.push(other);
                    }
                }
            }
            here = next;
        }
        Ok(related)
    }

    /// Returns true if a memory of this account exists.
    async fn is_there(&self, uri: &Uri) -> Result<bool> {
        Ok(uri.account() == self.account && self.exists(uri).await?)
    }

    /// Returns the edges at a memory.
    async fn edges_of(&self, uri: &Uri, direction: Direction, more: &mut bool) -> Result<Vec<Edge>> {
        let mut edges = Vec::new();
        if direction != Direction::Incoming {
            let [file] = read_all(self.fs, &[uri.file(RELATIONS)]).await?;
            let own = file.and_then(|file| edge::parse(file.bytes.as_ref()?).ok()).unwrap_or_default();
            // A file that was edited by hand may have more edges than garth accepts.
            *more |= own.len() > MAX_EDGES;
            // A file that was edited or copied by hand may claim edges from other memories.
            edges.extend(own.into_iter().take(MAX_EDGES).filter(|edge| edge.from_uri == uri.to_string()));
        }
        if direction != Direction::Outgoing {
            let (incoming, some_left) = self.incoming(uri, MAX_LOOKED, MAX_READ).await?;
            *more |= some_left;
            let to = uri.to_string();
            for file in incoming {
                edges.extend(edge::parse(&file.bytes)?.into_iter().filter(|edge| edge.to_uri == to));
            }
        }
        Ok(edges)
    }

    /// Returns the memories with edges that lead to a memory, at most `most` of them with at most `bytes`
    /// bytes of edges; and true if there may be more.
    pub(super) async fn incoming(
        &self,
        uri: &Uri,
        most: usize,
        bytes: usize,
    ) -> Result<(Vec<EdgesOf>, bool)> {
        let (dirs, more) = match self.fs.capabilities(&uri.dir()).find {
            true => self.found(uri, most).await?,
            false => self.walked(uri, most).await?,
        };
        let (mut memories, mut left) = (Vec::new(), bytes);
        for from in dirs {
            let [meta, file] = read_all(self.fs, &[META, RELATIONS].map(|name| from.file(name))).await?;
            let Some(File { etag, bytes: Some(bytes), .. }) = file else { continue };
            // A broken file cannot be rewritten without losing its content.
            if edge::parse(&bytes).is_err() {
                continue;
            }
            let Some(rest) = left.checked_sub(bytes.len()) else { return Ok((memories, true)) };
            left = rest;
            memories.push(EdgesOf { from, etag, is_memory: meta.is_some(), bytes });
            yield_now().await;
        }
        Ok((memories, more))
    }

    /// Finds the memories with edges to a memory by key.
    async fn found(&self, uri: &Uri, most: usize) -> Result<(BTreeSet<Uri>, bool)> {
        let mut dirs = BTreeSet::new();
        let mut query = FindQuery::new(projections::RELATION_TARGET).equal(&uri.to_string());
        loop {
            let answer = self.fs.find(&query).await?;
            for item in answer.items {
                let dir = item.path.parent().unwrap_or_default();
                dirs.extend(Uri::of_dir(&self.account, &dir));
                // One more than the limit shows that there are more.
                if dirs.len() > most {
                    dirs.pop_last();
                    return Ok((dirs, true));
                }
            }
            match answer.next {
                Some(next) => query = query.after(next),
                None => return Ok((dirs, false)),
            }
        }
    }

    /// Finds the memories with edges to a memory by a walk, in a tree without keys.
    async fn walked(&self, uri: &Uri, most: usize) -> Result<(BTreeSet<Uri>, bool)> {
        let (mut dirs, to) = (BTreeSet::new(), uri.to_string());
        let mut after = None;
        loop {
            let (memories, next) = self.candidates(&super::list::Prefix::Account, after).await?;
            for memory in &memories {
                let [file] = read_all(self.fs, &[memory.file(RELATIONS)]).await?;
                let edges = file.and_then(|file| edge::parse(file.bytes.as_ref()?).ok()).unwrap_or_default();
                yield_now().await;
                if edges.iter().any(|edge| edge.to_uri == to)
                    && dirs.insert(memory.clone())
                    && dirs.len() > most
                {
                    dirs.pop_last();
                    return Ok((dirs, true));
                }
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok((dirs, false)),
            }
        }
    }

    /// Returns the edges of an active memory, with its state.
    async fn own_edges(&self, from: &Uri) -> Result<(State, Vec<Edge>)> {
        let state = State::read(self.fs, from).await?;
        self.active(&state)?;
        let edges = match &state.relations {
            None => Vec::new(),
            // Writing a list in place of an unreadable file would lose the edges in it.
            Some(_) => state.edges().ok_or_else(|| {
                Error::invalid(format!(
                    "{from}: {RELATIONS} is not a list of relations; put the memory again"
                ))
            })?,
        };
        Ok((state, edges))
    }

    async fn write_edges<T: Outcome>(
        &self,
        (state, edges): (State, Vec<Edge>),
        to: Option<&Uri>,
        outcome: T,
    ) -> Result<T> {
        let uri = &state.uri;
        if edges.len() > MAX_EDGES {
            let message = format!("at most {MAX_EDGES} relations lead from one memory");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let event = upsert_relation(&self.env, uri, &edges)?;
        let ops = vec![Op::write(uri.file(RELATIONS), edge::to_json(&edges)?), write_event(uri, &event)?];
        let mut conditions = state.unchanged();
        // The target was read before the commit. Deleted in between, it would leave a dangling edge.
        conditions.extend(to.map(|to| (to.file(META).into(), Precondition::Exists)));
        let batch = self.batch(ops, conditions).message(format!("relate {uri}"));
        self.once.commit(self.fs, batch, outcome).await
    }

    /// Checks and returns edges that lead from a memory, with both ends in this account.
    pub(super) fn edges_from(&self, from: &Uri, edges: &[Edge]) -> Result<Vec<Edge>> {
        let from = from.to_string();
        let own = |edge: &Edge| {
            let to: Uri = edge.to_uri.parse()?;
            to.check_account(&self.account)?;
            if edge.from_uri != from {
                return Err(Error::invalid(format!("{}: does not lead from {from}", edge.from_uri)));
            }
            if edge.to_uri == from {
                return Err(Error::invalid(format!("{from}: a relation must lead to another memory")));
            }
            Ok(edge.clone())
        };
        edges.iter().map(own).collect()
    }
}

/// Memory with an edge that leads to another one.
pub(super) struct EdgesOf {
    pub(super) from: Uri,
    /// Version of its relations.
    pub(super) etag: garth_engine::model::VersionId,
    /// True if it has a meta.
    pub(super) is_memory: bool,
    /// Content of the file, which is a list of edges.
    pub(super) bytes: Vec<u8>,
}
