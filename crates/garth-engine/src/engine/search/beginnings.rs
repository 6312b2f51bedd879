//! Words that begin like those of a question.

use std::collections::BTreeSet;

use super::forms::{Vocabulary, WordForm, exactly};
use super::judge::Shown;
use super::passage::Passage;
use super::postings::{ENDINGS, JudgedFiles, Postings, SMALL_SCOPE, Start};
use crate::text::Tokenizer;
use crate::text::question::Term;
use crate::text::token::{is_level, words};

/// Returns the words that begin like each term. A single Latin letter stays a word, because it would match
/// almost everything.
///
/// The index has the words of all passages. In a query limited to subtrees, words of other passages would
/// take places among the first [`ENDINGS`], and so show that they exist. Such a query takes the words from
/// the passages in reach, or none if these are too many to read.
pub(super) async fn beginnings<P: Postings>(
    postings: &mut P,
    terms: &[Term],
    has_words: bool,
) -> Result<Vec<Vec<WordForm>>, P::Error> {
    let is_letter = |term: &Term| term.token.len() == 1;
    let longer: Vec<Term> = terms.iter().filter(|term| !is_letter(term)).cloned().collect();
    let found = if longer.is_empty() {
        Vec::new()
    } else if postings.is_limited() {
        let texts = texts_in_reach(postings).await?;
        beginnings_in(&texts, &longer, has_words)
    } else {
        postings.beginnings(&longer).await?
    };
    let mut found = found.into_iter();
    let forms = terms.iter().map(|term| match is_letter(term) {
        true => exactly(term, has_words),
        false => found.next().unwrap_or_default(),
    });
    Ok(forms.collect())
}

/// Returns the texts that the query may show, one for each passage; none if its scope is not small.
async fn texts_in_reach<P: Postings>(postings: &mut P) -> Result<Vec<String>, P::Error> {
    let (words, limits, near) = (Vec::new(), Vec::new(), Vec::new());
    let asked = Start { words, limits, asking: 0, near, near_most: 1, reach: Some(SMALL_SCOPE) };
    let ids = postings.start(&asked).await?.reach.unwrap_or_default();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut files = JudgedFiles::new(SMALL_SCOPE.passages);
    let found = postings.candidates(&ids, &mut files).await?;
    let shown = found.passages.into_iter().filter(|(_, shown)| *shown != Shown::Nothing);
    let mut shown: Vec<Passage> = shown.map(|(passage, _)| passage).collect();
    shown.sort_unstable_by_key(|passage| (passage.ino, passage.span.off));
    let mut asked = Vec::new();
    for of_file in shown.chunk_by(|one, other| one.ino == other.ino) {
        if let Some(file) = of_file.first().and_then(|passage| files.get(passage.ino)) {
            asked.push((file.clone(), of_file.to_vec()));
        }
    }
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    postings.texts(&asked).await
}

/// Returns the words of texts that begin like each term: of each vocabulary the first [`ENDINGS`] in the
/// order of their bytes.
fn beginnings_in(texts: &[String], terms: &[Term], has_words: bool) -> Vec<Vec<WordForm>> {
    let mut tokenizer = Tokenizer::default();
    let (mut tokens, mut written) = (BTreeSet::new(), BTreeSet::new());
    for text in texts {
        let (of_text, _) = tokenizer.tokens(text);
        let of_text = of_text.split_ascii_whitespace().filter(|token| !is_level(token));
        tokens.extend(of_text.map(str::to_owned));
        if has_words {
            written.extend(words(text).map(|(_, word)| word.to_lowercase()));
        }
    }
    let of_term = |term: &Term| {
        let of = |known: &BTreeSet<String>, vocabulary: Vocabulary| -> Vec<WordForm> {
            let from = known.range(term.token.clone()..);
            let found = from.take_while(|word| word.starts_with(&term.token)).take(ENDINGS);
            found.map(|word| WordForm { vocabulary, word: word.clone(), often: 1.0 }).collect()
        };
        let mut forms = of(&tokens, Vocabulary::Tokens);
        forms.extend(of(&written, Vocabulary::Words));
        forms
    };
    terms.iter().map(of_term).collect()
}
