//! Spends the token budget of a recall: on the best source first, then on a sentence of each other source,
//! then on more of those where it pays.

use super::answer::{Evidence, Recalled, head};
use super::fence::{Key, PREAMBLE, Piece, fenced, harmless, word};
use super::gather::{Candidate, Gathered};
use super::read::Shown;
use super::request::Recall;
use crate::count::count;
use crate::memory::{Level, sha256};

/// A whole text is taken for a shorter part of it if it costs at most so many tokens more.
const LITTLE: usize = 48;

/// A part that may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Brief,
    Overview,
    Excerpt,
    Passage,
    Whole,
}

/// What a source gives, with what each part costs.
struct Offer {
    parts: Vec<(Part, Evidence, String)>,
    taken: Vec<Part>,
    /// The layer that has more of the question than the content.
    found: Option<Part>,
}

/// Spends the budget of a recall on what was gathered.
pub(super) fn spend(asked: &Recall, gathered: Gathered, key: &Key) -> Recalled {
    let Gathered { candidates, best, notes, more, missing } = gathered;
    let before = head(PREAMBLE, &notes, asked.budget);
    let mut room = asked.budget.saturating_sub(count(&before));
    let mut offers: Vec<Offer> = candidates.iter().map(|candidate| Offer::new(candidate, key)).collect();
    if let Some(first) = offers.first_mut() {
        // what was found is worth more than that there is something, but not all of the room
        let short = |part: Part, cost: usize| part != Part::Whole || cost <= room / 2;
        let wanted = [Part::Whole, Part::Passage, Part::Excerpt, Part::Brief, Part::Overview];
        let part = first
            .found
            .into_iter()
            .chain(wanted)
            .find(|part| first.cost(*part).is_some_and(|cost| cost <= room && short(*part, cost)));
        room -= part.map_or(0, |part| first.take(part));
    }
    for offer in offers.iter_mut().filter(|offer| offer.taken.is_empty()) {
        let Some((part, cost)) = offer.shallow() else { continue };
        if cost <= room {
            offer.take(part);
            room -= cost;
        }
    }
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

/// What to take next: the part with the most score for its tokens, of those that fit.
fn deepest(offers: &[Offer], room: usize) -> Option<(usize, Part, f64)> {
    let mut best: Option<(usize, Part, f64)> = None;
    for (at, offer) in offers.iter().enumerate() {
        for (part, evidence, _) in &offer.parts {
            let Some(cost) = offer.more_for(*part).filter(|cost| *cost <= room) else { continue };
            // an outline says less than what was found
            let worth = if *part == Part::Overview { 0.5 } else { 1.0 };
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

    /// The part that says least: a sentence of a memory, the best lines of a file; all of it where that is
    /// hardly more.
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

    /// What a part costs besides what it takes the place of; `None` for one that adds nothing.
    fn more_for(&self, part: Part) -> Option<usize> {
        let covers = |taken: &Part| {
            *taken == part || *taken == Part::Whole || (*taken == Part::Passage && part == Part::Excerpt)
        };
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

    /// Whether a part says what another says, too.
    fn replaces(&self, part: Part, taken: Part) -> bool {
        match part {
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
