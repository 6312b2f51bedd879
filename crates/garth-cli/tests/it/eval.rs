//! `garth eval`.

use super::garth::Garth;

const LINES: &str = concat!(
    r#"{"name":"flat","sessions":[{"name":"monday","time":"2026-01-12T07:48:00Z","messages":[{"id":"m1","#,
    r#""role":"user","content":"The boiler shows \"F22\" and\nflashes."},{"id":"m2","role":"assistant","#,
    r#""content":"Top it up with the filling loop."},{"id":"m3","role":"user","name":"Ann","#,
    r#""content":"My tram leaves at ten."}]}],"questions":[{"id":"q1","#,
    r#""question":"What does the boiler show?","evidence":["m1"],"kind":"plain"},{"id":"q2","#,
    r#""question":"When does the tram leave?","evidence":["m3"]}]}"#,
    "\n",
    "\n",
    r#"{"name":"people","memories":[{"id":"m1","user":"mira","text":"Takes her coffee black."},{"id":"m2","#,
    r#""user":"ben","text":"Drinks no coffee."}],"questions":[{"id":"q3","#,
    r#""question":"How does she like her coffee?","user":"mira","evidence":["m1"]},{"id":"q4","#,
    r#""question":"Which submarine does he own?","user":"ben","evidence":[]}]}"#,
    "\n",
);

#[test]
fn eval_finds_evidence_in_every_store() {
    let garth = Garth::unmade();
    let stores = ["values", "turns", "session", "markdown", "nodes"];
    let mut args = vec!["eval", "-", "--json", "--tokens", "500", "--tokens", "1k"];
    args.extend(stores.iter().flat_map(|store| ["--store", store]));
    let printed = garth.feed(&args, LINES);
    let reports: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = reports.iter().map(|report| report["store"].as_str().unwrap()).collect();
    assert_eq!(names, stores);
    for report in &reports {
        assert_eq!(report["questions"], 4, "{report}");
        assert_eq!(report["evidence"], serde_json::json!({"500": 1.0, "1000": 1.0}), "{report}");
        assert_eq!((&report["hits"], &report["unknown"]), (&1.0.into(), &1.0.into()), "{report}");
        assert_eq!(report["kinds"]["plain"]["questions"], 1, "{report}");
        assert!(report["recall"]["p95_ms"].as_f64() >= report["recall"]["p50_ms"].as_f64(), "{report}");
    }
    assert!(!garth.data().exists(), "the data folder is left alone");
}

#[test]
fn eval_prints_a_table_by_default() {
    let printed = Garth::unmade().feed(&["eval", "-"], LINES);
    let lines: Vec<&str> = printed.lines().collect();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        words(lines[0])[..8],
        ["store", "questions", "500", "1000", "2000", "4000", "R@10", "unknown"]
    );
    assert_eq!(words(lines[1])[..8], ["turns", "4", "1.000", "1.000", "1.000", "1.000", "1.000", "1.000"]);
    assert_eq!(lines.len(), 2);
}

#[test]
fn eval_ignores_a_byte_order_mark() {
    let printed = Garth::unmade().feed(&["eval", "-"], &format!("\u{feff}{LINES}"));
    assert!(printed.contains("turns"), "{printed}");
}

#[test]
fn eval_refuses_a_directory_as_file() {
    let garth = Garth::unmade();
    std::fs::create_dir(garth.beside("set")).unwrap();
    assert_eq!(garth.fails(1, &["eval", "set"]).trim_end(), "garth: set: is a directory; a file is expected");
}

#[test]
fn eval_errors_name_line_and_field() {
    let garth = Garth::unmade();
    let first = r#"{"name":"a"}"#;
    for (line, named) in [
        ("{", "line 2"),
        ("[]", "line 2: has to be a JSON object"),
        (r#"{"nam":"a"}"#, "line 2: nam: unknown field"),
        (r#"{"sessions":[]}"#, "line 2: name: has to be"),
        (r#"{"name":"a","sessions":[{"name":"s","time":"noon"}]}"#, "sessions[0].time"),
        (
            r#"{"name":"a","sessions":[{"name":"s","messages":[{"id":"m","role":"tool","content":"x"}]}]}"#,
            "sessions[0].messages[0].role",
        ),
        (r#"{"name":"a","questions":[{"id":"q","question":"x"}]}"#, "questions[0].evidence"),
        (
            r#"{"name":"a","questions":[{"id":"q","question":"x","evidence":["m"]}]}"#,
            "questions[0].evidence[0]: m is the id of no text",
        ),
        (
            r#"{"name":"a","memories":[{"id":"m","user":"u","text":"x"}],"questions":[{"id":"q","question":"x","evidence":["m"]}]}"#,
            "questions[0].evidence[0]: m is a memory of u",
        ),
    ] {
        std::fs::write(garth.beside("set.jsonl"), format!("{first}\n{line}\n")).unwrap();
        let error = garth.fails(2, &["eval", "set.jsonl"]);
        assert!(error.contains("set.jsonl: line 2") && error.contains(named), "{line}: {error}");
    }
    std::fs::write(garth.beside("set.jsonl"), first).unwrap();
    assert!(garth.fails(2, &["eval", "set.jsonl"]).contains("has no questions"));
    garth.fails(3, &["eval", "none.jsonl"]);
    assert!(garth.fails(2, &["eval", "set.jsonl", "--tokens", "10"]).contains("100 to 32000"));
    garth.fails(2, &["eval", "set.jsonl", "--store", "cards"]);
}
