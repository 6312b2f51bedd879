//! `garth agent prompt` and `garth daily` as users run them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

use serde_json::{Value, json};

use super::garth::{Garth, text};

fn write(garth: &Garth, name: &str, content: &str) {
    garth.feed(&["write", "-p", &format!("/agents/scout/{name}")], content);
}

#[test]
fn prompt_prints_each_format() {
    let garth = Garth::new();
    write(&garth, "SOUL.md", "Kind.\n");
    let args = [
        "agent",
        "prompt",
        "--agent",
        "scout",
        "--clock",
        "2026-01-27T09:30:00Z",
        "--runtime",
        "Channel=mail",
    ];
    let plain = garth.ok(&args);
    assert!(
        plain.contains("\n\n---\n\n## Your Soul\n\nKind.\n\n---\n\n## Runtime\n\n- Agent: scout\n"),
        "{plain}"
    );
    assert!(
        plain.ends_with(
            "- Channel: mail\n- Time zone: UTC (UTC+00:00)\n- Date: 2026-01-27, Tuesday\n- Time: 09:30\n"
        ),
        "{plain}"
    );
    let form = |name: &str| garth.ok(&[&args[..], &["--format", name]].concat());
    let json: Value = serde_json::from_str(&form("json")).unwrap();
    assert_eq!(json["text"].as_str().unwrap(), plain.trim_end_matches('\n'));
    assert_eq!(json, garth.json(&args));
    let soul = json["parts"].as_array().unwrap().iter().find(|part| part["name"] == "soul").unwrap();
    assert_eq!((&soul["included"], &soul["reason"]), (&json!(true), &json!("the file is there")));
    assert!(form("markdown").contains("| soul: Your Soul | yes |"));
    let openai: Value = serde_json::from_str(&form("openai")).unwrap();
    assert_eq!(openai, json!([{"role": "system", "content": json["text"]}]));
    let anthropic: Value = serde_json::from_str(&form("anthropic")).unwrap();
    assert_eq!(anthropic[0]["cache_control"]["type"], "ephemeral");
    assert!(!garth.ok(&["agent", "prompt", "--agent", "scout", "--class", "dm"]).contains("Long-Term"));
}

