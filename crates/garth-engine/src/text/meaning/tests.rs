//! Tests of tokens, vectors and near words.

use proptest::prelude::*;
use serde::Deserialize;

use super::table::Table;
use super::*;
use crate::text::token::of_word;

/// Texts with the tokens that the tokenizer of the model gives for them (PyPI `tokenizers` 0.22).
const REFERENCE: &str = include_str!("tests/wordpiece.jsonl");

#[derive(Deserialize)]
struct Case {
    text: String,
    tokens: Vec<String>,
}

fn tokens_of(text: &str) -> Vec<u32> {
    let mut tokens = Vec::new();
    super::tokens(text, &mut tokens);
    tokens
}

/// Returns the number of a token with these letters.
fn token(letters: &str, begins: bool) -> Option<u32> {
    let (number, length) = Table::get().longest(letters, begins)?;
    (length == letters.len()).then_some(number)
}

/// Returns the same weight for all tokens.
fn equal_weights(weight: f32) -> Weights {
    Weights { holding: vec![0; Table::get().len() as usize], weights: vec![(weight * PARTS) as i16] }
}

fn embed(text: &str) -> Embedding {
    Embedding::new(&tokens_of(text), &equal_weights(1.0))
}

#[test]
fn reads_table_of_program() {
    let table = Table::get();
    assert_eq!(table.len(), 29_523);
    assert!(token("coffee", true).is_some() && token("ing", false).is_some());
    assert_eq!(token("[CLS]", true), None);
    // The longest one, and none that continues a word in place of one that begins it.
    let coffee = token("coffee", true).map(|number| (number, 6));
    assert_eq!(table.longest("coffee, black", true), coffee);
    assert_eq!(table.longest("", true), None);
}

#[test]
fn refuses_table_of_another_format() {
    let file = |magic: &[u8], dimensions: u32, rows: usize| -> &'static [u8] {
        let mut file = magic.to_vec();
        for number in [dimensions, 2, 1, 4] {
            file.extend(number.to_le_bytes());
        }
        file.extend(b"a\nb\n");
        file.resize(file.len() + rows * DIMENSIONS, 0);
        file.leak()
    };
    assert!(Table::read(file(b"garthtv1", 128, 2)).is_some());
    let [none, twice] = [&b"\nab\n"[..], b"a\na\n"].map(|words| {
        let mut file = file(b"garthtv1", 128, 2).to_vec();
        file[24..28].copy_from_slice(words);
        file[16..20].copy_from_slice(&2_u32.to_le_bytes());
        Table::read(file.leak())
    });
    assert!(none.is_none() && twice.is_none(), "{none:?} {twice:?}");
    for wrong in [file(b"garthtv2", 128, 2), file(b"garthtv1", 64, 2), file(b"garthtv1", 128, 1), b"garth"] {
        assert!(Table::read(wrong).is_none());
    }
}

#[test]
fn tokens_equal_those_of_the_model() {
    let number = |letters: &String| match letters.strip_prefix("##") {
        Some(rest) if !rest.is_empty() => token(rest, false).unwrap(),
        _ => token(letters, true).unwrap(),
    };
    for line in REFERENCE.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let is_mark = |token: &&String| token.chars().all(unicode::is_punctuation);
        let expected: Vec<u32> = case.tokens.iter().filter(|token| !is_mark(token)).map(number).collect();
        assert_eq!(tokens_of(&case.text), expected, "{:?}", case.text);
    }
}

#[test]
fn closer_in_meaning_has_larger_cosine() {
    for (text, near, far) in [
        ("coffee without milk", "she takes it black", "the train leaves"),
        ("the physician", "a doctor", "a tractor"),
        ("purchase a vehicle", "buy a car", "sing a song"),
    ] {
        let (text, near, far) = (embed(text), embed(near), embed(far));
        let (near, far) = (text.cosine(&near), text.cosine(&far));
        assert!(near > far, "{near} {far}");
    }
}

#[test]
fn order_of_tokens_is_irrelevant() {
    let mut tokens = tokens_of("The quick brown fox jumps over the lazy dog, twice.");
    let weights = Weights::by_rarity([&tokens[..3], &tokens[2..]]);
    let forward = Embedding::new(&tokens, &weights);
    tokens.reverse();
    assert_eq!(Embedding::new(&tokens, &weights), forward);
    assert!((forward.cosine(&forward) - 1.0).abs() < 1e-5);
}

#[test]
fn long_text_does_not_overflow() {
    let once = tokens_of("The quick brown fox");
    let many = once.repeat(20_000);
    let heaviest = equal_weights(MAX_WEIGHT);
    let cosine = Embedding::new(&once, &heaviest).cosine(&Embedding::new(&many, &heaviest));
    assert!((cosine - 1.0).abs() < 1e-5, "{cosine}");
}

