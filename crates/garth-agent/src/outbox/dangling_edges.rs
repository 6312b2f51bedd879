//! Edges to the old URI of a memory that was moved or removed. The commit of the move rewrote as many as fit;
//! the worker rewrites the rest before it delivers the event.

use super::claim::{batch, is_lost};
use super::queued::{Queued, memory_state};
use crate::memory::write_ops::{upsert_relation, write_event};
use crate::memory::{EventType, RELATIONS, Uri, edge};
use crate::registry::projections;
use crate::small_file::is_no_file;
use garth_engine::env::Env;
use garth_engine::error::{ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Batch, ByteRange, FindQuery, Op, Precondition, Seq};
use garth_engine::path::TreePath;

/// Limit on the memories whose edges are rewritten in one call, so that other events are not delayed.
pub(super) const STEP: usize = 1000;

/// Limit on the memories whose edges are rewritten in one commit.
const AT_ONCE: usize = 50;

/// Rewrites edges to the URI that an event has ended, in up to [`STEP`] memories. Returns true if none are
/// left.
pub(super) async fn end(fs: &dyn FileSystem, env: &Env, account: &str, event: &Queued) -> Result<bool> {
    let old = &event.event.uri;
    let new = event.uris.get(1).filter(|_| event.event.event_type == EventType::MoveContext);
    // A newer memory under that URI has edges of its own, written after the event.
    let is_taken = match old.parse::<Uri>() {
        Ok(uri) => memory_state(fs, &uri.dir()).await?.is_some(),
        Err(_) => return Ok(true),
    };
    let until = is_taken.then(|| event.seq());
    let (mut after, mut looked) = (None, 0);
    loop {
        let query = FindQuery::new(projections::RELATION_TARGET).equal(old).limit(AT_ONCE);
        let answer = fs.find(&query.after(after)).await?;
        looked += answer.items.len();
        let files: Vec<TreePath> = answer.items.into_iter().map(|item| item.path).collect();
        let ending = Ending { account, old, new: new.map(String::as_str), until };
        // One changed file fails the whole commit. One by one, only that file is left, and its new content is
        // found again.
        if !rewrite(fs, env, &ending, &files).await? {
            for file in &files {
                rewrite(fs, env, &ending, std::slice::from_ref(file)).await?;
            }
        }
        after = answer.next;
        if after.is_none() {
            return Ok(true);
        }
        if looked >= STEP {
            return Ok(false);
        }
    }
}

/// Edges to rewrite.
struct Ending<'a> {
    account: &'a str,
    old: &'a str,
    /// New URI; without one, the edges are removed.
    new: Option<&'a str>,
    /// Only files written up to this commit are changed.
    until: Option<Seq>,
}

/// Rewrites some files in one commit. Returns false if one of them changed in between.
async fn rewrite(fs: &dyn FileSystem, env: &Env, ending: &Ending<'_>, files: &[TreePath]) -> Result<bool> {
    let mut batch = batch().message("end edges");
    for file in files {
        batch = rewritten(fs, env, ending, file, batch).await?;
    }
    if batch.ops.is_empty() {
        return Ok(true);
    }
    match fs.commit(batch).await {
        Ok(_) => Ok(true),
        Err(error) if is_lost(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Adds to a batch the write that ends the edges of a file, and an event of its memory.
async fn rewritten(
    fs: &dyn FileSystem,
    env: &Env,
    ending: &Ending<'_>,
    file: &TreePath,
    batch: Batch,
) -> Result<Batch> {
    let Some(dir) = file.parent().filter(|_| file.name() == Some(RELATIONS)) else { return Ok(batch) };
    let (entry, bytes) = match fs.fetch(&At::from(file), ByteRange::ALL).await {
        Ok(found) => found,
        Err(error) if is_no_file(&error) || error.is(ErrorKind::TooLarge) => return Ok(batch),
        Err(error) => return Err(error),
    };
    let is_later = ending.until.is_some_and(|until| entry.etag.seq > until);
    let Some(entries) = serde_json::from_slice(&bytes).ok().filter(|_| !is_later) else { return Ok(batch) };
    let Some(entries) = edge::redirected(entries, ending.old, ending.new) else { return Ok(batch) };
    let text = edge::to_json(&entries)?;
    let edges = edge::parse(text.as_bytes());
    let mut batch =
        batch.require(file, Precondition::Etag(entry.etag)).op(Op::write(file, text).must_exist());
    let is_active = memory_state(fs, &dir).await?.is_some_and(|memory| memory.is_active);
    if let (Ok(edges), Some(uri), true) = (edges, Uri::of_dir(ending.account, &dir), is_active) {
        batch = batch.op(write_event(&uri, &upsert_relation(env, &uri, &edges)?)?);
    }
    Ok(batch)
}
