//! BM25 over turns, without anything else: the answer that a few lines of code give.

use std::collections::{BTreeSet, HashMap};

use garth_agent::count::count;
use garth_agent::eval::{BUDGETS, Conversation, HITS, Question, contains};
use garth_engine::text::question::Question as Parsed;
use garth_engine::text::token::{of_word, words};

use super::Shares;

/// Saturation of repeated words.
const K1: f64 = 1.2;
/// Share of the length of a turn that counts.
const B: f64 = 0.75;

/// Turns or memories that a question is asked of.
pub(super) struct Baseline {
    units: Vec<Unit>,
    /// Mean number of words of a unit.
    length: f64,
    /// Number of units that have each word.
    having: HashMap<String, usize>,
}

/// Turn, or memory.
struct Unit {
    /// Number of its session. A memory has one of its own, so it has no neighbours.
    session: usize,
    text: String,
    tokens: usize,
    words: HashMap<String, f64>,
    length: f64,
}

impl Baseline {
    /// Answers the questions of all conversations, in their order.
    pub(super) fn of(conversations: &[Conversation]) -> Vec<Shares> {
        let mut users: HashMap<&str, Self> = HashMap::new();
        let mut results = Vec::new();
        for conversation in conversations {
            let own = Self::new(conversation.sessions.iter().enumerate().flat_map(|(session, group)| {
                let line = |text: &garth_agent::eval::Text| {
                    let role = serde_json::to_value(text.role).unwrap_or_default();
                    let speaker = text.name.as_deref().or(role.as_str()).unwrap_or_default().to_owned();
                    (session, format!("{speaker}: {}\n", text.content))
                };
                group.messages.iter().map(line).collect::<Vec<_>>()
            }));
            for question in &conversation.questions {
                let asked = match question.user.as_deref() {
                    Some(user) => users.entry(user).or_insert_with(|| {
                        let all = conversations.iter().flat_map(|conversation| &conversation.memories);
                        let all = all.filter(|memory| memory.user == user).enumerate();
                        Self::new(all.map(|(session, memory)| (session, format!("{}\n", memory.text))))
                    }),
                    None => &own,
                };
                let evidence = question.evidence.iter().filter_map(|id| conversation.evidence(question, id));
                results.push(asked.answer(question, &evidence.collect::<Vec<_>>()));
            }
        }
        results
    }

    fn new(texts: impl Iterator<Item = (usize, String)>) -> Self {
        let units: Vec<Unit> = texts.map(|(session, text)| Unit::new(session, text)).collect();
        let mut having = HashMap::new();
        for word in units.iter().flat_map(|unit| unit.words.keys()) {
            *having.entry(word.clone()).or_default() += 1;
        }
        let length = units.iter().map(|unit| unit.length).sum::<f64>() / units.len().max(1) as f64;
        Self { units, length, having }
    }

    fn answer(&self, question: &Question, evidence: &[&str]) -> Shares {
        let ranked = self.ranked(&question.question);
        let share = |units: &[usize]| {
            let is_shown = |one: &&&str| units.iter().any(|unit| contains(&self.units[*unit].text, one));
            evidence.iter().filter(is_shown).count() as f64 / evidence.len().max(1) as f64
        };
        Shares {
            shown: BUDGETS.iter().map(|budget| share(&self.filled(&ranked, *budget))).collect(),
            hits: share(&ranked[..ranked.len().min(HITS)]),
            has_evidence: !evidence.is_empty(),
            is_nothing_found: ranked.is_empty(),
        }
    }

    /// Returns the units with words of the question, the best first.
    fn ranked(&self, question: &str) -> Vec<usize> {
        let Some(question) = Parsed::parse(question) else { return Vec::new() };
        let all = self.units.len() as f64;
        let score = |unit: &Unit| {
            let terms = question.terms().iter().filter_map(|term| {
                let (times, having) = (unit.words.get(&term.token)?, self.having[&term.token] as f64);
                let weight = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
                Some(weight * times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * unit.length / self.length)))
            });
            terms.sum::<f64>()
        };
        let scores: Vec<f64> = self.units.iter().map(score).collect();
        let mut ranked: Vec<usize> = (0..scores.len()).filter(|unit| scores[*unit] > 0.0).collect();
        // The sort is stable: of equal units the first is first.
        ranked.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]));
        ranked
    }

    /// Returns the units of an answer: each ranked unit that fits with its neighbours.
    fn filled(&self, ranked: &[usize], budget: usize) -> Vec<usize> {
        let (mut taken, mut spent) = (BTreeSet::new(), 0);
        for unit in ranked {
            let around = unit.saturating_sub(1)..(unit + 2).min(self.units.len());
            let session = self.units[*unit].session;
            let more = around.filter(|other| self.units[*other].session == session && !taken.contains(other));
            let more: Vec<usize> = more.collect();
            let cost: usize = more.iter().map(|other| self.units[*other].tokens).sum();
            if spent + cost <= budget {
                spent += cost;
                taken.extend(more);
            }
        }
        taken.into_iter().collect()
    }
}

impl Unit {
    fn new(session: usize, text: String) -> Self {
        let mut counted: HashMap<String, f64> = HashMap::new();
        for token in words(&text).flat_map(|(_, word)| of_word(word)) {
            *counted.entry(token).or_default() += 1.0;
        }
        let length = counted.values().sum();
        Self { session, tokens: count(&text), text, words: counted, length }
    }
}
