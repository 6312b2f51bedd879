//! Account to recall from: a tree, and the places of its memories.

use crate::memory::Uri;
use garth_engine::env::Env;
use garth_engine::fs::FileSystem;
use garth_engine::path::TreePath;

/// Handle to recall from one account.
///
/// ```
/// use garth::memory::{Memories, Put};
/// use garth_agent::recall::{Key, Recall, Recaller};
/// use garth::Env;
///
/// # futures::executor::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let data = garth::builder().open(&folder.path().join("data"))?;
/// data.create_account("default").await?;
/// let account = data.account("default").await?;
/// let coffee = "ctx://default/users/alice/memories/preferences/coffee".parse()?;
/// let memories = Memories::new(&account, "default");
/// memories.put(&coffee, &Put::new("Alice likes her coffee black. She has two a day.\n")).await?;
///
/// let recaller = Recaller::new(&account, "default");
/// let key = Key::random(&Env::system())?;
/// let asked = Recall::new("how does Alice take her coffee").budget(500);
/// let answer = recaller.recall(&asked, &key).await?;
/// assert_eq!(answer.items[0].source, coffee.to_string());
/// assert!(answer.tokens <= 500);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Recaller<'a> {
    pub(super) fs: &'a dyn FileSystem,
    account: String,
    pub(super) env: Env,
    /// Directories of the account with their paths in `fs`, if these differ.
    places: Option<Vec<(TreePath, TreePath)>>,
}

impl<'a> Recaller<'a> {
    /// Returns a handle to recall from the tree of `account`.
    pub fn new(fs: &'a dyn FileSystem, account: &str) -> Self {
        Self { fs, account: account.to_owned(), env: Env::system(), places: None }
    }

    /// Sets the clock, the randomness and the threads to compute on. The default is those of the machine.
    #[must_use]
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Sets the directories of the account's tree that a view contains: the path of each in the view, and in
    /// the account.
    #[must_use]
    pub fn places(self, places: Vec<(TreePath, TreePath)>) -> Self {
        Self { places: Some(places), ..self }
    }

    /// Returns the memory in a directory of the view.
    pub(super) fn memory_at(&self, dir: &TreePath) -> Option<Uri> {
        let Some(places) = &self.places else { return Uri::of_dir(&self.account, dir) };
        let dir = places.iter().find_map(|(shown, own)| dir.rebase(shown, own))?.ok()?;
        Uri::of_dir(&self.account, &dir)
    }
}
