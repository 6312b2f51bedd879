//! Verbs and adverbs between a name and its value: `the password is now …`, `das Passwort bleibt …`.

use std::sync::LazyLock;

use super::foreign_name::WordSet;
use super::judgement::Judgement;

/// Verbs of other languages than English.
const VERBS: [&str; 13] =
    ["ist", "lautet", "lautete", "war", "es", "era", "est", "é", "è", "zijn", "jest", "heißt", "était"];

/// More verbs, since the fourth judgement.
const MORE_VERBS: [&str; 31] = [
    "remains",
    "remained",
    "stays",
    "stayed",
    "becomes",
    "became",
    "been",
    "wird",
    "wurde",
    "bleibt",
    "blieb",
    "sera",
    "reste",
    "restait",
    "restera",
    "será",
    "sigue",
    "siendo",
    "queda",
    "fica",
    "continua",
    "sarà",
    "resta",
    "rimane",
    "blijft",
    "wordt",
    "werd",
    "będzie",
    "było",
    "pozostaje",
    "zostaje",
];

/// Verbs that do not name the value themselves: `will be …`, `has been …`.
const AUXILIARIES: [&str; 5] = ["will", "shall", "has", "have", "had"];

/// Adverbs that say nothing of what a value is for.
const ADVERBS: [&str; 60] = [
    "now",
    "still",
    "currently",
    "again",
    "just",
    "actually",
    "really",
    "always",
    "only",
    "simply",
    "also",
    "temporarily",
    "today",
    "probably",
    "usually",
    "jetzt",
    "nun",
    "ab",
    "sofort",
    "noch",
    "immer",
    "wieder",
    "aktuell",
    "derzeit",
    "momentan",
    "weiterhin",
    "einfach",
    "heute",
    "maintenant",
    "toujours",
    "encore",
    "désormais",
    "actuellement",
    "simplement",
    "ahora",
    "aún",
    "todavía",
    "siempre",
    "actualmente",
    "simplemente",
    "hoy",
    "agora",
    "ainda",
    "sempre",
    "atualmente",
    "ora",
    "adesso",
    "ancora",
    "attualmente",
    "oggi",
    "nu",
    "nog",
    "steeds",
    "altijd",
    "momenteel",
    "teraz",
    "nadal",
    "wciąż",
    "zawsze",
    "obecnie",
];

/// Returns true for a word that joins a name and its value. `before` is the word before it, without adverbs.
pub(super) fn is_verb(word: &[u8], before: &[u8], judgement: Judgement) -> bool {
    static KNOWN: LazyLock<WordSet> =
        LazyLock::new(|| WordSet::of(&[&["is", "was", "to"][..], &VERBS, &MORE_VERBS].concat()));
    if matches!(word, b"is" | b"was" | b"to") {
        return true;
    }
    if judgement < Judgement::Fourth {
        return judgement == Judgement::Third && VERBS.iter().any(|verb| word == verb.as_bytes());
    }
    let is_future = word.eq_ignore_ascii_case(b"be")
        && [&b"will"[..], b"shall"].iter().any(|it| before.eq_ignore_ascii_case(it));
    // `E` alone is no verb without its accent.
    is_future || (word.len() > 1 && KNOWN.contains(word))
}

/// Returns true for a verb after which another one follows.
pub(super) fn is_auxiliary(word: &[u8]) -> bool {
    AUXILIARIES.iter().any(|verb| word.eq_ignore_ascii_case(verb.as_bytes()))
}

/// Returns true for an adverb that may be between a verb and a value.
pub(super) fn is_adverb(word: &[u8]) -> bool {
    static KNOWN: LazyLock<WordSet> = LazyLock::new(|| WordSet::of(&ADVERBS));
    KNOWN.contains(word)
}
