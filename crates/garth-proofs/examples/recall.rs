//! Share of the evidence in answers of recall, next to plain BM25 over the same texts:
//!
//! ```sh
//! cargo run --profile prove -p garth-proofs --example recall [SET]... [STORE]... [losses]
//! ```
//!
//! With `losses` it also lists the questions of which BM25 shows more of the evidence.
#![allow(clippy::print_stdout, reason = "its purpose is to print figures")]

#[path = "recall/baseline.rs"]
mod baseline;

use futures::executor::block_on;
use garth_agent::eval::{BUDGETS, Conversation, Conversations, Evaluation, Report, Store};
use garth_engine::Env;
use garth_engine::engine::sqlite::SqliteFs;
use garth_testkit::data::conversation;
use garth_testkit::data::random::Random;
use serde_json::{Value, json};

use self::baseline::Baseline;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

const PARAPHRASES: &str = include_str!("../../garth-testkit/data/recall/paraphrases.jsonl");
const FACTS: &str = include_str!("../../garth-testkit/data/recall/facts.jsonl");
const UNKNOWN: &str = include_str!("../../garth-testkit/data/recall/unknown.jsonl");
/// Budget whose difference to the baseline is tested.
const TESTED: usize = 2_000;
/// Word that asks for the questions of which BM25 shows more.
const LOSSES: &str = "losses";
/// Samples of the questions for the interval of the difference.
const DRAWS: usize = 10_000;

/// Result of one question: share of the evidence for each of [`BUDGETS`], and in the first ten hits.
struct Shares {
    shown: Vec<f64>,
    hits: f64,
    has_evidence: bool,
    is_nothing_found: bool,
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let sets = [
        ("generated", generated()?),
        ("paraphrases", PARAPHRASES.to_owned()),
        ("facts", format!("{FACTS}{UNKNOWN}")),
    ];
    let is_chosen = |name: &str, all: &[&str]| {
        words.iter().any(|word| word == name) || !words.iter().any(|word| all.contains(&&**word))
    };
    let (names, stores) = (sets.each_ref().map(|set| set.0), Store::ALL.map(Store::name));
    let is_known = |word: &str| names.contains(&word) || stores.contains(&word) || word == LOSSES;
    if let Some(word) = words.iter().find(|word| !is_known(word)) {
        let (names, stores) = (names.join(", "), stores.join(", "));
        return Err(format!("{word}: name sets ({names}), stores ({stores}) or {LOSSES}").into());
    }
    print!("{:<12} {:<10}", "set", "store");
    BUDGETS.iter().for_each(|budget| print!("{budget:>7}"));
    println!("{:>7}{:>9}{:>11}", "R@10", "unknown", "recall p50");
    for (set, lines) in sets.iter().filter(|(name, _)| is_chosen(name, &names)) {
        let conversations = Conversations::new(lines.as_bytes()).collect::<garth_engine::Result<Vec<_>>>()?;
        let base = Baseline::of(&conversations);
        print_row(set, "(bm25)", &base, None);
        for store in Store::ALL.into_iter().filter(|store| is_chosen(store.name(), &stores)) {
            let report = evaluated(&conversations, store)?;
            let garth: Vec<Shares> = report.results.iter().map(Shares::from).collect();
            print_row(set, store.name(), &garth, Some(report.recall[report.recall.len() / 2]));
            print_difference(&garth, &base);
            if words.iter().any(|word| word == LOSSES) {
                print_losses(&conversations, &garth, &base);
            }
        }
    }
    Ok(())
}

fn evaluated(conversations: &[Conversation], store: Store) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let env = Env::system();
    let fs = SqliteFs::open(folder.path(), env.clone(), garth_agent::registry())?;
    let mut evaluation = Evaluation::new(&*fs, "default", store).env(env);
    for conversation in conversations {
        block_on(evaluation.add(conversation))?;
    }
    Ok(block_on(evaluation.report())?)
}

