//! Compares the reference with the specifications and the library. This file is not packaged, as they are
//! not.

use std::collections::BTreeSet;

use garth_agent::memory::{self, Around, Direction, Prefix};
use garth_agent::recall::Recall;
use garth_agent::session::{self, ChildStatus, Compact, Format, State, TranscriptFormat};

use super::*;

#[test]
fn specifications_have_a_section_for_each_call() {
    let paths = |pages: &[&str]| {
        let lines = pages.iter().flat_map(|page| page.lines());
        // A short page has one section, or a table.
        let sections = lines.filter_map(|line| {
            let row = || Some(line.strip_prefix("| `POST ")?.split_once('`')?.0);
            line.strip_prefix("### POST ").or_else(|| line.strip_prefix("## POST ")).or_else(row)
        });
        sections.map(str::to_owned).collect::<Vec<_>>()
    };
    let specifications = paths(&[
        include_str!("../../../../../docs/specs/kv-api.md"),
        include_str!("../../../../../docs/specs/memories.md"),
        include_str!("../../../../../docs/specs/memory-tool.md"),
        include_str!("../../../../../docs/specs/sessions.md"),
        include_str!("../../../../../docs/specs/workspace-http.md"),
        include_str!("../../../../../docs/specs/http-tree.md"),
        include_str!("../../../../../docs/specs/batch.md"),
        include_str!("../../../../../docs/specs/http-admin.md"),
        include_str!("../../../../../docs/specs/keys.md"),
        include_str!("../../../../../docs/specs/operators.md"),
    ]);
    // The page of `recall` has no sections; uploads have a section of their own.
    let calls = calls().into_iter().filter(|call| call.body == BodyReference::Json);
    let calls = calls.filter(|call| !["/v1/recall", "/v1/uploads/discard"].contains(&call.path));
    assert_eq!(specifications, calls.map(|call| call.path).collect::<Vec<_>>());
}

#[test]
fn reference_defaults_match_the_library() {
    let default = |path: &str, name: &str| {
        let call = calls().into_iter().find(|call| call.path == path).unwrap();
        call.fields.into_iter().find(|field| field.name == name).unwrap().default.unwrap()
    };
    let around = Around::new(Direction::Both);
    assert_eq!(default("/v1/memories/relations", "hops"), around.hops);
    assert_eq!(default("/v1/memories/relations", "limit"), around.limit);
    assert_eq!(default("/v1/memories/list", "limit"), memory::List::new(Prefix::Account).limit);
    assert_eq!(default("/v1/sessions/list", "limit"), session::List::default().limit);
    assert_eq!(default("/v1/context/compact", "max_tokens"), Compact::default().max_tokens);
    assert_eq!(default("/v1/context/compact", "keep"), Compact::default().keep);
    assert_eq!(default("/v1/recall", "budget"), Recall::new("").budget);
}

#[test]
fn library_parses_every_field_word() {
    let words = |path: &str, name: &str| {
        let call = calls().into_iter().find(|call| call.path == path).unwrap();
        call.fields.into_iter().find(|field| field.name == name).unwrap().words
    };
    for word in words("/v1/sessions/set", "state") {
        assert_eq!(word.parse::<State>().unwrap().as_str(), word);
    }
    for word in words("/v1/sessions/import", "format") {
        assert_eq!(word.parse::<TranscriptFormat>().unwrap().as_str(), word);
    }
    for word in words("/v1/context/set-child", "status") {
        assert_eq!(word.parse::<ChildStatus>().unwrap().as_str(), word);
    }
    for word in words("/v1/context/pack", "form").into_iter().filter(|word| *word != "markdown") {
        assert_eq!(word.parse::<Format>().unwrap().to_string(), word);
    }
}

#[test]
fn calls_declare_and_describe_each_field_once() {
    for call in calls() {
        let names: BTreeSet<&str> = call.fields.iter().map(|field| field.name).collect();
        assert_eq!(names.len(), call.fields.len(), "{}", call.path);
        for (name, meaning) in call.fields.iter().map(|field| (field.name, field.meaning)) {
            assert!(meaning.ends_with('.') && !meaning.contains(['\n', '|']), "{} {name}", call.path);
        }
        assert!(call.summary.ends_with('.'), "{}", call.path);
    }
}
