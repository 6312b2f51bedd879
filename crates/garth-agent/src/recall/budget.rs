//! Spends the token budget of a recall: first on the best source, then on a sentence of each other source,
//! then on longer parts in the order of their score per token.

use super::answer::{Evidence, Recalled, head};
use super::fence::{Key, PREAMBLE, Piece, fenced, harmless, word};
use super::gather::{Candidate, RankedCandidates};
use super::read::Shown;
use super::request::Recall;
use crate::count::count;
use crate::memory::{Level, sha256};

/// Largest number of extra tokens for which the complete text is shown in place of a part of it.
const LITTLE: usize = 48;

/// Part of a source that may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Brief,
    Overview,
    Excerpt,
    Passage,
    Whole,
}

/// Parts of a source with their costs.
struct Offer {
    parts: Vec<(Part, Evidence, String)>,
    taken: Vec<Part>,
    /// Layer that covers more of the question than the content does.
    found: Option<Part>,
}

/// Spends the budget of a recall on the gathered candidates.
pub(super) fn spend(asked: &Recall, gathered: RankedCandidates, key: &Key) -> Recalled {
    let RankedCandidates { candidates, best, notes, more, missing } = gathered;
    let before = head(PREAMBLE, &notes, asked.budget);
    let mut room = asked.budget.saturating_sub(count(&before));
    let mut offers: Vec<Offer> = candidates.iter().map(|candidate| Offer::new(candidate, key)).collect();
    if let Some(first) = offers.first_mut() {
        // A complete text takes at most half of the room, or the best source would leave none for others. The
        // part that was found is preferred to a description.
        let short = |part: Part, cost: usize| part != Part::Whole || cost <= room / 2;
        // The longest part of the content first; abstract and overview last.
        let wanted = [Part::Whole, Part::Passage, Part::Excerpt, Part::Brief, Part::Overview];
        let part = first
            .found
            .into_iter()
            .chain(wanted)
            .find(|part| first.cost(*part).is_some_and(|cost| cost <= room && short(*part, cost)));
        room -= part.map_or(0, |part| first.take(part));
    }
    // Each other source gets its shortest part before any source gets more.
    for offer in offers.iter_mut().filter(|offer| offer.taken.is_empty()) {
        let Some((part, cost)) = offer.shallow() else { continue };
        if cost <= room {
            offer.take(part);
            room -= cost;
        }
    }
    // A longer part replaces shorter ones of its source, so their tokens are free again.
    while let Some((offer, part, _)) = deepest(&offers, room) {
        room = room + offers[offer].spent() - {
            offers[offer].take(part);
            offers[offer].spent()
        };
    }
    let mut items: Vec<Evidence> = Vec::new();
    let mut text = before;
    let more = more || offers.iter().any(|offer| offer.taken.is_empty());
    for offer in offers {
        for (part, evidence, fenced) in offer.parts {
            if offer.taken.contains(&part) {
                text.push_str(&fenced);
                items.push(evidence);
            }
        }
    }
    if items.is_empty() {
        text = head("What fits the question has more tokens than the budget.\n", &notes, asked.budget);
    }
    Recalled { items, tokens: count(&text), text, best, notes, more, missing }
}

/// Returns the part to take next, with the most score for its extra tokens among those that fit.
fn deepest(offers: &[Offer], room: usize) -> Option<(usize, Part, f64)> {
    let mut best: Option<(usize, Part, f64)> = None;
    for (at, offer) in offers.iter().enumerate() {
        for (part, evidence, _) in &offer.parts {
            let Some(cost) = offer.more_for(*part).filter(|cost| *cost <= room) else { continue };
            // An overview covers less of the question than the passage that was found.
            let worth = if *part == Part::Overview { 0.5 } else { 1.0 };
            // The score counts squared: a cheap part of a weak source must not beat a part of a good one.
            let pays = worth * evidence.score * evidence.score / cost.max(1) as f64;
            if best.is_none_or(|(.., known)| pays > known) {
                best = Some((at, *part, pays));
            }
        }
    }
    best
}

