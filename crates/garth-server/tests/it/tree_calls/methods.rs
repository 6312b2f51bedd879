//! The calls of each method of a tree and of an account, so that no method is forgotten.

use std::collections::BTreeSet;

use garth_server::reference;

/// Answer of the API to a method: the paths of its calls, or the reason why it has none.
enum Served {
    By(&'static [&'static str]),
    Not(&'static str),
}

use Served::{By, Not};

const FILE_SYSTEM: [(&str, Served); 29] = [
    ("capabilities", By(&["/v1/tree/capabilities"])),
    ("head", By(&["/v1/tree/head"])),
    ("stat", By(&["/v1/tree/stat"])),
    ("names", By(&["/v1/tree/names"])),
    ("list", By(&["/v1/tree/list"])),
    ("walk", By(&["/v1/tree/walk"])),
    ("fetch", By(&["/v1/tree/fetch"])),
    ("fetch_many", By(&["/v1/tree/fetch-many"])),
    ("read", By(&["/v1/fs/{*path}", "/v1/tree/fetch"])),
    ("hold", Not("a request ends; what it held would be held for nobody")),
    ("open", By(&["/v1/fs/{*path}"])),
    ("open_version", By(&["/v1/fs/{*path}"])),
    ("history", By(&["/v1/tree/history"])),
    ("blame", By(&["/v1/tree/blame"])),
    ("changes", By(&["/v1/tree/changes"])),
    ("wait", By(&["/v1/tree/wait"])),
    ("as_of", By(&["/v1/tree/stat"])),
    ("confined", Not("the key and the names of a request decide what it reaches, never the request alone")),
    ("snapshots", By(&["/v1/tree/snapshots"])),
    ("search", By(&["/v1/tree/search"])),
    ("find", By(&["/v1/tree/find"])),
    ("admit", Not("each write and upload of bytes is judged before its body")),
    ("discard", By(&["/v1/uploads/discard"])),
    ("stage", By(&["/v1/uploads"])),
    ("commit", By(&["/v1/tree/commit", "/v1/batch"])),
    ("committed", By(&["/v1/tree/committed"])),
    ("recorded", Not("a repeat of the request under its `Idempotency-Key` answers it")),
    ("sync", By(&["/v1/tree/sync"])),
    ("view_base", Not("for views inside of the process")),
];

const ACCOUNT_STORE: [(&str, Served); 17] = [
    ("raw", Not("no request may see or change the data of garth itself")),
    ("overriding_rules", Not("no request may ask to violate rules; the command line can")),
    ("rules", By(&["/v1/admin/rules/list"])),
    ("set_rule", By(&["/v1/admin/rules/set"])),
    ("remove_rule", By(&["/v1/admin/rules/remove"])),
    ("gc", By(&["/v1/admin/accounts/collect"])),
    ("gc_dry_run", By(&["/v1/admin/accounts/collect"])),
    ("fsck", By(&["/v1/admin/accounts/check"])),
    ("reindex", By(&["/v1/admin/accounts/reindex"])),
    ("quotas", By(&["/v1/admin/quotas/list"])),
    ("set_quota", By(&["/v1/admin/quotas/set"])),
    ("remove_quota", By(&["/v1/admin/quotas/remove"])),
    ("retention", By(&["/v1/admin/retention/get"])),
    ("set_retention", By(&["/v1/admin/retention/set"])),
    ("replace_retention", By(&["/v1/admin/retention/set"])),
    ("usage", By(&["/v1/admin/usage"])),
    ("collect_next", Not("the server collects by itself what is due")),
];

/// Returns the names of the methods of a trait, from its source.
fn methods(source: &str, name: &str) -> BTreeSet<String> {
    let (_, body) = source.split_once(&format!("\npub trait {name}")).unwrap();
    let (body, _) = body.split_once("\n}\n").unwrap();
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let starts = lines.filter_map(|line| line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn ")));
    starts.map(|start| start.split(['(', '<']).next().unwrap().to_owned()).collect()
}

#[test]
fn each_method_has_a_call_or_a_reason() {
    let file_system = include_str!("../../../../garth-engine/src/fs/filesystem.rs");
    let store = include_str!("../../../../garth-engine/src/fs/store.rs");
    let calls: BTreeSet<&str> = reference::calls().iter().map(|call| call.path).collect();
    let of_files: Vec<&(&str, Served)> = FILE_SYSTEM.iter().collect();
    let of_account: Vec<&(&str, Served)> = ACCOUNT_STORE.iter().collect();
    for (name, methods, listed) in [
        ("FileSystem", methods(file_system, "FileSystem"), of_files),
        ("AccountStore", methods(store, "AccountStore"), of_account),
    ] {
        let known: BTreeSet<String> = listed.iter().map(|(method, _)| (*method).to_owned()).collect();
        assert_eq!(known, methods, "{name}: list the call of each method, or why it has none");
        for (method, served) in listed {
            match served {
                By(paths) => {
                    for path in *paths {
                        assert!(calls.contains(path), "{method}: {path} is no call");
                    }
                }
                Not(reason) => assert!(!reason.is_empty(), "{method}"),
            }
        }
    }
}
