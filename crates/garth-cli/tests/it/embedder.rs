//! `garth recall` and `garth eval` with an embedding service.

use std::collections::HashSet;
use std::process::Command;

use garth_testkit::embedding_service::{EmbeddingService, reply};
use serde_json::{Value, json};

use super::garth::{Garth, finish, text};

const NAMES: [&str; 5] = ["alpha", "beta", "gamma", "delta", "epsilon"];
/// Questions with the same words, and the name in the text that the service finds nearest to each.
const QUESTIONS: [(&str, &str); 3] =
    [("which ferry note", "delta"), ("which note of the ferry", "alpha"), ("the ferry note, which", "gamma")];
const NO_FILE: [&str; 2] = ["--config", "/dev/null"];

/// Answers with vectors in which each name has an axis of its own, and each question one of a name.
fn good(texts: &[String]) -> (u16, String) {
    let vector = |text: &String| -> Vec<f64> {
        let named = QUESTIONS.iter().find(|(question, _)| question == text).map_or(text.as_str(), |of| of.1);
        NAMES.iter().map(|name| if named.contains(name) { 1.0 } else { 0.1 }).collect()
    };
    reply(texts.iter().map(vector), 10)
}

fn failing() -> EmbeddingService {
    EmbeddingService::start(|_| (500, String::new()))
}

/// Returns a data folder whose file names a service.
fn configured(service: &EmbeddingService, more: &str) -> Garth {
    let garth = Garth::new();
    let lines = format!("embedder_endpoint = {:?}\nembedder = \"small\"\n{more}", service.url());
    std::fs::write(garth.data().join("garth.toml"), lines).expect("a file");
    garth
}

/// Stores a memory for each name. All have the same words of the questions.
fn notes(garth: &Garth) {
    for name in NAMES {
        let uri = format!("ctx://default/users/ann/memories/events/{name}");
        garth.feed(&["memory", "put", &uri], &format!("The ferry note about {name}.\n"));
    }
}

fn ask(garth: &Garth, question: &str, options: &[&str]) -> Value {
    garth.json(&[&["recall", question][..], options].concat())
}

fn first(answer: &Value) -> &str {
    answer["items"][0]["source"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default()
}

/// Returns source, score and text of each piece.
fn shown(answer: &Value) -> Vec<[Value; 3]> {
    let items = answer["items"].as_array().expect("pieces");
    items.iter().map(|item| ["source", "score", "text"].map(|field| item[field].clone())).collect()
}

fn note(answer: &Value) -> &str {
    answer["notes"][0].as_str().unwrap_or_default()
}

/// Returns the number of embedding tokens that the account has used.
fn used(garth: &Garth) -> u64 {
    let printed = garth.ok(&["cat", "/.garth/embedder.json", "--raw"]);
    let json: Value = serde_json::from_str(&printed).expect("JSON");
    json["tokens"].as_u64().expect("a number")
}

#[test]
fn recall_uses_the_configured_embedder() {
    let service = EmbeddingService::start(good);
    let garth = configured(&service, "");
    notes(&garth);
    for (question, name) in QUESTIONS {
        let answer = ask(&garth, question, &[]);
        assert_eq!((first(&answer), &answer["notes"]), (name, &json!([])), "{question}: {answer}");
    }
    let of_user = ask(&garth, "which ferry note", &["--user", "ann"]);
    assert_eq!((first(&of_user), &of_user["notes"]), ("delta", &json!([])), "{of_user}");
    assert_eq!(service.count(), 4);
    // Neither a comparison by words nor one without the file asks anybody.
    ask(&garth, "which ferry note", &["--mode", "words"]);
    ask(&garth, "which ferry note", &NO_FILE);
    assert_eq!(service.count(), 4);
    let named = ["--embedder-endpoint", service.url(), "--embedder", "small"];
    let by_flags = ask(&garth, "which ferry note", &[&NO_FILE[..], &named].concat());
    assert_eq!((first(&by_flags), service.count()), ("delta", 5), "{by_flags}");
    let half = garth.fails(2, &[&["recall", "which ferry note"][..], &NO_FILE, &named[..2]].concat());
    assert!(half.contains("--embedder-endpoint requires embedder"), "{half}");
}

#[test]
fn recall_works_without_answer_of_embedder() {
    let service = failing();
    let garth = configured(&service, "");
    notes(&garth);
    let answer = ask(&garth, "which ferry note", &[]);
    assert_eq!(shown(&answer), shown(&ask(&garth, "which ferry note", &NO_FILE)));
    let reason = "refused the request (status 500)";
    assert!(note(&answer).contains(reason), "{answer}");
    assert!(garth.ok(&["recall", "which ferry note"]).contains(reason));
    assert_eq!(service.count(), 2);
}

#[test]
fn recall_counts_embedding_tokens_of_commands() {
    let service = EmbeddingService::start(good);
    let garth = configured(&service, "embedder_daily_tokens = 1000\n");
    notes(&garth);
    let newest = || garth.json(&["log", "-n", "1", "--raw"])["seq"].clone();
    let before = newest();
    ask(&garth, "which ferry note", &["--mode", "words"]);
    assert_eq!((newest(), service.count()), (before, 0), "nothing is counted where nobody is asked");
    let now = garth.seq().to_string();
    ask(&garth, "which ferry note", &[]);
    // As many as the service reports, and not those that were reserved.
    assert_eq!(used(&garth), 10);
    // Also those of a recall from the past.
    let past = ask(&garth, "which ferry note", &["--as-of", &now]);
    assert!(first(&past) == "delta" && note(&past).contains("Searched the current text"), "{past}");
    assert_eq!((used(&garth), service.count()), (20, 2));
    let over = ask(&garth, "which ferry note", &["--embedder-daily-tokens", "20"]);
    assert!(note(&over).contains("used up for today"), "{over}");
    assert_eq!((shown(&over).len(), used(&garth), service.count()), (5, 20, 2));
}

/// Writes a file of questions about memories that have the same words. Returns its name.
fn questions(garth: &Garth) -> &'static str {
    let memories = NAMES.map(|name| {
        let text = format!("The ferry note about {name}.");
        json!({"id": name, "user": "ann", "text": text})
    });
    let questions = QUESTIONS
        .map(|(question, name)| json!({"id": name, "question": question, "user": "ann", "evidence": [name]}));
    let line = json!({"name": "ferries", "memories": memories, "questions": questions});
    std::fs::write(garth.beside("set.jsonl"), format!("{line}\n")).expect("a file");
    "set.jsonl"
}

