//! Figures of an evaluation.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::store::Store;

/// Number of hits of a search that count.
pub const HITS: usize = 10;

/// Result of one question.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QuestionResult {
    /// Id of the question.
    pub id: String,
    /// Name of its conversation.
    pub conversation: String,
    /// Kind of the question.
    pub kind: Option<String>,
    /// False if no text answers the question.
    pub has_evidence: bool,
    /// Share of its evidence that the answer of each budget contains, in the order of the budgets.
    pub shown: Vec<f64>,
    /// Share of its evidence that the first [`HITS`] hits of a search contain.
    pub hits: f64,
    /// True if nothing fits the question in any answer.
    pub is_nothing_found: bool,
    /// True if the embedding service did not compare the texts of one of the answers.
    pub embedder_failed: bool,
}

/// Figures of an evaluation. `Display` prints a row under [`Report::header`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Way in which the conversations were stored.
    pub store: Store,
    /// Token budgets.
    pub budgets: Vec<usize>,
    /// Results, in the order of the questions.
    pub results: Vec<QuestionResult>,
    /// Durations of the recalls, the shortest first.
    pub recall: Vec<Duration>,
    /// Durations of the searches, the shortest first.
    pub search: Vec<Duration>,
    /// True if the recalls used an embedding service.
    pub with_embedder: bool,
}

impl Report {
    pub(super) fn new(store: Store, budgets: Vec<usize>) -> Self {
        Self {
            store,
            budgets,
            results: Vec::new(),
            recall: Vec::new(),
            search: Vec::new(),
            with_embedder: false,
        }
    }

    pub(super) fn sort(&mut self) {
        self.recall.sort_unstable();
        self.search.sort_unstable();
    }

    /// Returns the mean share of the evidence in the answers of a budget; `None` without such a question or
    /// budget.
    pub fn evidence(&self, budget: usize) -> Option<f64> {
        let at = self.budgets.iter().position(|own| *own == budget)?;
        mean(&self.results, |result| result.has_evidence.then(|| result.shown[at]))
    }

    /// Returns the mean share of the evidence in the first [`HITS`] hits.
    pub fn hits(&self) -> Option<f64> {
        mean(&self.results, |result| result.has_evidence.then_some(result.hits))
    }

    /// Returns the share of questions without evidence for which nothing was found.
    pub fn unknown(&self) -> Option<f64> {
        let nothing = |result: &QuestionResult| if result.is_nothing_found { 1.0 } else { 0.0 };
        mean(&self.results, |result| (!result.has_evidence).then(|| nothing(result)))
    }

    /// Returns the number of questions with an answer whose texts the embedding service did not compare: it
    /// failed, or its tokens were used up. `None` if the recalls used no service.
    pub fn embedder_failed(&self) -> Option<usize> {
        self.with_embedder.then(|| self.results.iter().filter(|result| result.embedder_failed).count())
    }

    /// Returns the heads of the columns.
    pub fn header(budgets: &[usize]) -> String {
        let budgets: String = budgets.iter().map(|budget| format!("{budget:>8}")).collect();
        format!(
            "{:<10}{:>10}{budgets}{:>8}{:>9}{:>16}{:>16}",
            "store", "questions", "R@10", "unknown", "recall p50/p95", "search p50/p95"
        )
    }

    /// Returns the figures as an object: `store`, `questions`, `evidence` by budget, `hits`, `unknown`,
    /// `kinds`, `recall` and `search` with `p50_ms` and `p95_ms`, and `embedder_failed`.
    pub fn to_json(&self) -> Value {
        let mut kinds: BTreeMap<&str, Vec<&QuestionResult>> = BTreeMap::new();
        for result in self.results.iter().filter(|result| result.has_evidence) {
            if let Some(kind) = &result.kind {
                kinds.entry(kind).or_default().push(result);
            }
        }
        let by_budget = |results: &[&QuestionResult]| -> Map<String, Value> {
            let budgets = self.budgets.iter().enumerate();
            let own = |at: usize| {
                mean(results.iter().copied(), |result| result.has_evidence.then(|| result.shown[at]))
            };
            budgets.map(|(at, budget)| (budget.to_string(), json!(own(at)))).collect()
        };
        let times = |sorted: &[Duration]| {
            let ms = |percent| percentile(sorted, percent).map(|time| time.as_secs_f64() * 1e3);
            json!({"p50_ms": ms(50), "p95_ms": ms(95)})
        };
        let all: Vec<&QuestionResult> = self.results.iter().collect();
        let kinds: Map<String, Value> = kinds
            .into_iter()
            .map(|(kind, results)| {
                let value = json!({"questions": results.len(), "evidence": by_budget(&results)});
                (kind.to_owned(), value)
            })
            .collect();
        json!({
            "store": self.store.name(),
            "questions": self.results.len(),
            "evidence": by_budget(&all),
            "hits": self.hits(),
            "unknown": self.unknown(),
            "kinds": kinds,
            "recall": times(&self.recall),
            "search": times(&self.search),
            "embedder_failed": self.embedder_failed(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{share:.3}"));
        write!(f, "{:<10}{:>10}", self.store.name(), self.results.len())?;
        for budget in &self.budgets {
            write!(f, "{:>8}", share(self.evidence(*budget)))?;
        }
        write!(f, "{:>8}{:>9}", share(self.hits()), share(self.unknown()))?;
        for sorted in [&self.recall, &self.search] {
            let ms = |percent| {
                let time = percentile(sorted, percent);
                time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1e3))
            };
            write!(f, "{:>16}", format!("{}/{} ms", ms(50), ms(95)))?;
        }
        // Such a row says nothing about the service.
        match self.embedder_failed() {
            Some(failed) if failed > 0 => {
                write!(f, "  (embedding service failed: {failed} of {} questions)", self.results.len())
            }
            _ => Ok(()),
        }
    }
}

/// Returns the mean of the results that have a value.
fn mean<'r>(
    results: impl IntoIterator<Item = &'r QuestionResult>,
    of: impl Fn(&QuestionResult) -> Option<f64>,
) -> Option<f64> {
    let (sum, count) =
        results.into_iter().filter_map(of).fold((0.0, 0_u32), |(sum, count), one| (sum + one, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Returns the value below or at which `percent` of the sorted values are.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}
