//! The workspace of an agent over HTTP.

use std::sync::Arc;

use futures::executor::block_on;
use garth_engine::FileSystemExt as _;
use garth_engine::datadir::{NewKey, Scope};
use garth_engine::model::Seq;
use garth_server::Options;
use garth_server::chat_model::{HttpModel, ServedModel};
use serde_json::{Value, json};

use super::chat_model::endpoint;
use super::harness::Server;

/// A workspace with a soul and a long-term memory, and a session `work` with a few messages.
fn with_session() -> Server {
    let server = Server::start();
    session(&server);
    server
}

fn session(server: &Server) {
    server.own("scout", "ann");
    let account = futures::executor::block_on(server.home.account("acme")).unwrap();
    for (name, text) in [("SOUL.md", "Be kind."), ("MEMORY.md", "Ann likes tea.")] {
        let path = garth_engine::TreePath::parse(&format!("/agents/scout/{name}")).unwrap();
        let op = garth_engine::model::Op::write(path, text).with_parents();
        futures::executor::block_on(account.commit(garth_engine::model::Batch::new([op]))).unwrap();
    }
    let of = json!({"agent": "scout", "user": "ann", "name": "work", "key": "agent:scout:main", "model": "m",
        "context_window": 30_000});
    server.ok("sessions/create", of.to_string());
    let messages: Vec<Value> = (1..=6)
        .flat_map(|n| {
            let (asked, said) = (format!("question {n}"), "word ".repeat(5000));
            [json!({"role": "user", "content": asked}), json!({"role": "assistant", "content": said})]
        })
        .collect();
    let append = json!({"agent": "scout", "user": "ann", "name": "work", "messages": messages});
    server.ok("sessions/append", append.to_string());
}

fn head(server: &Server) -> Seq {
    block_on(block_on(server.home.account("acme")).unwrap().head()).unwrap().seq
}

