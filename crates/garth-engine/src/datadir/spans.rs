//! Tests of the log: events of the engine's own threads name the account.

use std::sync::Arc;

use futures::executor::block_on;
use garth_testkit::logs::{Logged, all_text, capture, logged};

use super::DataDir;
use crate::env::Env;
use crate::error::ErrorKind;
use crate::fs::{AccountStore, FileSystemExt as _};
use crate::runtime::failpoint::Failure;

const CONTENT: &str = "the canary of a file's content";

fn opened(accounts: &[&str]) -> (tempfile::TempDir, DataDir, Vec<Arc<dyn AccountStore>>) {
    capture();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = DataDir::open(&folder.path().join("data"), Env::system(), crate::rule::sample::registry())
        .expect("a data folder");
    let open = |account: &&str| {
        block_on(data.create_account(account)).expect("an account");
        block_on(data.account(account)).expect("an account")
    };
    let trees = accounts.iter().map(open).collect();
    (folder, data, trees)
}

/// Returns the accounts that events with this text name, in order.
fn accounts(text: &str, of: &[&str]) -> Vec<String> {
    let account = |event: Logged| event.field("account").map(str::to_owned);
    logged(text).into_iter().filter_map(account).filter(|account| of.contains(&account.as_str())).collect()
}

#[test]
fn failed_commits_are_logged_under_their_account() {
    let names = ["commit-one", "commit-two"];
    let (_folder, data, trees) = opened(&names);
    for tree in trees.iter().rev() {
        data.folder.runtime.failpoints().arm("before-commit", Failure::Io, 0);
        assert!(block_on(tree.write("/f", CONTENT)).unwrap_err().is(ErrorKind::Io));
    }
    assert_eq!(accounts("a group of commits failed", &names), ["commit-two", "commit-one"]);
    let all = all_text();
    assert!(!all.contains(CONTENT), "{all}");
}
