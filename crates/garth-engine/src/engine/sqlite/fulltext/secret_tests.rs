//! Secrets at borders of passages: no part of them becomes a word of the index.

use std::collections::BTreeSet;

use garth_testkit::data::credentials::mixed;
use garth_testkit::data::random::Random;
use garth_testkit::data::secrets::{Planted, each};

use crate::engine::sqlite::fulltext::index_writer::optimize;
use crate::engine::sqlite::fulltext::tests::{Index, change};
use crate::model::Ino;
use crate::text::Edit;

/// Returns words without a line end, of this many bytes.
fn filler(bytes: usize) -> String {
    "orchard lantern violin ".chars().cycle().take(bytes).collect()
}

/// Returns the words of the index, except for those that mark the frequency.
fn vocabulary(index: &Index) -> BTreeSet<String> {
    optimize(&index.conn).unwrap();
    let mut statement = index.conn.prepare("SELECT term FROM passage_vocabulary").unwrap();
    let terms = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap);
    terms.filter(|term: &String| !term.contains('^')).collect()
}

/// Returns the words of the index that are not of the text around a secret.
fn parts(index: &Index, planted: &Planted) -> BTreeSet<String> {
    let mut around = Index::new();
    for (n, (text, at)) in (1..).zip(texts(planted)) {
        let mut blank = text.into_bytes();
        blank[at..at + planted.secret.len()].fill(b' ');
        around.put(n, &blank);
    }
    vocabulary(index).difference(&vocabulary(&around)).cloned().collect()
}

/// Returns texts of one line whose first border of passages is at different places in a secret, each with the
/// offset of the secret.
fn texts(planted: &Planted) -> impl Iterator<Item = (String, usize)> {
    let text = planted.text();
    (1_940..2_060).step_by(11).map(move |front| {
        let at = front + 1 + planted.before.len();
        (format!("{} {text} {}", filler(front), filler(4_000)), at)
    })
}

#[test]
fn secret_across_passages_is_not_indexed() {
    for planted in each(&mut Random::new(21)) {
        let mut index = Index::new();
        for (n, (text, _)) in (1..).zip(texts(&planted)) {
            index.put(n, text.as_bytes());
        }
        assert_eq!(parts(&index, &planted), BTreeSet::new(), "{}", planted.kind);
    }
}

#[test]
fn edit_that_completes_a_secret_reindexes_neighbours() {
    for planted in each(&mut Random::new(22)) {
        let mut index = Index::new();
        let mut n = 0;
        for (text, at) in texts(&planted) {
            // Text that the edit adds: a piece of the secret, or of its name.
            let pieces = (at - planted.before.len()..at + planted.secret.len()).step_by(5);
            for from in pieces.clone().step_by(3) {
                n += 1;
                let mut without = text.clone().into_bytes();
                without[from..from + 5].fill(b' ');
                index.put(n, &without);
                index.files.insert(Ino(n), text.clone().into_bytes());
                let size = text.len() as u64;
                index.apply(&[change(Ino(n), Edit::write(from as u64, 5, size))]);
            }
        }
        assert_eq!(parts(&index, &planted), BTreeSet::new(), "{}", planted.kind);
    }
}

#[test]
fn later_members_hide_private_members_before_them() {
    let random = &mut Random::new(23);
    let value: String = (0..340).map(|_| random.pick(&["a", "B", "3", "x", "Q", "9", "k", "T"])).collect();
    let private = |value: &str| format!("  \"d\": \"{value}\",\n");
    let sign = "  \"kty\": \"RSA\",\n".to_owned();
    let notes = |from: u64| -> String {
        (from..from + 60).map(|n| format!("  \"note{n}\": \"{}\",\n", filler(60))).collect()
    };
    let blank = " ".repeat(value.len());
    let object = |members: [String; 5]| format!("{{\n{}  \"e\": 1\n}}\n", members.concat());
    let before = |value: &str| object([notes(0), private(value), notes(100), sign.clone(), notes(200)]);
    let behind = |value: &str| object([notes(0), sign.clone(), notes(100), private(value), notes(200)]);
    let words = |pieces: &[&str]| {
        let mut index = Index::new();
        for piece in pieces {
            index.append(1, piece.as_bytes());
        }
        vocabulary(&index)
    };
    for (with, without) in [(before(&value), before(&blank)), (behind(&value), behind(&blank))] {
        let expected = words(&[&without]);
        assert_eq!(words(&[&with]), expected);
        let lines: Vec<&str> = with.split_inclusive('\n').collect();
        assert_eq!(words(&lines), expected);
        // The value is a word of another object.
        let other = [with, without].map(|text| words(&[&text.replace("kty", "key")]));
        assert_ne!(other[0], other[1]);
    }
}

#[test]
fn appends_are_indexed_like_one_write() {
    for seed in 0..4 {
        let random = &mut Random::new(seed);
        let text = mixed(random);
        let (mut at_once, mut in_pieces) = (Index::new(), Index::new());
        at_once.put(1, text.as_bytes());
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let length = random.pick(&[1, 20, 300, 2_000, 9_000]) + random.below(60) as usize;
            let (piece, more) = rest.split_at(rest.ceil_char_boundary(length.min(rest.len())));
            in_pieces.append(1, piece.as_bytes());
            rest = more;
        }
        let whole = vocabulary(&at_once);
        let pieces = vocabulary(&in_pieces);
        let differs: Vec<_> = whole.symmetric_difference(&pieces).collect();
        assert!(whole.len() > 1_000 && differs.is_empty(), "{seed}: {differs:?}");
        in_pieces.put(1, text.as_bytes());
        assert_eq!(vocabulary(&in_pieces), whole);
    }
}