#[test]
fn agent_is_created_once_with_its_owner() {
    let server = Server::start();
    let body = json!({"owner": "ann", "time_zone": "Europe/Berlin", "bootstrap": false});
    let create = |body: &Value| server.post("agents/helper%20bot/create", body.to_string());
    let created = create(&body).json();
    let made: Vec<&str> =
        created["made"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    assert_eq!((&created["agent"], &created["kept"]), (&json!("helper bot"), &json!([])), "{created}");
    assert!(created["seq"].is_u64(), "{created}");
    assert!(made.len() == 7 && made.contains(&"/agents/helper bot/SOUL.md"), "{made:?}");
    let account = block_on(server.home.account("acme")).unwrap();
    let settings = block_on(account.read_to_string("/agents/helper bot/settings.json")).unwrap();
    let settings: Value = serde_json::from_str(&settings).unwrap();
    assert_eq!((&settings["owner"], &settings["time_zone"]), (&json!("ann"), &json!("Europe/Berlin")));
    let before = head(&server);
    let again = create(&json!({})).json();
    assert_eq!((&again["made"], &again["seq"]), (&json!([]), &Value::Null), "{again}");
    assert_eq!(again["kept"].as_array().unwrap().len(), 7);
    let other = create(&json!({"owner": "bob"})).refused(409, "PATH_CONFLICT");
    assert!(other.contains("has another owner"), "{other}");
    assert_eq!(head(&server), before);
    server.ok("agents/scout/create", "{}");
    assert!(block_on(account.exists("/agents/scout/BOOTSTRAP.md")).unwrap());
}

#[test]
fn agent_is_created_with_a_given_or_new_id() {
    let server = Server::start();
    let create = |key: &str, body: &str| {
        let headers = format!("authorization: Bearer {}\r\n{key}", server.key);
        let reply = server.request("POST", "/v1/agents", &headers, body.as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    };
    let given = create("", r#"{"agent_id":"scout","owner":"ann","bootstrap":false}"#);
    assert_eq!((&given["agent"], given["made"].as_array().unwrap().len()), (&json!("scout"), 7), "{given}");
    let again = server.ok("agents/scout/create", r#"{"owner":"ann","bootstrap":false}"#);
    assert_eq!((&again["made"], &again["kept"]), (&json!([]), &given["made"]));
    // A repeat gets the id that the first request drew.
    let once = "idempotency-key: k\r\n";
    let (first, repeat, other) = (create(once, "{}"), create(once, "{}"), create("", "{}"));
    assert_eq!(first, repeat);
    let [first, other] = [&first, &other].map(|created| created["agent"].as_str().unwrap());
    assert!(first.len() == 36 && other.len() == 36 && first != other, "{first} {other}");
    let account = block_on(server.home.account("acme")).unwrap();
    for agent in [first, other] {
        assert!(block_on(account.exists(format!("/agents/{agent}/SOUL.md").as_str())).unwrap());
    }
    server.post("agents", r#"{"agent_id":"a/b"}"#).refused(400, "VALIDATION_ERROR");
    server.post("agents", r#"{"agent_id":"scout","owner":"bob"}"#).refused(409, "PATH_CONFLICT");
    let reader = server.key("acme", &[Scope::MemoryRead, Scope::MemoryWrite]);
    server.post_as(&reader, "agents", "{}").refused(403, "FORBIDDEN");
}

#[test]
fn only_administrators_create_agents() {
    let server = Server::start();
    let before = head(&server);
    let all_others =
        [Scope::MemoryRead, Scope::MemoryWrite, Scope::SearchRead, Scope::FilesRead, Scope::FilesWrite];
    let bound = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    for key in [bound, server.key("acme", &all_others)] {
        server.post_as(&key, "agents/scout/create", "{}").refused(403, "FORBIDDEN");
    }
    let operator = block_on(server.home.control().issue_key(NewKey::new(None, &[Scope::Admin]))).unwrap();
    let operator = operator.1.reveal();
    server.post_as(operator, "agents/scout/create", "{}").refused(403, "FORBIDDEN");
    assert_eq!(head(&server), before);
    let created = server.post_as(operator, "agents/scout/create", r#"{"account":"acme"}"#);
    assert_eq!(created.status, 200, "{}", created.text());
    assert!(head(&server) > before);
}

#[test]
fn agents_are_not_created_from_wrong_fields() {
    let server = Server::start();
    let before = head(&server);
    for (agent, body, part) in [
        ("scout", json!({"time_zone": "Mars/Base"}), "unknown time zone"),
        ("scout", json!({"owner": ":slack:channel:C1"}), "\"owner\": :slack:channel:C1: users whose id"),
        ("scout", json!({"owner": ""}), "\"owner\": "),
        ("scout", json!({"bootstrap": "no"}), "\"bootstrap\" must be true or false"),
        ("scout", json!({"ownr": "ann"}), "did you mean \"owner\"?"),
        ("%2e%2e", json!({}), ""),
        ("a%2fb", json!({}), ""),
    ] {
        let reply = server.post(&format!("agents/{agent}/create"), body.to_string());
        assert_eq!(reply.status, 400, "{agent} {body}: {}", reply.text());
        let message = reply.envelope();
        assert!(message.contains(part) && !message.contains("settings.json"), "{agent} {body}: {message}");
    }
    assert_eq!(head(&server), before);
}

#[test]
fn prompt_is_built_replayed_and_compared() {
    let server = with_session();
    let of = |more: Value| {
        let mut body = json!({"user": "ann", "session": "work"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body.to_string()
    };
    let inputs = json!({"runtime": {"Channel": "mail"}});
    let built = server.ok("agents/scout/prompt", of(json!({"inputs": inputs})));
    let text = built["content"].as_str().unwrap();
    assert!(text.contains("Be kind.") && text.contains("Ann likes tea.") && text.contains("- Channel: mail"));
    assert!(built["prompt"]["event"].is_string() && built["prompt"]["parts"].as_array().unwrap().len() > 5);
    let list = server.ok("agents/scout/prompt", of(json!({"form": "anthropic", "dry": true})));
    assert_eq!(list["content"][0]["type"], json!("text"));
    let group = server.ok("agents/scout/prompt", json!({"class": "group", "chat": "trip"}).to_string());
    assert!(!group["content"].as_str().unwrap().contains("Ann likes tea."));
    server.clock.advance(std::time::Duration::from_secs(60));
    let past = server.ok("agents/scout/prompt", of(json!({"at": "30s"})));
    assert_eq!((&past["content"], &past["prompt"]["replayed"]["same"]), (&built["content"], &json!(true)));
    let compared = server.ok("agents/scout/prompt/compare", of(json!({"from": "30s", "inputs": {}})));
    assert_eq!(compared["changed"][0]["name"], json!("runtime"), "{compared}");
    for (body, said) in [
        (of(json!({"form": "xml"})), "form"),
        (of(json!({"inputs": {"host": []}})), "inputs"),
        (json!({"class": "group"}).to_string(), "chat"),
    ] {
        let reply = server.post("agents/scout/prompt", body);
        assert!(reply.status == 400 && reply.text().contains(said), "{}", reply.text());
    }
}

#[test]
fn daily_memory_is_read_by_class() {
    let server = Server::start();
    let added = server.ok("agents/scout/daily/add", r#"{"text":"- likes tea"}"#);
    assert_eq!(added["path"], json!("/.agent/memory/2026-01-27.md"));
    server.ok("agents/scout/daily/add", r#"{"text":"- a guest","class":"dm","day":"2026-01-26"}"#);
    let main = server.ok("agents/scout/daily/get", "{}");
    assert!(main["parts"][0]["text"].as_str().unwrap().contains("likes tea"));
    assert_eq!(server.ok("agents/scout/daily/get", r#"{"class":"dm"}"#)["parts"], json!(null));
    server.ok("agents/scout/daily/add", r#"{"text":"- rain","day":"2026-01-26"}"#);
    let days = server.ok("agents/scout/daily/list", r#"{"limit":1}"#);
    assert_eq!((&days["items"][0]["day"], &days["has_more"]), (&json!("2026-01-26"), &json!(true)));
    let own = server.ok("agents/scout/daily/list", r#"{"class":"dm"}"#);
    assert_eq!((&own["items"][0]["day"], &own["items"][1]), (&json!("2026-01-26"), &json!(null)));
    let guest = server.ok("agents/scout/daily/get", r#"{"class":"dm","day":"2026-01-26"}"#);
    assert!(guest["parts"][0]["text"].as_str().unwrap().contains("a guest"), "{guest}");
    assert!(!guest.to_string().contains("rain"), "{guest}");
    let bad = server.post("agents/scout/daily/get", r#"{"day":"../x"}"#);
    assert_eq!(bad.status, 400, "{}", bad.text());
}

#[test]
fn reset_session_has_readable_archive() {
    let server = with_session();
    let body = r#"{"user":"ann","name":"work"}"#;
    assert_eq!(
        server.ok("agents/scout/reset", r#"{"user":"ann","name":"work","if_due":true}"#)["reset"],
        json!(false)
    );
    let done = server.ok("agents/scout/reset", body);
    assert_eq!((&done["messages"], &done["next"]["name"]), (&json!(12), &json!("work-2")));
    let archives = server.ok("agents/scout/archives", r#"{"user":"ann"}"#);
    let id = archives["items"][0]["session_id"].as_str().unwrap();
    assert_eq!(archives["items"][0]["metadata"]["messageCount"], json!("12"));
    let transcript = json!({"user": "ann", "name": id, "format": "pi", "first_line": 3, "last_line": 3});
    let page = server.ok("agents/scout/transcript", transcript.to_string());
    assert_eq!(page["items"][0]["content"], json!("question 2"));
    assert_eq!(server.post("agents/scout/reset", body).status, 409);
    assert_eq!(server.post("agents/scout/reset", r#"{"user":"ann","name":"none"}"#).status, 404);
    let dm = json!({"user": "ann", "name": "work-2", "class": "dm"}).to_string();
    assert_eq!(server.post("agents/scout/reset", dm).status, 404);
    assert_eq!(server.ok("agents/scout/archives", r#"{"class":"dm"}"#)["items"], json!([]));
}

#[test]
fn agent_calls_check_scope_and_agent_id() {
    let server = with_session();
    let reader = server.key("acme", &[Scope::MemoryRead]);
    assert_eq!(server.post_as(&reader, "agents/scout/daily/list", "{}").status, 200);
    assert_eq!(server.post_as(&reader, "agents/scout/prompt", "{}").status, 403);
    assert_eq!(server.post_as(&reader, "agents/scout/reset", "{}").status, 403);
    // percent-encoded; an encoded `/`, `..` or NUL is refused
    let reply = server.post("agents/sc%6fut/prompt", "{}");
    assert!(reply.text().contains("Be kind."), "{}", reply.text());
    for bad in ["agents/%2e%2e/prompt", "agents/a%2fb/prompt", "agents/%00/prompt"] {
        assert_eq!(server.post(bad, "{}").status, 400, "{bad}");
    }
    assert_eq!(server.post("agents//prompt", "{}").status, 400);
}

#[test]
fn server_compacts_sessions_with_nearly_full_window() {
    let notes = r#"{"summary":"They asked.","facts":[],"decisions":[],"todo":"","refs":[]}"#;
    let says = |text: &str| (200, json!({"choices": [{"message": {"content": text}}]}).to_string());
    let (url, asked) = endpoint(vec![says(notes), says("- they asked")]);
    let model = ServedModel { model: Arc::new(HttpModel::new(&url, "m", None).unwrap()), daily_tokens: None };
    for model in [None, Some(model)] {
        let server = Server::start_with(Options::default().model(model));
        session(&server);
        let used = r#"{"agent":"scout","user":"ann","name":"work","usage":{"input_tokens":29000}}"#;
        server.ok("sessions/append", used);
        let meta = || {
            let of = r#"{"agent":"scout","user":"ann","name":"work"}"#;
            server.ok("sessions/get", of)["session"]["meta"].clone()
        };
        let until = garth_engine::Env::system().now().plus_seconds(60);
        while meta()["compacted_to"].is_null() {
            assert!(garth_engine::Env::system().now() < until, "{}", meta());
            std::thread::yield_now();
        }
        assert!(meta()["last_part"].is_number() && meta()["last_input_tokens"].is_null());
    }
    assert_eq!(asked.iter().count(), 2, "the summary, and what is to be remembered");
}

#[test]
fn skills_are_installed_edited_published_and_deleted() {
    let server = Server::start();
    let front = "---\nname: pdf\ndescription: Reads PDF\nmetadata: {gsv: {requires: {bins: [pdftotext]}}}\n---\nUse it.\n";
    let install =
        json!({"name": "pdf", "global": true, "files": {"SKILL.md": front, "a/run.sh": "pdftotext $1"}});
    let done = server.ok("agents/scout/skills/install", install.to_string());
    assert_eq!((&done["path"], &done["same"]), (&json!("/ctx/skills/pdf"), &json!(0)));
    let writer = server.key("acme", &[Scope::MemoryWrite, Scope::MemoryRead]);
    assert_eq!(server.post_as(&writer, "agents/scout/skills/install", install.to_string()).status, 403);
    let left = server.ok("agents/scout/skills/list", "{}");
    assert_eq!((&left["shown"], &left["left_out"][0]["reason"]), (&json!([]), &json!("requirements")));
    let hosts = json!({"hosts": [{"id": "a", "bins": ["pdftotext"]}]}).to_string();
    let shown = server.ok("agents/scout/skills/list", hosts);
    assert_eq!(shown["shown"][0]["read_path"], json!("/ctx/skills/pdf/SKILL.md"));
    let got = server.ok("agents/scout/skills/get", r#"{"name":"pdf"}"#);
    assert_eq!((&got["applies"], &got["why"]["detail"]), (&json!(false), &json!("no host is known")));
    let edit = r#"{"path":"pdf/a/run.sh","old":"$1","new":"\"$1\""}"#;
    let edited = server.post_as(&writer, "agents/scout/skills/edit", edit);
    assert_eq!(edited.json()["path"], json!("/.agent/skills/pdf/a/run.sh"));
    let read = server.ok("agents/scout/skills/read", r#"{"path":"pdf/a/run.sh"}"#);
    assert_eq!((&read["origin"], &read["text"]), (&json!("agent"), &json!("pdftotext \"$1\"")));
    let whole = server.ok("agents/scout/skills/read", r#"{"path":"pdf/SKILL.md"}"#);
    assert_eq!(whole["origin"], json!("global"));
    assert_eq!(server.post("agents/scout/skills/publish", r#"{"name":"pdf"}"#).status, 404);
    server.ok("agents/scout/skills/write", json!({"path": "pdf/SKILL.md", "text": front}).to_string());
    let published = server.ok("agents/scout/skills/publish", r#"{"name":"pdf"}"#);
    assert_eq!(published["meta"]["uri"], json!("ctx://acme/agents/scout/skills/pdf"), "{published}");
    let global = r#"{"name":"pdf","global":true}"#;
    assert_eq!(server.post_as(&writer, "agents/scout/skills/delete", global).status, 403);
    assert_eq!(server.ok("agents/scout/skills/delete", global)["path"], json!("/ctx/skills/pdf"));
    assert_eq!(server.post("agents/scout/skills/delete", global).status, 404);
    for (call, body) in [
        ("skills/read", r#"{"path":"../x"}"#),
        ("skills/write", r#"{"path":"pdf/../../x","text":""}"#),
        ("skills/install", r#"{"name":"x","files":{"readme.md":""}}"#),
        ("skills/list", r#"{"hosts":[{"name":"a"}]}"#),
    ] {
        let reply = server.post(&format!("agents/scout/{call}"), body);
        assert_eq!(reply.status, 400, "{call}: {}", reply.text());
    }
}
