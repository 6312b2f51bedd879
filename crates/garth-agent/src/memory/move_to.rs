//! Moves a memory to another URI, with its history and the edges that lead to it.

use super::event::{Event, EventType, Payload};
use super::file_names::{META, RELATIONS};
use super::meta::{Meta, seconds};
use super::remove::Incoming;
use super::state::State;
use super::uri::Uri;
use super::write_ops::{upsert_relation, write_event};
use super::{Memories, edge};
use crate::boxed;
use crate::once::PENDING;
use crate::retry::retry;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{Op, Seq};

impl Memories<'_> {
    /// Moves a memory to another URI, in one commit. The edges that lead to it follow, up to 10,000 in the
    /// same commit and the others before its event is delivered; until then a read of the old URI fails with
    /// the new one.
    ///
    /// # Errors
    /// - `InvalidArgument`: an unknown category, or a memory that would become a skill.
    /// - `AccessDenied`: a URI is of another account.
    /// - `NotFound`: the memory does not exist.
    /// - `AlreadyExists`: the new URI is taken.
    /// - Errors of the filesystem.
    #[boxed]
    pub async fn move_to(&self, from: &Uri, to: &Uri) -> Result<Seq> {
        for uri in [from, to] {
            self.check(uri)?;
            self.check_change(uri)?;
        }
        if from == to {
            return Err(Error::invalid(format!("{from}: source and destination are the same")));
        }
        if from.is_skill() != to.is_skill() {
            let message =
                format!("{from}: a skill cannot become a memory, or the reverse; put {to} and delete {from}");
            return Err(Error::invalid(message));
        }
        self.once.run(retry(|| self.move_once(from, to))).await
    }

    async fn move_once(&self, from: &Uri, to: &Uri) -> Result<Seq> {
        let state = State::read(self.fs, from).await?;
        let Some(before) = state.active() else { return Err(self.missing(from).await) };
        let now = self.env.now();
        let about = Meta::new(to, now);
        let meta = Meta {
            uri: about.uri,
            category: about.category,
            owner_space: about.owner_space,
            version: before.version.saturating_add(1),
            updated_at: seconds(now),
            ..before
        };
        let payload = Payload { new_uri: Some(to.to_string()), ..Payload::default() };
        let event = Event::new(&self.env, EventType::MoveContext, &from.to_string(), payload)?;
        let (dir, mut conditions) = (to.dir(), state.unchanged());
        let mut ops = Vec::new();
        // Events of the old owner in the new owner's directory would be rejected there.
        if from.space() != to.space() {
            self.take_events_out(from, &mut ops, &mut conditions).await?;
        }
        ops.extend(dir.parent().map(Op::mkdir_all));
        ops.push(Op::rename(from.dir(), dir).no_replace());
        let edges = state.edges().unwrap_or_default();
        if !edges.is_empty() {
            let own = to.to_string();
            let edges: Vec<_> =
                edges.into_iter().map(|edge| edge::Edge { from_uri: own.clone(), ..edge }).collect();
            ops.push(Op::write(to.file(RELATIONS), edge::to_json(&edges)?));
            ops.push(write_event(to, &upsert_relation(&self.env, to, &edges)?)?);
        }
        let new = to.to_string();
        self.rewrite(from, &Incoming::To(&new), &mut ops, &mut conditions).await?;
        // The meta names the new URI and completes the move. A batch that is cut short, on a host folder, has
        // done all else before.
        ops.push(write_event(to, &event)?);
        ops.push(Op::write(to.file(META), meta.to_json()?));
        if from.space() != to.space() {
            // Records name the owner, so those of the old one are outdated.
            ops.push(write_event(to, &self.upsert(&state, to, &meta)?)?);
        }
        let batch = self.batch(ops, conditions).message(format!("move {from} to {to}"));
        self.once.commit(self.fs, batch, PENDING).await.map_err(|error| {
            match error.is(ErrorKind::AlreadyExists) {
                true => Error::new(ErrorKind::AlreadyExists, format!("{to}: already exists")),
                false => error,
            }
        })
    }
}