/// Returns the command of an evaluation with a budget that has no room for all memories.
fn eval(garth: &Garth, service: &EmbeddingService, options: &[&str]) -> Command {
    let file = questions(garth);
    let args = ["eval", file, "--store", "nodes", "--tokens", "100"];
    let mut command = garth.command(&[&args[..], options].concat());
    command.env("GARTH_EMBEDDER_ENDPOINT", service.url()).env("GARTH_EMBEDDER", "small");
    command
}

fn report(command: Command) -> Value {
    let output = finish(command, b"");
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_str(&text(&output.stdout)).expect("one report")
}

#[test]
fn eval_compares_by_embedder_if_asked() {
    let service = EmbeddingService::start(good);
    let garth = Garth::unmade();
    let without = report(eval(&garth, &service, &["--json"]));
    assert_eq!((&without["embedder_failed"], service.count()), (&Value::Null, 0), "{without}");
    assert!(without["evidence"]["100"].as_f64().expect("a share") < 1.0, "{without}");
    let with = report(eval(&garth, &service, &["--json", "--tokens", "1k", "--with-embedder"]));
    assert_eq!(with["embedder_failed"], 0, "{with}");
    assert_eq!(with["evidence"], json!({"100": 1.0, "1000": 1.0}), "{with}");
    // Each text is sent once, for all questions and budgets.
    let inputs = service.inputs();
    let each: HashSet<&String> = inputs.iter().collect();
    assert_eq!((inputs.len(), each.len()), (8, 8), "{inputs:?}");
    // An option of the service asks for it as well.
    let by_flag = report(eval(&garth, &service, &["--json", "--embedder", "other"]));
    assert_eq!((&by_flag["embedder_failed"], service.inputs().len()), (&json!(0), 16), "{by_flag}");
    assert!(!garth.data().exists(), "the data folder is left alone");
}

#[test]
fn eval_reports_failures_of_the_embedder() {
    let service = failing();
    let garth = Garth::unmade();
    let failed = report(eval(&garth, &service, &["--json", "--with-embedder"]));
    assert_eq!(failed["embedder_failed"], 3, "{failed}");
    let without = report(eval(&garth, &service, &["--json"]));
    assert_eq!(failed["evidence"], without["evidence"]);
    let table = finish(eval(&garth, &service, &["--with-embedder"]), b"");
    assert!(text(&table.stdout).contains("(embedding service failed: 3 of 3 questions)"), "{table:?}");
}

#[test]
fn eval_refuses_a_missing_embedder() {
    let garth = Garth::unmade();
    let eval = ["eval", questions(&garth)];
    for (options, due) in [
        (&["--with-embedder"][..], "set embedder_endpoint and embedder in garth.toml"),
        (&["--embedder", "small"], "--embedder requires embedder_endpoint (--embedder-endpoint)"),
        (&["--with-embedder", "--mode", "words"], "--mode words compares no meaning"),
    ] {
        let said = garth.fails(2, &[&eval[..], options].concat());
        assert!(said.contains(due), "{options:?}: {said}");
    }
}
