//! Spends the token budget of a recall: on what was found, best first, and on the messages beside it; then on
//! longer forms of what is shown. Tries the budget while sources are read.

use std::collections::BTreeSet;

use super::age::{AgedRank, Ageing};
use super::candidates::RankedCandidates;
use super::fence::{PREAMBLE, Piece, lines_of, named, word};
use super::head::head;
use super::request::Recall;
use super::run::{Run, piece_of, tokens_of};
use super::stamp::Stamps;
use super::unit::{Candidate, Form, Unit, What};
use crate::count::count;

/// Share of a found message's rank that one beside it counts.
const BESIDE: f64 = 0.7;

/// Choice of what is shown, with its cost.
pub(super) struct Choice<'a> {
    pub(super) candidates: &'a [Candidate],
    pub(super) stamps: Stamps,
    /// Form of each unit that is shown.
    taken: Vec<Vec<Option<usize>>>,
    /// True if the complete text is shown in place of units.
    whole: Vec<bool>,
    /// Neighbours of what is shown, each with its form.
    added: Vec<Vec<(Unit, usize)>>,
    /// Tokens of each candidate.
    costs: Vec<usize>,
    /// Tokens of a fence without lines.
    fence: usize,
    /// Tokens left.
    room: usize,
    /// Changes, in their order.
    steps: Vec<Step>,
}

/// Change of a choice.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Form of a unit, or with `None` the complete text.
    Take { candidate: usize, unit: Option<usize>, before: Option<usize> },
    /// Neighbour of what is shown.
    Add { candidate: usize },
}

/// Unit that may be shown.
#[derive(Clone, Copy, Debug)]
struct Offer {
    /// Rank by which units are offered, the largest first.
    aged: AgedRank,
    candidate: usize,
    unit: usize,
}

/// Spends `room` tokens on the gathered candidates.
pub(super) fn spend<'a>(asked: &Recall, gathered: &'a RankedCandidates, room: usize) -> Choice<'a> {
    let mut choice = Choice::new(asked, gathered, room);
    let queue = queue(asked, gathered);
    choice.offer_all(&queue);
    choice.improve(&queue);
    choice
}

/// Tokens that an answer of the gathered candidates leaves for sources that were not read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leftover {
    tokens: usize,
    /// Tokens of a fence without lines.
    fence: usize,
    /// Number of candidates since the last one that took tokens.
    pub(super) in_vain: usize,
    /// True if some of the candidates are not shown completely.
    pub(super) is_partial: bool,
}

impl Leftover {
    /// Spends the budget on the gathered candidates, which fit and are in the order of their ranks. Sources
    /// that were not read are offered tokens after the units of at least this rank.
    pub(super) fn after(rank: f64, asked: &Recall, gathered: &RankedCandidates) -> Self {
        let before = count(&head(PREAMBLE, &gathered.notes, asked.budget));
        let mut choice = Choice::new(asked, gathered, asked.budget.saturating_sub(before));
        let queue = queue(asked, gathered);
        let (first, others) = queue.split_at(queue.partition_point(|offer| offer.aged.rank >= rank));
        choice.offer_all(first);
        let tokens = choice.room;
        let offered: BTreeSet<usize> = first.iter().map(|offer| offer.candidate).collect();
        let in_vain = offered.iter().rev().take_while(|candidate| choice.costs[**candidate] == 0).count();
        choice.offer_all(others);
        choice.improve(&queue);
        Self { tokens, fence: choice.fence, in_vain, is_partial: choice.is_partial() }
    }

    /// Returns true if it is enough for a source, with its line of the head of `head` tokens and a token of
    /// text.
    pub(super) fn has_room_for(&self, head: usize) -> bool {
        self.fence + head < self.tokens
    }
}

/// Returns the tokens of the line of the head that names a source.
pub(super) fn head_tokens(source: &str, version: &str) -> usize {
    count(&named(10, &Piece { source: &word(source), layer: "", version, lines: "", text: "" }))
}

/// Returns the most tokens that each form of a unit may take of `room`: a part of it, and the last one all.
fn limits(unit: &Unit, room: usize) -> impl Iterator<Item = usize> + use<> {
    let (forms, part) = (unit.forms.len(), room / if unit.is_found { 2 } else { 4 });
    (1..=forms).map(move |form| if form == forms { room } else { part })
}

/// Returns the units of all candidates, best first.
fn queue(asked: &Recall, gathered: &RankedCandidates) -> Vec<Offer> {
    let ageing = Ageing { now: gathered.now, half_life: asked.half_life };
    let mut queue = Vec::new();
    for (place, candidate) in gathered.candidates.iter().enumerate() {
        for (unit, value) in candidate.parts.units.iter().enumerate() {
            let share = if value.is_found { 1.0 } else { BESIDE };
            queue.push(Offer { aged: ageing.of(value.rank * share, value.time), candidate: place, unit });
        }
    }
    // Stable: equals stay in the order of the search.
    queue.sort_by(|one, other| other.aged.order(&one.aged));
    queue
}

