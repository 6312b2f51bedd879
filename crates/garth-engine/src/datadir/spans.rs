//! Tests of the log: events of the engine's own threads name the account.

use std::sync::Arc;

use futures::executor::block_on;
use garth_testkit::logs::{Logged, all_text, capture, logged};

use super::DataDir;
use crate::env::Env;
use crate::error::ErrorKind;
use crate::fs::{AccountStore, FileSystemExt as _};
use crate::model::{Batch, Op};
use crate::path::TreePath;
use crate::runtime::failpoint::{CHECKPOINT, Failure};

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

#[test]
fn failed_checkpoints_are_logged_under_their_account() {
    let names = ["checkpoint-one", "checkpoint-two"];
    let (_folder, data, trees) = opened(&names);
    for (tree, name) in trees.iter().zip(names) {
        block_on(tree.write("/first", "x")).unwrap();
        data.folder.runtime.failpoints().arm(CHECKPOINT, Failure::Io, 0);
        // A checkpoint follows 2,048 pages of the log, 4 MiB. Content that repeats itself would be stored
        // once, and `write` would stage it outside the database.
        let mut state = 1_u64;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        let content: Vec<u8> = (0..5_000_000).map(|_| byte()).collect();
        let long = Op::write(TreePath::parse("/long").unwrap(), content);
        block_on(tree.commit(Batch::new([long]))).unwrap();
        // The checkpoint runs on a thread that all accounts share.
        while accounts("checkpoint failed", &[name]).is_empty() {
            std::thread::yield_now();
        }
    }
    assert_eq!(accounts("checkpoint failed", &names), names);
}
