//! Memories for tests, and the engines that support them.

use std::sync::Arc;

use garth_agent::memory::{Edge, Memories, Uri};
use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::{Env, FileSystem};

use super::homes::{Kept, account};

pub(super) fn uri(text: &str) -> Uri {
    format!("ctx://default/{text}").parse().unwrap()
}

pub(super) fn coffee() -> Uri {
    uri("users/alice/memories/preferences/coffee")
}

pub(super) fn edge(from: &Uri, to: &Uri) -> Edge {
    let text = format!(
        r#"{{"from_uri":"{from}","to_uri":"{to}","relation_type":"related_to","weight":0.5,"reason":"r"}}"#
    );
    serde_json::from_str(&text).unwrap()
}

/// Returns the engines, with what they need while in use.
pub(super) async fn engines() -> Vec<(Arc<dyn FileSystem>, Kept)> {
    let ((account, kept), host) = (account().await, tempfile::tempdir().unwrap());
    let on_host = HostFs::open(host.path(), Mode::Writable, Env::system()).unwrap();
    vec![
        (account, kept),
        (Arc::new(MemoryFs::new(Env::system(), garth_agent::registry())), Box::new(())),
        (on_host, Box::new(host)),
    ]
}

pub(super) fn memories(fs: &dyn FileSystem) -> Memories<'_> {
    Memories::new(fs, "default")
}
