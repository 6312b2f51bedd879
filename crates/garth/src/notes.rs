//! STOPGAP until `Memories::remember` and `Memories::forget` are in garth-agent: then this file goes, and
//! `Chat::remember` and `Chat::forget` call them.

use garth_agent::Identity;
use garth_agent::memory::{Memories, Put, Uri, Written, sha256};
use garth_engine::error::Result;

pub(crate) async fn remember(
    memories: &Memories<'_>,
    who: &Identity,
    account: &str,
    text: &str,
) -> Result<Written> {
    let slug: String = sha256(text.as_bytes()).chars().take(12).collect();
    let uri: Uri = format!("ctx://{account}/users/{}/memories/entities/{slug}", who.audience()).parse()?;
    memories.put(&uri, &Put::new(text)).await
}

pub(crate) async fn forget(memories: &Memories<'_>, uri: &Uri) -> Result<()> {
    memories.delete(uri).await.map(drop)
}
