//! Files as resources: each has a `garth://` URI. The list has the names at the top; the template reaches
//! all of them.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use garth_engine::compute::working;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::home::Scope;
use garth_engine::model::{At, ByteRange, Entry, Item, Page};
use garth_engine::{FileSystem, Name, TreePath};
use rmcp::model::{
    DIRECTORY_MIME_TYPE, ListResourcesResult, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate,
};

use super::hints::Unseen;
use super::line::shown;
use super::uri::{SCHEME, file_path, file_uri};
use crate::errors::{Code, Refusal};
use crate::routes::client::{Client, ClientCall};
use crate::routes::open;
use crate::routes::tree::Tree;

/// Limit on the bytes of a file that is read as a resource.
const MAX_FILE: u64 = 256 << 10;
/// Limit on the names of a page, and on those of a directory that is read.
const MAX_NAMES: usize = 500;

/// Returns the template of the URIs of all files.
pub(super) fn template() -> ResourceTemplate {
    ResourceTemplate::new(format!("{SCHEME}{{+path}}"), "file").with_title("File").with_description(
        "A file, or the names in a directory, by its absolute path: garth:///notes/today.md",
    )
}

/// Lists the names at the top, from a cursor on.
pub(super) async fn list(
    client: &Arc<Client>,
    cursor: Option<String>,
) -> Result<ListResourcesResult, Refusal> {
    let after = cursor.map(|cursor| Name::parse(&cursor).map_err(|_| Refusal::cursor())).transpose()?;
    let page = Page::<Name>::default().after(after).limit(MAX_NAMES).with_entries();
    let top = client.top();
    let at = At::from(top.clone());
    let listed = client.answer(ask("resources/list"), move |call| {
        Box::pin(async move {
            let fs = open::reach(call, Tree::Files).await?.files().await?;
            let found = fs.list(&at, &page).await?;
            Ok(found)
        })
    });
    let found = listed.await?;
    let next = found.items.last().filter(|_| found.more).map(|item| item.name.to_string());
    let resources: Vec<Resource> = found.items.iter().filter_map(|item| resource(&top, item)).collect();
    Ok(ListResourcesResult { next_cursor: next, ..ListResourcesResult::with_all_items(resources) })
}

/// Reads a file, or the names in a directory. Links are followed.
pub(super) async fn read(
    client: &Arc<Client>,
    uri: String,
    unseen: Unseen,
) -> Result<ReadResourceResult, Refusal> {
    let path = file_path(&uri).ok_or_else(|| {
        let message = "\"uri\" must be a percent-encoded `garth:///{path}`, such as garth:///notes/today.md";
        Refusal::validation(message)
    })?;
    let read = client.answer(ask("resources/read"), move |call| {
        Box::pin(async move {
            let fs = open::reach(call, Tree::Files).await?.files().await?;
            let read = read_path(&*fs, &path, uri, &unseen).await;
            read.map_err(Refusal::naming_path)
        })
    });
    Ok(ReadResourceResult::new(vec![read.await?]))
}

async fn read_path(
    fs: &dyn FileSystem,
    path: &TreePath,
    uri: String,
    unseen: &Unseen,
) -> Result<ResourceContents, Refusal> {
    let (path, entry) = resolve::stat(fs, path.as_str(), Follow::Yes).await?;
    if entry.is_dir() {
        return names(fs, &path, uri, unseen).await;
    }
    // One byte more than the limit shows that a file is longer, also one that grows meanwhile.
    let range = ByteRange { offset: 0, length: MAX_FILE + 1 };
    let read = |path: TreePath| async move { fs.fetch(&At::Path(path), range).await };
    let (entry, bytes): (Entry, Bytes) = resolve::retry(fs, path.as_str(), Follow::Yes, read).await?;
    if bytes.len() as u64 > MAX_FILE {
        let message = format!("this file has {} bytes, and a resource at most {MAX_FILE}", entry.size);
        let hint = "read parts of it with `read_file`";
        return Err(Refusal::new(Code::PayloadTooLarge, message).hinting(hint));
    }
    Ok(contents(uri, path.name(), entry.attributes.content_type.as_deref(), &bytes))
}

/// Returns the names in a directory, one on each line. Those of directories end with `/`.
async fn names(
    fs: &dyn FileSystem,
    path: &TreePath,
    uri: String,
    unseen: &Unseen,
) -> Result<ResourceContents, Refusal> {
    let page = Page::<Name>::default().limit(MAX_NAMES).with_entries();
    let found = fs.list(&At::from(path.clone()), &page).await?;
    let mut text = String::new();
    for item in &found.items {
        let is_dir = item.entry.as_ref().is_some_and(|entry| entry.is_dir());
        text.push_str(&shown(item.name.as_str()));
        text.push_str(if is_dir { "/\n" } else { "\n" });
    }
    if found.more {
        text.push_str("... and more");
        if let Some(hint) = unseen.hint("list them with `ls`") {
            text.push_str("; ");
            text.push_str(&hint);
        }
        text.push('\n');
    }
    Ok(ResourceContents::text(text, uri))
}

/// Returns the contents of a file: text, or base64 for bytes that are not text.
pub(super) fn contents(
    uri: String,
    name: Option<&str>,
    content_type: Option<&str>,
    bytes: &[u8],
) -> ResourceContents {
    working(bytes.len());
    let (contents, usual) = match std::str::from_utf8(bytes) {
        Ok(text) => (ResourceContents::text(text, uri), type_of(name)),
        Err(_) => (ResourceContents::blob(STANDARD.encode(bytes), uri), "application/octet-stream"),
    };
    contents.with_mime_type(content_type.unwrap_or(usual))
}

/// Returns the type of a text, by the end of its name.
fn type_of(name: Option<&str>) -> &'static str {
    match name.and_then(|name| name.rsplit_once('.')).map(|(_, end)| end) {
        Some("md") => "text/markdown",
        Some("json") => "application/json",
        _ => "text/plain",
    }
}

fn resource(top: &TreePath, item: &Item) -> Option<Resource> {
    let entry = item.entry.as_ref()?;
    let resource = Resource::new(file_uri(&top.join(&item.name).ok()?), item.name.as_str());
    if entry.is_dir() {
        return Some(resource.with_mime_type(DIRECTORY_MIME_TYPE));
    }
    let mut resource = resource.with_size(entry.size);
    resource.mime_type.clone_from(&entry.attributes.content_type);
    Some(resource)
}

fn ask(name: &'static str) -> ClientCall {
    ClientCall::read(name, Tree::Files, &[Scope::FilesRead])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_text_are_base64() {
        let text = |name: &str| serde_json::to_value(contents("u".into(), Some(name), None, b"a")).unwrap();
        assert_eq!(text("a.md"), serde_json::json!({"uri": "u", "mimeType": "text/markdown", "text": "a"}));
        assert_eq!(text("a")["mimeType"], "text/plain");
        let blob = serde_json::to_value(contents("u".into(), Some("a"), Some("image/png"), &[0xff])).unwrap();
        assert_eq!(blob, serde_json::json!({"uri": "u", "mimeType": "image/png", "blob": "/w=="}));
    }
}
