//! Everyday English words weigh less than names, also in an index too small to show how common they are.

use super::{Index, crowd};

/// Returns an index of 20 passages. The first two are `first` and `second`.
fn small(first: &str, second: &str) -> Index {
    let mut index = Index::new();
    index.put(1, first.as_bytes());
    index.put(2, second.as_bytes());
    for file in 3..=20 {
        index.put(file, format!("report {file} harbour").as_bytes());
    }
    index
}

#[test]
fn name_outranks_everyday_word_in_small_index() {
    let index = small("greetings to Ulrike", "about dinner time");
    let found = index.search("Ulrike time").found;
    // Of equal ones the newer would be first.
    assert_eq!(found.iter().map(|it| it.passage.ino.0).collect::<Vec<_>>(), [1, 2]);
    assert!(found[0].words > 1.2 * found[1].words, "{found:?}");
}

#[test]
fn unknown_word_weighs_as_much_as_rare_one() {
    let index = small("greetings to Ulrike", "about heron time");
    let [name, known] = [1, 2].map(|ino| {
        let found = index.search("Ulrike heron").found;
        found.iter().find(|it| it.passage.ino.0 == ino).map_or(0.0, |it| it.words)
    });
    assert!(name >= known && name - known < 0.01, "{name} and {known}");
}

#[test]
fn large_index_keeps_its_own_frequencies() {
    let all = 20_000;
    let index = crowd(all, "time");
    let weight = |passages: f64| (1.0 + all as f64 / passages).ln();
    // The best passage has the first word, which is in `having` passages, and not the second one.
    for (question, having, missing) in [("file7 rare", 1.0, 10.0), ("time zqxv", all as f64, 0.5)] {
        let (score, having, missing) = (index.score(question), weight(having), weight(missing));
        let expected = having / (having + missing);
        assert!((score - expected).abs() < 1e-3, "{question}: {score} instead of {expected}");
    }
}