impl<'a> Choice<'a> {
    fn new(asked: &Recall, gathered: &'a RankedCandidates, room: usize) -> Self {
        let candidates = &*gathered.candidates;
        let (begin, end) = lines_of(10, "", "000000000000");
        Self {
            candidates,
            stamps: Stamps::new(&asked.question, candidates),
            taken: candidates.iter().map(|candidate| vec![None; candidate.parts.units.len()]).collect(),
            whole: vec![false; candidates.len()],
            added: candidates.iter().map(|_| Vec::new()).collect(),
            costs: vec![0; candidates.len()],
            fence: count(&begin) + count(&end),
            room,
            steps: Vec::new(),
        }
    }

    /// Returns the tokens left.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Returns the neighbours that are shown of a candidate.
    pub(super) fn added(&self, candidate: usize) -> impl Iterator<Item = &Form> {
        self.added[candidate].iter().map(|(unit, form)| &unit.forms[*form])
    }

    /// Returns the form in which a unit is shown, also within the complete text; `None` if it is not shown.
    pub(super) fn form_of(&self, candidate: usize, unit: usize) -> Option<&'a Form> {
        let candidates = self.candidates;
        self.taken[candidate][unit].map(|form| &candidates[candidate].parts.units[unit].forms[form])
    }

    /// Takes each unit that is not shown, and fits since its neighbours are.
    pub(super) fn offer_rest(&mut self, asked: &Recall, gathered: &RankedCandidates) {
        for Offer { candidate, unit, .. } in queue(asked, gathered) {
            let forms = &self.candidates[candidate].parts.units[unit].forms;
            let is_in_whole = self.whole[candidate] && forms.first().is_some_and(|form| form.file == 0);
            if self.taken[candidate][unit].is_none() && !is_in_whole {
                self.offer(candidate, unit);
            }
        }
    }

    /// Takes each unit that fits.
    fn offer_all(&mut self, queue: &[Offer]) {
        for offer in queue {
            self.offer(offer.candidate, offer.unit);
        }
    }

    /// Spends what is left on longer forms of what is shown.
    fn improve(&mut self, queue: &[Offer]) {
        for offer in queue {
            self.lengthen(offer.candidate, offer.unit);
        }
        for candidate in 0..self.candidates.len() {
            self.complete(candidate);
        }
    }

    /// Takes a unit that was found, or is beside something that is shown.
    fn offer(&mut self, candidate: usize, unit: usize) {
        let value = &self.candidates[candidate].parts.units[unit];
        if value.is_found || self.is_beside(candidate, value) {
            self.fit(candidate, unit);
        }
    }

    /// Takes a unit in the longest form that leaves enough for others, or else in the longest that fits.
    /// Returns false if none fits.
    pub(super) fn fit(&mut self, candidate: usize, unit: usize) -> bool {
        let value = &self.candidates[candidate].parts.units[unit];
        let limits = limits(value, self.room);
        limits.enumerate().any(|(form, most)| self.take(candidate, Some(unit), Some(form), most))
    }

    /// Adds a neighbour of what is shown of a candidate, as [`Self::fit`] takes a unit. Returns false if it
    /// does not fit.
    pub(super) fn add(&mut self, candidate: usize, unit: Unit) -> bool {
        let limits = limits(&unit, self.room);
        self.added[candidate].push((unit, 0));
        for (form, most) in limits.enumerate() {
            if let Some((_, shown)) = self.added[candidate].last_mut() {
                *shown = form;
            }
            if self.pay(candidate, most) {
                self.steps.push(Step::Add { candidate });
                return true;
            }
        }
        self.added[candidate].pop();
        false
    }

    /// Replaces the form of a unit by a longer one that fits.
    fn lengthen(&mut self, candidate: usize, unit: usize) {
        let Some(taken) = self.taken[candidate][unit] else { return };
        let room = self.room;
        for form in 0..taken {
            if self.take(candidate, Some(unit), Some(form), room) {
                return;
            }
        }
    }

    /// Replaces the units of a candidate by its complete text, if that fits.
    fn complete(&mut self, candidate: usize) {
        if self.candidates[candidate].parts.whole.is_some() && self.costs[candidate] > 0 {
            self.take(candidate, None, None, self.room);
        }
    }

    /// Returns true if something that a unit is beside is shown.
    fn is_beside(&self, candidate: usize, unit: &Unit) -> bool {
        let parts = &self.candidates[candidate].parts;
        let shown = parts.units.iter().zip(&self.taken[candidate]).filter(|(_, taken)| taken.is_some());
        let lines = |unit: &Unit| unit.forms.first().map(|form| form.lines.clone()).unwrap_or_default();
        let own = lines(unit);
        shown.into_iter().any(|(other, _)| {
            let near = lines(other);
            unit.speaker.is_none() || (other.is_found && (near.end == own.start || own.end == near.start))
        })
    }

    /// Takes a unit in this form, or the complete text, if that costs at most `most` more.
    fn take(&mut self, candidate: usize, unit: Option<usize>, form: Option<usize>, most: usize) -> bool {
        if let (0, Some(unit), Some(form)) = (self.costs[candidate], unit, form) {
            // Before its text is counted: a large answer tries many units when little is left.
            let file = self.candidates[candidate].parts.units[unit].forms[form].file;
            if self.fence + self.head(candidate, file) > most {
                return false;
            }
        }
        let before = unit.and_then(|unit| self.taken[candidate][unit]);
        self.set(candidate, unit, form, true);
        if !self.pay(candidate, most) {
            self.set(candidate, unit, before, false);
            return false;
        }
        self.steps.push(Step::Take { candidate, unit, before });
        true
    }

    /// Spends the tokens of what is shown of a candidate now, if they are at most `most` more than before.
    fn pay(&mut self, candidate: usize, most: usize) -> bool {
        let Some(cost) = self.cost(candidate, self.costs[candidate] + most) else { return false };
        self.room = (self.room + self.costs[candidate]).saturating_sub(cost);
        self.costs[candidate] = cost;
        true
    }

    /// Takes back the last step. Returns false if there is none.
    pub(super) fn undo(&mut self) -> bool {
        match self.steps.pop() {
            None => return false,
            Some(Step::Take { candidate, unit, before }) => self.set(candidate, unit, before, false),
            Some(Step::Add { candidate }) => drop(self.added[candidate].pop()),
        }
        true
    }

    fn set(&mut self, candidate: usize, unit: Option<usize>, form: Option<usize>, whole: bool) {
        match unit {
            Some(unit) => self.taken[candidate][unit] = form,
            None => self.whole[candidate] = whole,
        }
    }

    /// Returns true if something that was found is not shown completely.
    pub(super) fn is_partial(&self) -> bool {
        let parts = self.candidates.iter().zip(&self.taken).zip(&self.whole);
        parts.into_iter().any(|((candidate, taken), whole)| {
            candidate.parts.units.iter().zip(taken).any(|(unit, taken)| {
                let of_content = unit.forms.first().is_some_and(|form| form.file == 0);
                // Of a very long message, no form is complete.
                let is_cut = unit.forms.first().is_some_and(|form| form.what == What::PartOfMessage);
                unit.is_found && (*taken != Some(0) || is_cut) && !(*whole && of_content)
            })
        })
    }

    /// Returns the runs of a candidate that are shown, in the order of its files.
    pub(super) fn runs(&self, candidate: usize) -> Vec<Run<'_>> {
        let parts = &self.candidates[candidate].parts;
        let mut shown: Vec<(&Unit, &Form)> = Vec::new();
        for (place, unit) in parts.units.iter().enumerate() {
            let Some(form) = self.taken[candidate][place] else { continue };
            let value = &unit.forms[form];
            // The complete text stands for its units in any form, such as the abstract.
            if !self.whole[candidate] || unit.forms[0].file > 0 {
                shown.push((unit, value));
            }
        }
        if let (true, Some(whole), Some(unit)) = (self.whole[candidate], &parts.whole, parts.units.first()) {
            shown.push((unit, whole));
        }
        shown.extend(self.added[candidate].iter().map(|(unit, form)| (unit, &unit.forms[*form])));
        shown.sort_by_key(|(_, form)| (form.file, form.bytes.start));
        let mut runs: Vec<Run<'_>> = Vec::new();
        for (unit, form) in shown {
            let touches = |run: &&mut Run<'_>| {
                let last = run.forms.last().map(|(_, last)| *last);
                last.is_some_and(|last| match parts.files[form.file].is_log {
                    true => last.lines.end == form.lines.start,
                    false => last.file == form.file && last.bytes.end == form.bytes.start,
                })
            };
            match runs.last_mut().filter(touches) {
                Some(run) => run.forms.push((unit, form)),
                None => runs.push(Run { file: form.file, forms: vec![(unit, form)] }),
            }
        }
        runs
    }

    /// Returns the tokens of what is shown of a candidate, with its lines of the head; `None` if they are
    /// more than `limit`.
    fn cost(&self, candidate: usize, limit: usize) -> Option<usize> {
        let (mut cost, mut last, mut forms) = (0, None, Vec::new());
        for run in self.runs(candidate) {
            if last != Some(run.file) {
                cost += self.head(candidate, run.file);
                last = Some(run.file);
            }
            cost += self.fence + tokens_of(&run.lines());
            cost += self.stamps.tokens() * self.stamps.dated(&run).filter(|is_dated| *is_dated).count();
            forms.extend(run.forms);
        }
        // The others last, so that no more of them is counted than may fit.
        forms.sort_by_key(|(_, form)| !form.tokens.are_known());
        for (unit, form) in forms {
            cost += form.tokens_within(unit.speaker.as_deref(), limit.checked_sub(cost)?)?;
        }
        Some(cost)
    }

    /// Returns the tokens of the line of the head that names a file of a candidate.
    fn head(&self, candidate: usize, file: usize) -> usize {
        let candidate = &self.candidates[candidate];
        let counted = || count(&named(10, &piece_of(candidate, file).piece()));
        *candidate.parts.files[file].head.get_or_init(counted)
    }
}
