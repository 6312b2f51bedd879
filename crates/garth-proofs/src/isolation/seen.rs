//! Results of calls, as text that is searched for canaries.

use std::fmt::Debug;

use garth_engine::model::{At, ByteRange, WalkPage};
use garth_engine::{FileSystem, Result, TreePath};

/// Results of calls, as text.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Results and errors of all calls.
    pub(super) text: String,
    /// Calls that were made.
    pub(super) calls: u64,
    /// Calls that were not rejected.
    pub(super) answered: u64,
}

impl Seen {
    /// Adds the result of a call.
    pub(super) fn told<T: Debug>(&mut self, answer: Result<T>) {
        self.calls += 1;
        self.answered += u64::from(answer.is_ok());
        self.text += &match answer {
            Ok(answer) => format!("{answer:?}\n"),
            Err(error) => format!("{error} {error:?}\n"),
        };
    }

    /// Adds another form of a result.
    pub(super) fn form(&mut self, text: &str) {
        self.text += text;
        self.text.push('\n');
    }

    /// Reads all files of a tree.
    pub(super) async fn files(&mut self, fs: &dyn FileSystem) {
        let root = At::Path(TreePath::root());
        let walk = fs.walk(&root, &WalkPage::default()).await;
        let items = walk.as_ref().map(|walk| walk.items.clone()).unwrap_or_default();
        // Fails in a past in which the root does not exist yet.
        self.told(walk.map(drop));
        for item in items {
            if let Ok((_, bytes)) = fs.fetch(&At::Path(item.path.clone()), ByteRange::ALL).await {
                self.calls += 1;
                self.form(&format!("{}: {}", item.path, String::from_utf8_lossy(&bytes)));
            }
        }
    }
}
