//! Compares exit codes with the tables of the specification. This file is not packaged, as they are not.

use super::*;

/// Returns the first column and the column `exit` of a table of the specification.
fn listed(header: &str, exit: usize) -> Vec<String> {
    let specification = include_str!("../../../../docs/specs/tree.md");
    let (_, table) = specification.split_once(header).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    cells.map(|row| format!("{} {}", row[1], row[exit])).collect()
}

#[test]
fn specification_lists_exit_codes_of_tree_errors() {
    let known = ErrorKind::ALL.iter().map(|kind| format!("`{kind}` {}", kind_code(*kind)));
    assert_eq!(listed("| kind | errno | HTTP | exit | when |", 4), known.collect::<Vec<_>>());
}

#[test]
fn specification_lists_exit_codes_of_other_errors() {
    use KvCode::{
        IdempotencyMismatch, InvalidGlob, InvalidPath, PathConflict, ReservedPath, TooLarge, Validation,
    };
    let host = |kind: io::ErrorKind| (host_kind(kind), Failure::Host(PathBuf::new(), kind.into()).code());
    let mut known = vec![
        ("usage", Failure::Usage(String::new()).code()),
        host(io::ErrorKind::PermissionDenied),
        host(io::ErrorKind::AddrInUse),
    ];
    for code in
        [Validation, InvalidPath, InvalidGlob, ReservedPath, PathConflict, TooLarge, IdempotencyMismatch]
    {
        // A new code fails to compile until it is added here.
        match code {
            Validation
            | InvalidPath
            | InvalidGlob
            | ReservedPath
            | PathConflict
            | TooLarge
            | IdempotencyMismatch
            | KvCode::FileSystem(_) => {}
        }
        known.push((code.as_str(), kv_code(code)));
    }
    let of_tree = |name: &str| ErrorKind::ALL.iter().any(|kind| kind.as_str() == name);
    known.retain(|(name, _)| !of_tree(name));
    let known: Vec<String> = known.iter().map(|(name, exit)| format!("`{name}` {exit}")).collect();
    assert_eq!(listed("\n| kind | exit | when |", 2), known);
}

#[test]
fn host_errors_have_exit_codes_of_tree_errors() {
    use io::ErrorKind as Host;
    for kind in [
        Host::NotFound,
        Host::AlreadyExists,
        Host::NotADirectory,
        Host::IsADirectory,
        Host::DirectoryNotEmpty,
        Host::StorageFull,
        Host::Other,
    ] {
        let of_tree = ErrorKind::ALL.iter().find(|known| known.as_str() == host_kind(kind)).unwrap();
        let code = Failure::Host(PathBuf::new(), kind.into()).code();
        assert_eq!(code, kind_code(*of_tree), "{kind:?}");
    }
}
