//! Compares errors with the tables of the specifications. This file is not packaged, as they are not.

use super::*;

#[test]
fn specification_lists_all_error_codes_with_statuses() {
    let specification = include_str!("../../../../docs/specs/kv-api.md");
    let (_, table) = specification.split_once("| status | code | when |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let listed: Vec<String> = rows.map(|row| row.splitn(4, '|').take(3).collect()).collect();
    let known = Code::ALL.map(|code| {
        let (name, status) = code.parts();
        format!(" {}  `{name}` ", status.as_u16())
    });
    assert_eq!(listed, known);
}

#[test]
fn tree_specification_lists_http_errors() {
    let specification = include_str!("../../../../docs/specs/tree.md");
    let (_, table) = specification.split_once("| kind | errno | HTTP | exit | when |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let listed: Vec<String> = cells.map(|row| format!("{} {}", row[1], row[3])).collect();
    let known = ErrorKind::ALL.iter().map(|kind| {
        let refusal = Refusal::from(Error::new(*kind, ""));
        format!("`{kind}` {} `{}`", refusal.status.as_u16(), refusal.code.as_str())
    });
    assert_eq!(listed, known.collect::<Vec<_>>());
}