#[test]
fn text_without_tokens_has_cosine_zero() {
    for text in ["", " \n", "?!", "\u{0}", "हहह\u{1f600}"] {
        assert_eq!(embed(text).cosine(&embed("coffee")), 0.0, "{text:?}");
    }
    let weightless = Embedding::new(&tokens_of("coffee"), &equal_weights(0.0));
    assert_eq!(weightless.cosine(&embed("coffee")), 0.0);
}

#[test]
fn unknown_token_numbers_are_ignored() {
    let strange = [&tokens_of("coffee")[..], &[u32::MAX, 29_523]].concat();
    let weights = Weights::by_rarity([&strange[..]]);
    assert_eq!(Embedding::new(&strange, &weights), Embedding::new(&strange[..1], &weights));
}

#[test]
fn rare_tokens_weigh_more() {
    let passages: Vec<Vec<u32>> =
        ["the boiler is dead", "the floor is cold", "the gauge sinks"].map(tokens_of).into();
    let weights = Weights::by_rarity(passages.iter().map(Vec::as_slice));
    let weight = |word| weights.of(token(word, true).unwrap()).unwrap();
    assert!(weight("the") < weight("is") && weight("is") < weight("boiler"));
    assert!(weight("boiler") < weight("zebra"));
    assert_eq!(f32::from(weight("the")), (2.0_f32.ln() * PARTS).round());
    // A token that a passage repeats counts once.
    let twice = tokens_of("the the");
    let again = Weights::by_rarity([&twice[..], &passages[0]]);
    assert_eq!(again.of(twice[0]), Some(weight("the")));
}

/// Returns the nearest words to one.
fn nearest_to(word: &str, most: usize, least: f32) -> Vec<(&'static str, f32)> {
    nearest(&[word], most, least).pop().unwrap()
}

#[test]
fn words_near_in_meaning_come_nearest_first() {
    let near = nearest_to("physician", 20, 0.4);
    let words: Vec<&str> = near.iter().map(|(word, _)| *word).collect();
    assert!(words.contains(&"doctor") && !words.contains(&"physician"), "{words:?}");
    assert!(near.is_sorted_by(|a, b| a.1 >= b.1) && near.iter().all(|(_, cosine)| *cosine >= 0.4));
    assert_eq!(nearest_to("physician", 3, 0.4), near[..3]);
    assert_eq!(nearest_to("", 20, 0.0), []);
    assert_eq!(nearest_to("\u{1f600}", 20, 0.0), []);
}

#[test]
fn nearest_words_do_not_depend_on_other_words() {
    // More than are compared at once, and some without a vector.
    let words =
        ["physician", "", "coffee", "harbour", "\u{1f600}", "train", "garden", "winter", "", "boiler"];
    let together = nearest(&words, 40, 0.3);
    let alone: Vec<_> = words.iter().map(|word| nearest_to(word, 40, 0.3)).collect();
    assert_eq!(together, alone);
    assert_eq!(together.iter().filter(|near| near.is_empty()).count(), 3);
    assert_eq!(nearest(&[], 40, 0.3), Vec::<Vec<(&str, f32)>>::new());
}

/// Returns the share of passages that contain a word of the question.
fn share(word: &str) -> Option<f64> {
    of_word(word).first().and_then(|token| share_in_english(token))
}

#[test]
fn everyday_words_are_in_many_passages() {
    for (word, least, most) in [
        ("the", 0.3, 0.7),
        ("people", 0.02, 0.04),
        ("garden", 0.001, 0.003),
        ("coffee", 0.001, 0.003),
        ("heron", 0.0001, 0.0003),
    ] {
        assert!(share(word).is_some_and(|share| (least..most).contains(&share)), "{word}: {:?}", share(word));
    }
}

#[test]
fn token_has_share_of_its_commonest_word() {
    assert_eq!(share("gardens"), share("garden"));
    // `happy` is commoner than `happily` and `happiness`. Tokens are stems.
    assert!(share_in_english("happi").is_some_and(|share| share > 0.002));
    assert_eq!(share_in_english("happy"), None);
}

#[test]
fn unknown_words_have_no_share() {
    // The vocabulary has `zebra`, after the words that count.
    for word in ["marzipan", "zebra", "quokka", "b", "7", "1999", "\u{4eac}\u{90fd}"] {
        assert_eq!(share(word), None, "{word}");
    }
    assert_eq!(share_in_english(""), None);
}

/// With quadratic time, it would run into the limit of the test runner.
#[test]
fn huge_words_cost_linear_time() {
    for text in ["x".repeat(1 << 20), "é".repeat(1 << 19), "\u{301}".repeat(1 << 19), "x.".repeat(1 << 19)] {
        tokens_of(&text);
    }
}

proptest! {
    #[test]
    fn any_text_has_valid_tokens(text in "\\PC{0,200}|[\\x00-\\u{10ffff}]{0,60}") {
        let tokens = tokens_of(&text);
        prop_assert!(tokens.iter().all(|token| *token < Table::get().len()));
        let length = embed(&text).cosine(&embed(&text));
        prop_assert!(length == 0.0 || (length - 1.0).abs() < 1e-5);
    }
}
