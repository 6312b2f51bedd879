//! The data for recall: each question names texts that exist.

use std::collections::HashSet;

use garth_engine::text::question::Question;
use serde_json::Value;

const PARAPHRASES: &str = include_str!("../../data/recall/paraphrases.jsonl");
const FACTS: &str = include_str!("../../data/recall/facts.jsonl");
const UNKNOWN: &str = include_str!("../../data/recall/unknown.jsonl");

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// Checks each line. Returns the number of texts and of questions.
fn counted(lines: &str) -> (usize, usize) {
    let (mut all, mut questions) = (HashSet::new(), HashSet::new());
    for line in lines.lines() {
        let one: Value = serde_json::from_str(line).unwrap();
        let messages = list(&one, "sessions").iter().flat_map(|session| list(session, "messages"));
        let mut own = HashSet::new();
        for text in messages.chain(list(&one, "memories")) {
            let id = text["id"].as_str().unwrap().to_owned();
            let said = text["content"].as_str().or(text["text"].as_str()).unwrap();
            assert!(!said.trim().is_empty(), "{id}");
            assert!(all.insert(id.clone()) && own.insert(id.clone()), "{id} is repeated");
        }
        for question in list(&one, "questions") {
            let id = question["id"].as_str().unwrap();
            let evidence = list(question, "evidence");
            assert_eq!(evidence.is_empty(), question["kind"] == "unknown", "{id}");
            assert!(evidence.len() <= 2, "{id}");
            assert!(evidence.iter().all(|text| own.contains(text.as_str().unwrap())), "{id}");
            assert!(questions.insert(id.to_owned()), "{id} is repeated");
            let asked = Question::parse(question["question"].as_str().unwrap()).unwrap();
            assert!(!asked.asks_nothing(), "{id}");
        }
    }
    (all.len(), questions.len())
}

#[test]
fn recall_questions_name_existing_evidence() {
    assert_eq!(counted(PARAPHRASES), (1481, 200));
    assert_eq!(counted(FACTS), (300, 200));
    assert_eq!(counted(UNKNOWN), (0, 30));
}
