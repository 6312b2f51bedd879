//! Prints the content of files: as it is, or in a JSON object.

use std::sync::Arc;

use futures::TryStreamExt;
use garth_engine::model::ByteRange;
use garth_engine::{Error, ErrorKind, OpenFile, TreePath};
use serde_json::json;

use crate::app::App;
use crate::fail::Result;
use crate::out::base64;

/// Longest content in bytes that is printed as JSON, 64 MiB: it is held in memory.
const MAX_JSON: u64 = 64 << 20;

/// Prints `range` of an open file. `path` is its path in the tree, if it has one.
pub(crate) async fn print(
    app: &mut App,
    path: Option<&TreePath>,
    file: Arc<dyn OpenFile>,
    range: ByteRange,
) -> Result {
    if app.out.is_json() {
        return print_json(app, path, file, range).await;
    }
    let mut chunks = std::pin::pin!(file.stream(range));
    while let Some(chunk) = chunks.try_next().await? {
        app.out.bytes(&chunk)?;
    }
    Ok(())
}

async fn print_json(
    app: &mut App,
    path: Option<&TreePath>,
    file: Arc<dyn OpenFile>,
    range: ByteRange,
) -> Result {
    let entry = file.stat().await?;
    let length = entry.size.saturating_sub(range.offset).min(range.length);
    if length > MAX_JSON {
        let message = format!("longer than {MAX_JSON} bytes; print it without --json");
        return Err(match path {
            Some(path) => Error::at(ErrorKind::TooLarge, path, message),
            None => Error::new(ErrorKind::TooLarge, message),
        }
        .into());
    }
    let mut content = Vec::new();
    let mut chunks = std::pin::pin!(file.stream(range));
    while let Some(chunk) = chunks.try_next().await? {
        content.extend_from_slice(&chunk);
    }
    let (encoding, content) = match String::from_utf8(content) {
        Ok(text) => ("utf-8", text),
        Err(bytes) => ("base64", base64(bytes.as_bytes())),
    };
    let json = json!({
        "path": path.map(TreePath::as_str), "version": entry.version.to_string(), "size": entry.size,
        "offset": range.offset, "encoding": encoding, "content": content,
    });
    app.out.item(&json, "")
}