#[test]
fn session_prompt_is_recorded_and_replayed() {
    let garth = Garth::new();
    write(&garth, "SOUL.md", "Kind.\n");
    write(&garth, "MEMORY.md", "Ann likes tea.\n");
    garth.ok(&["session", "create", "work", "--agent", "scout", "--user", "ann", "--class", "dm"]);
    let of = ["agent", "prompt", "--agent", "scout", "--user", "ann", "--session", "work"];
    let hosts = garth.beside("hosts.json");
    std::fs::write(&hosts, r#"[{"id":"laptop","os":"linux"}]"#).unwrap();
    let file = format!("@{}", hosts.display());
    let built = garth.json(&[&of[..], &["--host", &file]].concat());
    let told = built["text"].as_str().unwrap();
    assert!(told.contains("- Hosts: laptop") && !told.contains("tea"), "{told}");
    let events = || garth.ok(&["session", "events", "work", "--agent", "scout", "--user", "ann"]);
    assert!(built["event"].is_string() && events().matches("prompt.built").count() == 1);
    write(&garth, "SOUL.md", "Stern.\n");
    let seq = garth.json(&["stat", "/agents/scout/SOUL.md"])["version"].as_str().unwrap().to_owned();
    let dry = garth.ok(&[&of[..], &["--dry-run"]].concat());
    assert!(dry.contains("Stern.") && events().matches("prompt.built").count() == 1);
    let again = garth.json(&[&of[..], &["--at", &seq]].concat());
    assert_eq!((&again["text"], &again["replayed"]["same"]), (&built["text"], &json!(true)));
    let diff = garth.ok(&[
        "agent",
        "prompt",
        "diff",
        "--from",
        &seq,
        "--agent",
        "scout",
        "--user",
        "ann",
        "--session",
        "work",
    ]);
    assert!(diff.contains("~ soul ") && diff.contains("\n-Kind.\n+Stern.\n"), "{diff}");
    assert!(!diff.contains("hosts") && diff.contains(" the same\n"), "{diff}");
    garth.fails(3, &["agent", "prompt", "--agent", "scout", "--user", "bob", "--session", "work"]);
    garth.fails(3, &[&of[..], &["--class", "work"]].concat());
}

#[test]
fn prompt_diff_compares_two_times() {
    let garth = Garth::new();
    write(&garth, "SOUL.md", "Kind.\nCalm.\n");
    write(&garth, "TOOLS.md", "ssh\n");
    let then = garth.json(&["stat", "/agents/scout/TOOLS.md"])["version"].as_str().unwrap().to_owned();
    write(&garth, "SOUL.md", "Kind.\nQuick.\n");
    write(&garth, "USER.md", "Ann\n");
    garth.ok(&["rm", "/agents/scout/TOOLS.md"]);
    let args =
        ["agent", "prompt", "diff", "--from", &then, "--agent", "scout", "--clock", "2026-01-27T09:30:00Z"];
    let shown = garth.ok(&args);
    for line in ["+ user ", "- tools ", "~ soul ", "-Calm.", "+Quick."] {
        assert!(shown.lines().any(|found| found.starts_with(line)), "{line}: {shown}");
    }
    let json = garth.json(&args);
    assert_eq!(json["added"][0]["name"], "user");
    assert_eq!(json["removed"][0]["name"], "tools");
    assert!(json["changed"][0]["diff"].as_str().unwrap().contains("-Calm.\n+Quick.\n"));
    assert_eq!(json["changed"].as_array().unwrap().len(), 1);
    let same = garth.ok(&[
        "agent",
        "prompt",
        "diff",
        "--from",
        &then,
        "--to",
        &then,
        "--agent",
        "scout",
        "--clock",
        "2026-01-27T09:30:00Z",
    ]);
    assert_eq!(same.lines().count(), 1, "{same}");
    let unknown = garth.fails(2, &["agent", "prompt", "--agent", "scout", "--at", &then]);
    assert!(unknown.contains("--host, --runtime, --clock"), "{unknown}");
}

#[test]
fn rejects_invalid_prompt_inputs() {
    let garth = Garth::new();
    for args in [
        &["--host", "{"][..],
        &["--runtime", "Channel"],
        &["--runtime", "a=1", "--runtime", "a=2"],
        &["--clock", "noon"],
        &["--format", "xml"],
        &["--class", "group"],
    ] {
        garth.fails(2, &[&["agent", "prompt"], args].concat());
    }
    garth.fails(3, &["agent", "prompt", "--host", "@/no/such/file"]);
    garth.fails(3, &["ls", "/none", "--session", "s"]);
    garth.fails(3, &["agent", "prompt", "--session", "none"]);
}

#[test]
fn daily_memory_is_shown_by_class() {
    let garth = Garth::unmade();
    let agent = ["--agent", "scout"];
    let day = ["--day", "2026-01-27"];
    garth.ok(&[&["daily", "add", "Ann likes tea."], &agent[..], &day].concat());
    garth.feed(&[&["daily", "add", "--class", "dm", "-"], &agent[..], &day].concat(), "Bob said hello.\n");
    garth.feed(&[&["daily", "add"], &agent[..], &["--day", "2026-01-25"]].concat(), "Rain.\n");
    let show = |class: &str| garth.ok(&["daily", "show", "2026-01-27", "--agent", "scout", "--class", class]);
    let all = show("main");
    assert!(all.starts_with("### Remembered ("), "{all}");
    assert!(all.contains("Ann likes tea.\n") && !all.contains("Bob"), "{all}");
    let own = show("dm");
    assert!(own.contains("Bob said hello.") && !own.contains("tea") && !own.contains("<!--"), "{own}");
    let json = garth.json(&["daily", "show", "2026-01-27", "--agent", "scout"]);
    assert_eq!((&json["day"], &json["parts"][0]["class"]), (&json!("2026-01-27"), &json!("main")));
    let days = |more: &[&str]| garth.lines(&[&["daily", "list", "--agent", "scout"], more].concat());
    let names: Vec<_> = days(&[]).iter().map(|day| day["day"].clone()).collect();
    assert_eq!(names, ["2026-01-25", "2026-01-27"]);
    assert_eq!(days(&["--class", "dm"]).len(), 1);
    assert_eq!(days(&["--after", "2026-01-25"]).len(), 1);
    assert_eq!(days(&["-n", "1"])[0]["day"], "2026-01-25");
    garth.fails(3, &["daily", "show", "2026-01-25", "--agent", "scout", "--class", "dm"]);
    garth.fails(3, &["daily", "show", "2026-01-20", "--agent", "scout"]);
    let bad = garth.fails(2, &["daily", "show", "2026-1-2"]);
    assert!(bad.contains("2026-01-27"), "{bad}");
    let empty = garth.run(&["daily", "add", "--agent", "scout"], b" \n");
    assert!(text(&empty.stderr).contains("the text is empty"), "{}", text(&empty.stderr));
}

#[test]
fn days_are_named_yesterday_and_today() {
    let garth = Garth::unmade();
    let added = |text: &str, day: &str| {
        let path = garth.json(&["daily", "add", text, "--day", day])["path"].as_str().unwrap().to_owned();
        path.rsplit('/').next().unwrap().trim_end_matches(".md").to_owned()
    };
    // In this order midnight between the two changes nothing.
    let (yesterday, today) = (added("Ann called.", "yesterday"), added("Ann came.", "today"));
    assert!(yesterday < today, "{yesterday} {today}");
    assert!(garth.ok(&["daily", "show", &yesterday]).contains("Ann called."));
    assert!(garth.ok(&["daily", "show", &today]).contains("Ann came."));
    assert!(garth.fails(2, &["daily", "show", "tomorrow"]).contains("today or yesterday"));
}

/// Starts an endpoint whose model answers once. Returns its URL.
fn endpoint(answer: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let body = json!({"choices": [{"message": {"role": "assistant", "content": answer}}]}).to_string();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept()?;
        let (mut request, mut length) = (BufReader::new(&stream), 0);
        for line in request.by_ref().lines() {
            let line = line?.to_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().expect("a length");
            }
        }
        request.read_exact(&mut vec![0; length])?;
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        (&stream).write_all((head + &body).as_bytes())
    });
    url
}

#[test]
fn daily_jobs_ask_the_model_again() {
    let garth = Garth::new();
    garth.ok(&["session", "create", "work", "--key", "agent:default:main"]);
    garth.feed(&["session", "append", "work", "--role", "user"], "I drink tea.\n");
    let nobody = ["--model-endpoint", "http://127.0.0.1:1/v1", "--model", "m"];
    let done = garth.json(&[&["session", "archive", "work"], &nobody[..]].concat());
    let job = format!("/.outbox/jobs/{}.json", done["job"].as_str().unwrap());
    assert!(garth.ok(&["cat", &job]).contains("PENDING"));
    garth.fails(2, &["daily", "jobs"]);
    let url = endpoint("- Drinks tea.");
    let done = garth.json(&["daily", "jobs", "--model-endpoint", &url, "--model", "m"]);
    assert_eq!(done, json!({"done": 1, "failed": 0, "next": null}));
    assert!(garth.ok(&["daily", "show"]).contains("- Drinks tea."));
    garth.fails(3, &["cat", &job]);
}