impl From<&garth_agent::eval::QuestionResult> for Shares {
    fn from(result: &garth_agent::eval::QuestionResult) -> Self {
        Self {
            shown: result.shown.clone(),
            hits: result.hits,
            has_evidence: result.has_evidence,
            is_nothing_found: result.is_nothing_found,
        }
    }
}

fn print_row(set: &str, store: &str, results: &[Shares], p50: Option<std::time::Duration>) {
    let mean = |of: &dyn Fn(&Shares) -> Option<f64>| {
        let values: Vec<f64> = results.iter().filter_map(of).collect();
        if values.is_empty() { "-".to_owned() } else { format!("{:.3}", average(&values)) }
    };
    print!("{set:<12} {store:<10}");
    for at in 0..BUDGETS.len() {
        print!("{:>7}", mean(&|one| one.has_evidence.then(|| one.shown[at])));
    }
    print!("{:>7}", mean(&|one| one.has_evidence.then_some(one.hits)));
    print!("{:>9}", mean(&|one| (!one.has_evidence).then_some(f64::from(u8::from(one.is_nothing_found)))));
    println!(
        "{:>11}",
        p50.map_or_else(|| "-".to_owned(), |time| format!("{:.1} ms", time.as_secs_f64() * 1e3))
    );
}

/// Prints the mean difference to the baseline, and the interval that has 95% of the means of samples of the
/// questions (paired bootstrap).
fn print_difference(garth: &[Shares], base: &[Shares]) {
    let at = BUDGETS.iter().position(|budget| *budget == TESTED).unwrap_or_default();
    let pairs = garth.iter().zip(base).filter(|(one, _)| one.has_evidence);
    let differences: Vec<f64> = pairs.map(|(one, other)| one.shown[at] - other.shown[at]).collect();
    let mut random = Random::new(20_260_103);
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn =
                (0..differences.len()).map(|_| differences[random.below(differences.len() as u64) as usize]);
            drawn.sum::<f64>() / differences.len() as f64
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    println!(
        "{:23}garth - bm25 at {TESTED}: {:+.3}, 95% of samples {:+.3} to {:+.3}",
        "",
        average(&differences),
        means[DRAWS / 40],
        means[DRAWS - 1 - DRAWS / 40],
    );
}

/// Prints the questions of which the baseline shows more of the evidence, with that evidence.
fn print_losses(conversations: &[Conversation], garth: &[Shares], base: &[Shares]) {
    let questions = conversations.iter().flat_map(|one| one.questions.iter().map(move |asked| (one, asked)));
    for ((conversation, asked), (garth, base)) in questions.zip(garth.iter().zip(base)) {
        if BUDGETS.iter().enumerate().all(|(at, _)| garth.shown[at] >= base.shown[at]) {
            continue;
        }
        println!("{}: {}", asked.id, asked.question);
        println!("    garth {:?}, bm25 {:?}", garth.shown, base.shown);
        for text in asked.evidence.iter().filter_map(|id| conversation.evidence(asked, id)) {
            println!("    evidence: {text}");
        }
    }
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the generated set as one conversation, which all questions are asked of.
fn generated() -> Result<String> {
    let set = conversation::Conversations::made();
    let turns = |session: &conversation::Session| {
        session.turns.iter().map(|turn| serde_json::from_str(turn)).collect::<Result<Vec<Value>, _>>()
    };
    let mut sessions = Vec::new();
    for session in &set.sessions {
        sessions.push(json!({"name": session.name, "messages": turns(session)?}));
    }
    let questions = set.questions.iter().enumerate().map(|(number, question)| {
        let evidence = &sessions[question.session]["messages"][question.turn]["id"];
        let (id, kind) = (format!("q{number}"), format!("{:?}", question.told));
        json!({"id": id, "question": question.text, "evidence": [evidence], "kind": kind})
    });
    let questions: Vec<Value> = questions.collect();
    Ok(json!({"name": "generated", "sessions": sessions, "questions": questions}).to_string())
}
