//! Long questions: the part that a passage fits best decides.

use super::*;

const STORY: &str = "Sorry for the late reply, the train to Porto stopped twice between two tunnels. ";
const QUESTION: &str = "Which lamp in the garden shed needs a new bulb? ";
const REST: &str = "My colleague repainted the kitchen and burned the lentils again.";

fn index() -> Index {
    let mut index = Index::new();
    index.put(1, b"The lamp above the ladder of the garden shed needs another bulb.");
    for file in 2..80 {
        index.put(file, format!("Report {file} about the harbour, its cranes and the tide.").as_bytes());
    }
    index
}

#[test]
fn story_around_a_question_costs_no_score() {
    let index = index();
    let alone = index.score(QUESTION);
    assert!(alone > 0.8, "{alone}");
    for message in [format!("{STORY}{QUESTION}{REST}"), format!("{QUESTION}{STORY}{REST}")] {
        let found = index.search(&message).found;
        assert_eq!(found.first().map(|it| it.passage.ino), Some(Ino(1)), "{message}");
        let score = index.score(&message);
        assert!((score - alone).abs() < 1e-9, "{score} is not {alone}");
    }
}

#[test]
fn statement_beside_a_question_counts_half() {
    let mut index = index();
    index.put(100, STORY.as_bytes());
    let found = |message: &str| -> Vec<(u64, f64)> {
        index.search(message).found.iter().map(|it| (it.passage.ino.0, it.words)).collect()
    };
    let beside = found(&format!("{STORY}{QUESTION}"));
    assert_eq!(beside.iter().map(|(ino, _)| *ino).collect::<Vec<_>>(), [1, 100]);
    assert!((beside[1].1 - 0.5).abs() < 1e-9, "{beside:?}");
    let without = found(&format!("{STORY}{}", QUESTION.replace('?', ".")));
    assert_eq!(without.iter().map(|(ino, _)| *ino).collect::<Vec<_>>(), [100, 1]);
    assert!((without[0].1 - 1.0).abs() < 1e-9, "{without:?}");
}

#[test]
fn short_question_beside_a_story_keeps_its_score() {
    let mut index = index();
    index.put(90, b"Bob is allergic to peanuts and cashews.");
    index.put(91, b"Carol is allergic to cats.");
    let ask = "What is Bob allergic to? ";
    let alone = index.score(ask);
    for message in [format!("{STORY}{ask}"), format!("{ask}{STORY}{REST}"), format!("{STORY}{ask}{REST}")] {
        let found = index.search(&message).found;
        assert_eq!(found.first().map(|it| it.passage.ino), Some(Ino(90)), "{message}");
        let score = index.score(&message);
        assert!((score - alone).abs() < 1e-9, "{score} is not {alone}");
    }
}

#[test]
fn each_of_many_questions_is_answered() {
    let mut index = index();
    let (mut message, first) = (STORY.to_owned(), 200);
    for n in 0..20 {
        index.put(first + n, format!("The key{n} of gate{n} hangs in room{n}.").as_bytes());
        message.push_str(&format!("Which key{n} of gate{n} is in room{n}? "));
    }
    let found = index.search(&message).found;
    for n in 0..20 {
        let answer = found.iter().find(|it| it.passage.ino.0 == first + n);
        assert!(answer.is_some_and(|it| it.words > 0.49), "{n}: {answer:?}");
    }
}

#[test]
fn pronoun_takes_its_subject_from_the_message() {
    let mut index = index();
    index.put(90, b"Alice is allergic to nuts.");
    index.put(91, b"Carol is allergic to cats.");
    let story = "My sister Alice visits us on Sunday, and I cook dinner for the family and many guests.";
    let found = index.search(&format!("{story} Is she allergic?")).found;
    let found: Vec<(u64, f64)> = found.iter().map(|it| (it.passage.ino.0, it.words)).collect();
    assert_eq!(found.iter().map(|(ino, _)| *ino).collect::<Vec<_>>(), [90, 91]);
    assert!(found[0].1 > 0.9 && (found[1].1 - 0.5).abs() < 1e-9, "{found:?}");
}
