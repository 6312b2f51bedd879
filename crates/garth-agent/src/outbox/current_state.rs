//! Events that carry the current state of memories: for indexes that are set up later, and as replacement of
//! outdated events.

use crate::memory::event::Payload;
use crate::memory::write_ops::{upsert, upsert_relation, write_event, write_event_of_account};
use crate::memory::{Event, EventType, State, Uri};
use garth_engine::env::Env;
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::Batch;

/// Adds to a batch the events with the current state of a memory. Returns `None` if it does not exist, or has
/// no text that can be delivered.
pub(super) async fn tell(fs: &dyn FileSystem, env: &Env, uri: &Uri, batch: &Batch) -> Result<Option<Batch>> {
    let state = State::read(fs, uri).await?;
    let content = state.content.as_ref().and_then(|file| file.text());
    let (Some(meta), Some(content)) = (state.active(), content) else { return Ok(None) };
    let layer = |file: &Option<crate::memory::File>| {
        let text = file.as_ref().and_then(|file| file.text()).unwrap_or_default();
        text.trim_end_matches('\n').to_owned()
    };
    let layers = [&*layer(&state.brief), &*layer(&state.overview), content];
    let mut batch = batch.clone();
    // The commit fails if the memory changes after this read, so the events never carry older state.
    batch.preconditions.extend(state.unchanged());
    batch = batch.op(write_event(uri, &upsert(env, uri, &meta, layers)?)?);
    if let Some(edges) = state.edges().filter(|edges| !edges.is_empty()) {
        batch = batch.op(write_event(uri, &upsert_relation(env, uri, &edges)?)?);
    }
    Ok(Some(batch))
}

/// Adds to a batch the events with the current state of any URI. For one without a memory that is a deletion.
pub(super) async fn write_current_state(
    fs: &dyn FileSystem,
    env: &Env,
    uri: &Uri,
    batch: Batch,
) -> Result<Batch> {
    if let Some(batch) = tell(fs, env, uri, &batch).await? {
        return Ok(batch);
    }
    let event = Event::new(env, EventType::DeleteContext, &uri.to_string(), Payload::default())?;
    Ok(batch.op(write_event_of_account(&event)?))
}