impl Offer {
    fn new(candidate: &Candidate, key: &Key) -> Self {
        let shown = [
            (Part::Brief, &candidate.brief),
            (Part::Overview, &candidate.overview),
            (Part::Excerpt, &candidate.excerpt),
            (Part::Passage, &candidate.passage),
            (Part::Whole, &candidate.whole),
        ];
        let parts = shown.into_iter().filter_map(|(part, shown)| {
            let (evidence, fenced) = evidence(candidate, part, shown.as_ref()?, key);
            Some((part, evidence, fenced))
        });
        let found = candidate.layer.and_then(|layer| match layer {
            Level::Abstract => Some(Part::Brief),
            Level::Overview => Some(Part::Overview),
            Level::Content => None,
        });
        Self { parts: parts.collect(), taken: Vec::new(), found }
    }

    fn cost(&self, part: Part) -> Option<usize> {
        self.parts.iter().find(|(own, ..)| *own == part).map(|(_, evidence, _)| evidence.tokens)
    }

    fn spent(&self) -> usize {
        self.taken.iter().filter_map(|part| self.cost(*part)).sum()
    }

    /// Returns the shortest part: a sentence of a memory, or the best lines of a file. Returns the complete
    /// text if it costs little more.
    fn shallow(&self) -> Option<(Part, usize)> {
        let least = [Part::Brief, Part::Excerpt].into_iter().find_map(|part| Some((part, self.cost(part)?)));
        let whole = self.cost(Part::Whole).map(|cost| (Part::Whole, cost));
        match (least, whole) {
            (Some((_, least)), Some((part, cost))) if cost <= least + LITTLE && self.found.is_none() => {
                Some((part, cost))
            }
            (Some(least), _) => Some(least),
            (None, whole) => whole,
        }
    }

    /// Returns the extra cost of a part, over the parts that it replaces; `None` if it adds nothing.
    fn more_for(&self, part: Part) -> Option<usize> {
        let covers = |taken: &Part| {
            *taken == part || *taken == Part::Whole || (*taken == Part::Passage && part == Part::Excerpt)
        };
        // If not even the shortest part of an offer has fitted, no longer one is tried.
        if self.taken.is_empty() || self.taken.iter().any(covers) {
            return None;
        }
        let replaced: usize = self
            .taken
            .iter()
            .filter(|taken| self.replaces(part, **taken))
            .filter_map(|taken| self.cost(*taken))
            .sum();
        Some(self.cost(part)?.saturating_sub(replaced))
    }

    fn take(&mut self, part: Part) -> usize {
        let mut taken = std::mem::take(&mut self.taken);
        taken.retain(|taken| !self.replaces(part, *taken));
        taken.push(part);
        self.taken = taken;
        self.cost(part).unwrap_or(0)
    }

    /// Returns true if a part includes the text of another one.
    fn replaces(&self, part: Part, taken: Part) -> bool {
        match part {
            // Not the layer that was found: it covers words of the question that the content does not.
            Part::Whole => self.found != Some(taken),
            Part::Passage => taken == Part::Excerpt,
            Part::Brief | Part::Overview | Part::Excerpt => false,
        }
    }
}

fn evidence(candidate: &Candidate, part: Part, shown: &Shown, key: &Key) -> (Evidence, String) {
    let text = harmless(&shown.text);
    let layer = match shown.level {
        Some(level) => format!("L{}", level.number()),
        None => "file".to_owned(),
    };
    let layer = match shown.whole {
        true => layer,
        false => format!("{layer}:{}-{}", shown.lines.start, shown.lines.end.saturating_sub(1)),
    };
    let (source, version) = (word(&candidate.source), shown.version.to_string());
    let fenced = fenced(key, &Piece { source: &source, layer: &layer, version: &version, text: &text });
    let what = match part {
        Part::Brief => "a sentence says what the memory is about",
        Part::Overview => "an outline of the memory",
        Part::Excerpt => "the best lines of what was found",
        Part::Passage => "the passage that was found",
        Part::Whole => "all of it, as it is short",
    };
    let evidence = Evidence {
        source: candidate.source.clone(),
        path: shown.path.clone(),
        layer: shown.level.map(Level::number),
        version: shown.version,
        sha256: sha256(text.as_bytes()),
        bytes: shown.bytes.clone(),
        lines: shown.lines.clone(),
        whole: shown.whole,
        score: candidate.score,
        parts: candidate.score_parts,
        found_in: candidate.found_in.clone(),
        why: format!("{what}; has {:.0} % of the question", candidate.score * 100.0),
        tokens: count(&fenced),
        text,
    };
    (evidence, fenced)
}
