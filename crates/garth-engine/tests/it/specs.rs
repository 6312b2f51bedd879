//! Agreement of the pages in `docs/specs` with the code: kinds of errors and limits.

use garth_engine::ErrorKind;
use garth_engine::fs::resolve::MAX_SYMLINKS;
use garth_engine::fs::restore::MAX_COMPARED;
use garth_engine::model::{
    MAX_ATTRIBUTES, MAX_BLAME, MAX_CHANGE_PATHS, MAX_CHANGES_BYTES, MAX_COPIED_NAMES, MAX_COPIED_PIECES,
    MAX_CUTS, MAX_ETAGS, MAX_EXAMINED, MAX_FILE, MAX_HASHED, MAX_INLINE_BODY, MAX_LABEL, MAX_LINKS,
    MAX_NEW_NAMES, MAX_NEW_PATH_BYTES, MAX_NOTE, MAX_OPS, MAX_OWNER, MAX_PAGE, MAX_PAGE_BYTES, MAX_READ,
    MAX_SCANNED, MAX_SET_ATTRIBUTES, MAX_SUBTREES, MAX_TARGET,
};
use garth_engine::path::{MAX_ID, MAX_NAME, MAX_PATH, MAX_STORED_PATH};

const TREE: &str = include_str!("../../../../docs/specs/tree.md");

/// Returns the cells of the rows of a table.
fn rows(head: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let (_, table) = TREE.split_once(head).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
}

#[test]
fn specification_lists_all_error_kinds() {
    let listed: Vec<String> = rows("| kind | errno | HTTP | exit | when |")
        .map(|row| format!("{} {}", row[0], row[1].rsplit(' ').next().unwrap()))
        .collect();
    let known: Vec<String> = ErrorKind::ALL.iter().map(|kind| format!("`{kind}` {}", kind.errno())).collect();
    assert_eq!(listed, known);
}

#[test]
fn specification_lists_all_limits() {
    let listed: Vec<(String, u64)> = rows("| constant | limit | of | error |")
        .map(|row| (row[0].trim_matches('`').to_owned(), row[1].replace(',', "").parse().unwrap()))
        .collect();
    let known = [
        ("MAX_NAME", MAX_NAME as u64),
        ("MAX_PATH", MAX_PATH as u64),
        ("MAX_STORED_PATH", MAX_STORED_PATH as u64),
        ("MAX_ID", MAX_ID as u64),
        ("MAX_TARGET", MAX_TARGET as u64),
        ("MAX_SYMLINKS", MAX_SYMLINKS as u64),
        ("MAX_LINKS", MAX_LINKS),
        ("MAX_FILE", MAX_FILE),
        ("MAX_ATTRIBUTES", MAX_ATTRIBUTES as u64),
        ("MAX_LABEL", MAX_LABEL as u64),
        ("MAX_NOTE", MAX_NOTE as u64),
        ("MAX_OWNER", MAX_OWNER as u64),
        ("MAX_OPS", MAX_OPS as u64),
        ("MAX_NEW_NAMES", MAX_NEW_NAMES as u64),
        ("MAX_NEW_PATH_BYTES", MAX_NEW_PATH_BYTES as u64),
        ("MAX_SET_ATTRIBUTES", MAX_SET_ATTRIBUTES as u64),
        ("MAX_EXAMINED", MAX_EXAMINED as u64),
        ("MAX_COPIED_NAMES", MAX_COPIED_NAMES as u64),
        ("MAX_COPIED_PIECES", MAX_COPIED_PIECES as u64),
        ("MAX_CUTS", MAX_CUTS as u64),
        ("MAX_ETAGS", MAX_ETAGS as u64),
        ("MAX_HASHED", MAX_HASHED),
        ("MAX_INLINE_BODY", MAX_INLINE_BODY as u64),
        ("MAX_READ", MAX_READ as u64),
        ("MAX_PAGE", MAX_PAGE as u64),
        ("MAX_PAGE_BYTES", MAX_PAGE_BYTES as u64),
        ("MAX_BLAME", MAX_BLAME as u64),
        ("MAX_SUBTREES", MAX_SUBTREES as u64),
        ("MAX_CHANGES_BYTES", MAX_CHANGES_BYTES as u64),
        ("MAX_SCANNED", MAX_SCANNED as u64),
        ("MAX_CHANGE_PATHS", MAX_CHANGE_PATHS as u64),
        ("MAX_COMPARED", MAX_COMPARED),
    ];
    let known: Vec<(String, u64)> = known.map(|(name, value)| (name.to_owned(), value)).to_vec();
    assert_eq!(listed, known);
}
