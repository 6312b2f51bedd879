//! Calls on one node, and on the tree as a whole.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use garth_engine::model::{Entry, Seq};
use garth_engine::{Capabilities, FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::address::Address;
use super::log_position::check_since;
use super::paging::Past;
use super::top;
use crate::errors::Refusal;
use crate::fields::{MAX_INTEGER, fields, integer, path_field, string_of};
use crate::routes::call::Call;
use crate::routes::respond::raw;

/// Longest time that a call waits for a commit, in milliseconds.
const MAX_WAIT: u64 = 30_000;

fields! {
    /// Returns the abilities of a tree at a path.
    pub(crate) struct CapabilitiesFields<'a> {
        /// Path, which need not exist. Default: `/`, or the prefix of the key.
        path: Option<Cow<'a, str>> = string_of("path");
        ..past: Past;
    }
}

pub(in crate::routes) async fn capabilities(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: CapabilitiesFields<'_>,
) -> Result<Value, Refusal> {
    let path = match &fields.path {
        Some(path) => path_field("path", path)?,
        None => top(call).cloned().unwrap_or_else(TreePath::root),
    };
    let fs = fields.past.of(fs, call).await?;
    Ok(json!(CapabilitiesAnswer { capabilities: fs.capabilities(&path) }))
}

/// Abilities of a tree at a path.
#[derive(Serialize, JsonSchema)]
pub(in crate::routes) struct CapabilitiesAnswer {
    /// Abilities.
    capabilities: Capabilities,
}

fields! {
    /// Returns the last commit.
    pub(crate) struct HeadFields<'a> {
        ..past: Past;
    }
}

pub(in crate::routes) async fn head(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: HeadFields<'_>,
) -> Result<Value, Refusal> {
    let head = fields.past.of(fs, call).await?.head().await?;
    Ok(json!(head))
}

fields! {
    /// Waits until there is a commit after another one. The body has at most 4 KiB.
    pub(crate) struct WaitFields<'a> {
        /// Sequence of the commit after which to wait.
        since: u64 = integer(0, MAX_INTEGER);
        /// Milliseconds after which the call returns the last commit, whatever it is.
        wait_ms: u64 = integer(0, MAX_WAIT);
    }
}

pub(in crate::routes) async fn wait(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: WaitFields<'_>,
) -> Result<Value, Refusal> {
    check_since(Seq(fields.since), fs.head().await?.seq)?;
    let woken = tokio::select! {
        biased;
        woken = fs.wait(Seq(fields.since)) => Some(woken?),
        () = sleep(Duration::from_millis(fields.wait_ms)) => None,
        () = call.stopping.stopped() => None,
    };
    let head = match woken {
        Some(head) => head,
        None => fs.head().await?,
    };
    Ok(json!(head))
}

fields! {
    /// Makes every commit acknowledged so far durable, and returns the last of them.
    pub(crate) struct SyncFields<'a> {}
}

pub(in crate::routes) async fn sync(
    fs: &Arc<dyn FileSystem>,
    _: &Call<'_>,
    _: SyncFields<'_>,
) -> Result<Value, Refusal> {
    let seq = fs.sync().await?;
    Ok(json!(SyncAnswer { seq }))
}

/// Answer of `sync`.
#[derive(Serialize, JsonSchema)]
pub(in crate::routes) struct SyncAnswer {
    /// Last durable commit.
    seq: Seq,
}

fields! {
    /// Returns a node.
    pub(crate) struct StatFields<'a> {
        ..address: Address;
        ..past: Past;
    }
}

pub(in crate::routes) async fn stat(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: StatFields<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let fs = fields.past.of(fs, call).await?;
    let (path, entry) = fields.address.of(call).stat(&*fs).await?;
    raw(&Node { path, entry })
}

/// Node, with its path if it was addressed by one.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StatAnswer")]
pub(in crate::routes) struct Node {
    /// Path without links; missing if the node was not addressed by a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<TreePath>,
    /// Node.
    entry: Entry,
}
