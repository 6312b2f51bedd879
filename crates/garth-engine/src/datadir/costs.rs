//! Costs of accounts, keys and the tree of an account in steps of the virtual machine of SQLite, next to few
//! and next to many other accounts. `docs/semantics.md` has the table.

use std::collections::BTreeMap;

use futures::executor::block_on;
use futures::future::try_join_all;
use tempfile::TempDir;

use super::DataDir;
use crate::env::Env;
use crate::fs::FileSystemExt as _;
use crate::home::{Home as _, KeysPage, Scope};
use crate::model::{ByteRange, Page, SearchQuery};
use crate::path::TreePath;
use crate::sqlite::steps;

/// Other accounts: few and many. Each has an open tree, a file and a key.
const FEW: usize = 10;
const MANY: usize = 200;

/// Steps that background work may add to a call. Looking at each account would take many more.
const NOISE: u64 = 100;

/// Creates a data folder with an account `mine` among others.
fn data(others: usize) -> (TempDir, DataDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = DataDir::open(&folder.path().join("data"), Env::system(), crate::rule::sample::registry())
        .expect("a data folder");
    // Ids that sort before and after `mine`, so that a scan in either direction is noticed.
    let before = (0..others / 2).map(|n| format!("before-{n}"));
    let behind = (0..others / 2).map(|n| format!("other-{n}"));
    let made = before.chain(["mine".to_owned()]).chain(behind).map(|id| {
        let data = &data;
        async move {
            data.create_account(&id).await?;
            data.control().create_key(&id, "a key", &[Scope::MemoryRead]).await?;
            data.account(&id).await?.write("/note", "the words of a note\n").await
        }
    });
    block_on(try_join_all(made)).expect("accounts");
    (folder, data)
}

fn costs(others: usize) -> BTreeMap<&'static str, u64> {
    let (home, data) = data(others);
    let control = data.control();
    let folder = block_on(control.account("mine")).expect("an account").folder;
    let (key, secret) =
        block_on(control.create_key("mine", "another key", &[Scope::MemoryRead])).expect("a key");
    let token = secret.reveal();
    let note = TreePath::parse("/note").expect("a path").into();
    let tree = block_on(data.account("mine")).expect("a tree");
    let mut costs = BTreeMap::new();
    let mut count = |name, call: &dyn Fn(u32) -> crate::Result<()>| {
        costs.insert(name, steps::of_call(|n| call(n).expect("an answer")));
    };
    count("look an account up", &|_| block_on(control.account("mine")).map(drop));
    count("an account that is open", &|_| block_on(data.account("mine")).map(drop));
    count("authenticate", &|_| block_on(control.authenticate(token)).map(|key| assert!(key.is_some())));
    count("admit and open", &|_| {
        let admitted = block_on(data.admit(token))?.expect("it is right");
        block_on(data.open_admitted(&admitted)).map(drop)
    });
    count("keys", &|_| {
        block_on(control.keys(Some("mine"), &KeysPage::default())).map(|keys| assert_eq!(keys.items.len(), 2))
    });
    count("head", &|_| block_on(tree.head()).map(drop));
    count("stat", &|_| block_on(tree.stat(&note)).map(drop));
    count("fetch", &|_| block_on(tree.fetch(&note, ByteRange::ALL)).map(drop));
    count("list", &|_| block_on(tree.list(&TreePath::root().into(), &Page::default())).map(drop));
    count("search", &|_| block_on(tree.search(&SearchQuery::new("words").limit(5))).map(drop));
    count("write", &|n| block_on(tree.write("/new", format!("{n}\n"))).map(drop));
    count("sync", &|_| block_on(tree.sync()).map(drop));
    count("make a key", &|_| block_on(control.create_key("mine", "new", &[Scope::MemoryRead])).map(drop));
    count("revoke a key", &|_| block_on(control.revoke_key(Some("mine"), &key.id)).map(drop));
    count("make an account", &|n| block_on(data.create_account(&format!("new-{n}"))).map(drop));
    count("delete an account", &|n| block_on(data.delete_account(&format!("new-{n}"))));
    drop(tree);
    count("open", &|_| {
        // Closes the tree, so that the call has to open it.
        data.folder.trees.forget(&folder);
        block_on(data.account("mine")).map(drop)
    });
    drop(data);
    let path = home.path().join("data");
    costs.insert(
        "open the folder",
        steps::of_call(|_| drop(DataDir::open(&path, Env::system(), crate::rule::sample::registry()))),
    );
    costs
}

#[test]
fn call_costs_do_not_grow_with_accounts() {
    let [few, many] = [FEW, MANY].map(costs);
    let dearer = |(call, steps): &(&&str, &u64)| **steps > few[**call] + NOISE;
    let dearer: Vec<_> = many.iter().filter(dearer).collect();
    assert!(dearer.is_empty(), "{dearer:?} beside {MANY}, {few:?} beside {FEW}");
}
