//! Composes the answer of a recall from what was chosen.

use super::answer::{Evidence, NEAREST_FOLLOW, NOTHING_FITS, Recalled};
use super::budget::{Choice, spend};
use super::candidates::RankedCandidates;
use super::fence::{Key, PREAMBLE, Piece, fenced, harmless, named};
use super::head::head;
use super::neighbours::grow;
use super::request::Recall;
use super::run::{Run, piece_of};
use super::unit::Candidate;
use crate::count::count;
use crate::memory::{Level, sha256};
use garth_engine::error::Result;
use garth_engine::text::question::Question;

const TOO_LONG: &str = "What fits the question has more tokens than the budget.\n";

/// Returns the answer for the gathered candidates that fits the budget.
///
/// # Errors
/// `TimedOut` if the time to compute is over.
pub(super) fn answer(
    asked: &Recall,
    question: &Question,
    gathered: &RankedCandidates,
    key: &Key,
) -> Result<Recalled> {
    let first =
        if gathered.fits { PREAMBLE.to_owned() } else { format!("{NOTHING_FITS}{NEAREST_FOLLOW}{PREAMBLE}") };
    let before = head(&first, &gathered.notes, asked.budget);
    let mut choice = spend(asked, gathered, asked.budget.saturating_sub(count(&before)));
    // The nearest texts may have nothing to do with the question, and less so what is beside them.
    if gathered.fits {
        grow(&mut choice, (asked, question), gathered)?;
    }
    loop {
        let answer = compose(asked, gathered, &choice, (&before, key));
        // The sum of the counts can be smaller than the count of the complete text, where a message begins
        // with a character that the tokens before it absorb.
        if answer.tokens <= asked.budget || !choice.undo() {
            return Ok(answer);
        }
    }
}

/// Returns the answer with what was chosen. `before` is the text before the sources.
fn compose(
    asked: &Recall,
    gathered: &RankedCandidates,
    choice: &Choice<'_>,
    (before, key): (&str, &Key),
) -> Recalled {
    let (mut text, mut pieces) = (before.to_owned(), String::new());
    let (mut items, mut number) = (Vec::new(), 0);
    for (place, candidate) in choice.candidates.iter().enumerate() {
        let mut last = None;
        for run in choice.runs(place) {
            let names = piece_of(candidate, run.file);
            if last != Some(run.file) {
                number += 1;
                last = Some(run.file);
                text.push_str(&named(number, &names.piece()));
            }
            let (shown, lines) = (text_of(&run, choice), run.lines());
            let piece = Piece { lines: &lines, text: &shown, ..names.piece() };
            let whole = fenced(key, number, &piece);
            pieces.push_str(&whole);
            items.push(evidence(candidate, &run, (number, count(&whole)), shown));
        }
    }
    text.push_str(&pieces);
    if items.is_empty() {
        let first = if gathered.fits { TOO_LONG } else { NOTHING_FITS };
        text = head(first, &gathered.notes, asked.budget);
    }
    Recalled {
        tokens: count(&text),
        text,
        items,
        fits: gathered.fits,
        best: gathered.best,
        notes: gathered.notes.clone(),
        is_without_service: gathered.is_without_service,
        // The nearest texts do not fit, so it does not matter that they are not shown completely.
        more: gathered.more || (gathered.fits && choice.is_partial()),
        missing: gathered.missing,
    }
}

/// Returns the text of a run. No line of it can pass for a fence, nor a part of a message for another
/// message.
fn text_of(run: &Run<'_>, choice: &Choice<'_>) -> String {
    let mut text = String::new();
    for (stamp, (unit, form)) in choice.stamps.of(run).iter().zip(&run.forms) {
        if let Some(speaker) = &unit.speaker {
            text.push_str(speaker);
            text.push_str(stamp);
        }
        text.push_str(&form.text);
    }
    let is_rendered = run.forms.iter().all(|(unit, _)| unit.speaker.is_some());
    if is_rendered { text } else { harmless(&text) }
}

fn evidence(
    candidate: &Candidate,
    run: &Run<'_>,
    (number, tokens): (usize, usize),
    text: String,
) -> Evidence {
    let file = &candidate.parts.files[run.file];
    let found = run.forms.iter().filter(|(unit, _)| unit.is_found);
    let best = found.max_by(|(one, _), (other, _)| one.rank.total_cmp(&other.rank));
    let score = best.map_or(candidate.score_parts, |(unit, _)| unit.score_parts).sum();
    let what = best.or(run.forms.first()).map_or("", |(_, form)| form.what.reason());
    let (first, last) = (run.forms.first(), run.forms.last());
    let start = first.map_or(0, |(_, form)| form.bytes.start);
    Evidence {
        number,
        source: candidate.source.clone(),
        path: file.path.clone(),
        layer: file.level.map(Level::number),
        version: file.version,
        sha256: sha256(text.as_bytes()),
        bytes: start..last.map_or(start, |(_, form)| form.bytes.end),
        lines: run.range(),
        whole: run.forms.iter().any(|(_, form)| form.is_whole),
        score,
        parts: candidate.score_parts,
        found_in: candidate.found_in.clone(),
        why: format!("{what}; its score is {score:.2}"),
        tokens,
        text,
    }
}
