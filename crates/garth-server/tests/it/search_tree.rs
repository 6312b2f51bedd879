//! `POST /v1/search` beyond the values of an agent: files, messages and memories, and who finds what.

use futures::executor::block_on;
use garth_engine::TreePath;
use garth_engine::model::{Batch, Op};
use serde_json::{Value, json};

use super::harness::Server;

const HERON: &str = "ctx://acme/users/ann/memories/entities/heron";
const CURSOR: &str = "\"cursor\" must be the `next_cursor` of an earlier page of the same request: send the \
    same fields (only `limit` may differ), or leave \"cursor\" out to start again";
const KINDS: &str = r#""kinds" must be an array of "values", "files", "messages", "memories""#;

/// Starts a server with a heron in a text of each kind.
fn server() -> Server {
    let server = Server::start();
    server.own("coder", "ann");
    let value =
        r#"{"path":"/user/heron","value":{"bird":"heron","kg":1.10},"searchable":true,"tags":["birds"]}"#;
    server.ok("put", value);
    let value = json!({"agent_id": "coder", "path": "/heron", "value": "a heron", "searchable": true});
    server.ok("put", value.to_string());
    server.ok("memories/put", json!({"uri": HERON, "content": "The heron waits by the river."}).to_string());
    say(&server, "ann", "work", &["Good morning.", "The heron stood in the reeds.", "Good night."]);
    write(&server, &[("/notes/birds.md", "One duck.\nA heron and a crane.\nOne swan.\n")]);
    server
}

/// Creates a session of a user with agent `coder` and says something in it. Returns its id.
fn say(server: &Server, user: &str, name: &str, texts: &[&str]) -> Value {
    let of = json!({"agent": "coder", "user": user, "name": name});
    let made = server.ok("sessions/create", of.to_string());
    let messages: Vec<Value> = texts.iter().map(|text| json!({"role": "user", "content": text})).collect();
    let mut body = of;
    body["messages"] = json!(messages);
    server.ok("sessions/append", body.to_string());
    made["session"]["meta"]["id"].clone()
}

fn write(server: &Server, files: &[(&str, &str)]) {
    let account = block_on(server.home.account("acme")).unwrap();
    let ops = files
        .iter()
        .map(|(path, text)| Op::write(TreePath::parse(path).unwrap(), (*text).to_owned()).with_parents());
    block_on(account.commit(Batch::new(ops))).unwrap();
}

fn put_value(server: &Server, path: &str, value: &str) {
    server.ok("put", json!({"path": path, "value": value, "searchable": true}).to_string());
}

fn results(answer: &Value) -> &Vec<Value> {
    answer["results"].as_array().unwrap()
}

/// Searches, and returns the results.
fn find(server: &Server, body: &Value) -> Vec<Value> {
    results(&server.ok("search", body.to_string())).clone()
}

fn of_kind<'a>(results: &'a [Value], kind: &str) -> Vec<&'a Value> {
    results.iter().filter(|result| result["kind"] == kind).collect()
}

fn fields(result: &Value) -> Vec<&str> {
    let mut fields: Vec<&str> = result.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    fields
}

#[test]
fn search_without_new_fields_has_known_shape() {
    let server = server();
    let value = r#"{"bird":"crane","kg":1.10}"#;
    let put = format!(r#"{{"path":"/user/crane","value":{value},"searchable":true,"tags":["birds"]}}"#);
    let put = server.ok("put", put);
    let body =
        r#"{"agent_id":"default","query":"crane","limit":10,"path_prefix":"/user","tags_any":["birds"]}"#;
    let (version, time) = (put["version_id"].as_str().unwrap(), put["created_at"].as_str().unwrap());
    let found = format!(r#""path":"/user/crane","value":{value},"tags":["birds"],"similarity":1.0"#);
    let made = format!(r#""version_id":"{version}","created_at":"{time}""#);
    assert_eq!(server.post("search", body).text(), format!(r#"{{"results":[{{{found},{made}}}]}}"#));
    let all = server.ok("search", r#"{"query":"heron"}"#);
    assert_eq!(fields(&all), ["results"]);
    assert_eq!(results(&all).len(), 1, "{all}");
    let known = ["created_at", "path", "similarity", "tags", "value", "version_id"];
    assert_eq!(fields(&results(&all)[0]), known);
}

#[test]
fn search_finds_and_names_each_kind() {
    let server = server();
    let lines = server.ok("sessions/lines", r#"{"agent":"coder","user":"ann","name":"work"}"#);
    let session = server.ok("sessions/get", r#"{"agent":"coder","user":"ann","name":"work"}"#);
    let reply = server.post("search", r#"{"query":"heron","kinds":[],"context":1}"#);
    assert!(reply.text().contains(r#""value":{"bird":"heron","kg":1.10}"#), "{}", reply.text());
    let answer = reply.json();
    assert_eq!(fields(&answer), ["missing", "more", "results"]);
    assert_eq!((&answer["more"], &answer["missing"]), (&json!(false), &json!(0)));
    let of = |kind: &str| of_kind(results(&answer), kind);

    let values = of("values");
    assert_eq!(values.len(), 2, "{answer}");
    let value = values.iter().find(|value| value["agent_id"] == "default").unwrap();
    assert_eq!((&value["path"], &value["tags"]), (&json!("/user/heron"), &json!(["birds"])));
    assert_eq!((&value["version"], &value["score"]), (&value["version_id"], &value["similarity"]));

    let [message] = of("messages")[..] else { panic!("{answer}") };
    let id = &session["session"]["meta"]["id"];
    assert_eq!(message["session"], json!({"user": "ann", "agent": "coder", "name": "work", "id": id}));
    let said = &lines["items"][1]["value"];
    let found = &message["message"];
    let [id, role, line] = ["id", "role", "line"].map(|name| &found[name]);
    assert_eq!((id, role, line), (&said["id"], &json!("user"), &json!(2)));
    assert!(found["time"].as_str().unwrap().starts_with("2026-01-27T00:00:00"), "{found}");

    let [memory] = of("memories")[..] else { panic!("{answer}") };
    assert_eq!((&memory["uri"], &memory["layer"]), (&json!(HERON), &json!(2)));

    let [file] = of("files")[..] else { panic!("{answer}") };
    let known = ["bytes", "context", "kind", "lines", "parts", "path", "score", "snippet", "version"];
    assert_eq!(fields(file), known);
    assert_eq!(file["path"], "/notes/birds.md");
    assert_eq!((&file["context"]["best"], &file["context"]["lines"]["start"]), (&json!(2), &json!(1)));
}

#[test]
fn search_filters_by_kind_path_and_agent() {
    let server = server();
    for kind in ["values", "files", "messages", "memories"] {
        let found = find(&server, &json!({"query": "heron", "kinds": [kind]}));
        assert!(!found.is_empty() && found.iter().all(|result| result["kind"] == kind), "{kind}: {found:?}");
    }
    let some = find(&server, &json!({"query": "heron", "kinds": ["files", "memories"]}));
    assert_eq!((some.len(), of_kind(&some, "files").len()), (2, 1), "{some:?}");
    let within = |paths: Value| find(&server, &json!({"query": "heron", "in": paths}));
    assert_eq!(within(json!(["/notes"])).len(), 1);
    assert_eq!(within(json!(["/notes", "/users/ann/memories"])).len(), 2);
    assert_eq!(within(json!([])).len(), 5);
    assert!(within(json!(["/nowhere"])).is_empty());
    assert_eq!(within(json!(["/notes/", "/users/ann/memories//"])).len(), 2);
    assert_eq!(within(json!(["/"])).len(), 5);
    let of_notes = find(&server, &json!({"query": "heron", "in": ["/notes"], "kinds": ["values"]}));
    assert!(of_notes.is_empty(), "{of_notes:?}");
    let values = |more: Value| {
        let mut body = json!({"query": "heron", "kinds": ["values"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        find(&server, &body).iter().map(|value| value["path"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(values(json!({})).len(), 2);
    assert_eq!(values(json!({"agent_id": "coder"})), ["/heron"]);
    assert_eq!(values(json!({"path_prefix": "/user"})), ["/user/heron"]);
    assert_eq!(values(json!({"tags_any": ["birds"]})), ["/user/heron"]);
    // Without `in` and `kinds`, a call is on the values of one agent, whatever else it asks for.
    let alone = find(&server, &json!({"query": "heron", "mode": "words"}));
    assert_eq!((alone.len(), &alone[0]["path"]), (1, &json!("/user/heron")), "{alone:?}");
    // A filter of values does not affect the other kinds.
    let mixed = json!({"query": "heron", "agent_id": "coder", "kinds": ["values", "files"]});
    assert_eq!(find(&server, &mixed).len(), 2);
}

#[test]
fn search_rejects_invalid_new_fields() {
    let server = Server::start();
    for (fields, message) in [
        (r#""per_file":0"#, "\"per_file\" must be an integer from 1 to 20"),
        (r#""per_file":21"#, "\"per_file\" must be an integer from 1 to 20"),
        (r#""context":21"#, "\"context\" must be an integer from 0 to 20"),
        (r#""context":-1"#, "\"context\" must be an integer from 0 to 20"),
        (r#""neighbours":"yes""#, "\"neighbours\" must be true or false"),
        (r#""mode":"deep""#, "\"mode\" must be one of \"words\", \"meaning\""),
        (r#""kinds":["nodes"]"#, KINDS),
        (r#""kinds":["files","File"]"#, KINDS),
        (r#""kinds":"files""#, "\"kinds\" must be an array of at most 4 strings"),
        (r#""in":"/notes""#, "\"in\" must be an array of at most 100 strings"),
        (r#""kinds":[],"limit":51"#, "\"limit\" must be an integer from 1 to 50"),
        (r#""kinds":[],"cursor":"x""#, CURSOR),
    ] {
        let reply = server.post("search", format!(r#"{{"query":"a",{fields}}}"#));
        assert_eq!(reply.refused(400, "VALIDATION_ERROR"), message, "{fields}");
    }
    for body in [
        json!({"query": "a", "in": vec!["/x"; 101]}),
        json!({"query": "", "kinds": []}),
        json!({"query": "a", "kinds": [], "class": "group"}),
        json!({"query": "a", "kinds": [], "agent": "a/b"}),
        json!({"query": "a", "kinds": [], "agent_id": "a/b"}),
    ] {
        server.post("search", body.to_string()).refused(400, "VALIDATION_ERROR");
    }
    for path in ["relative", "/notes//birds.md", "/notes/./"] {
        let body = json!({"query": "a", "in": [path]}).to_string();
        let message = server.post("search", body).refused(400, "INVALID_PATH");
        assert!(message.starts_with("\"in[0]\": "), "{message}");
    }
    let prefix = json!({"query": "a", "kinds": ["values"], "path_prefix": "user"}).to_string();
    server.post("search", prefix).refused(400, "INVALID_PATH");
}

#[test]
fn search_hides_other_classes_and_audiences() {
    let server = server();
    say(&server, "ann", "private", &["The heron is a canarymain."]);
    say(&server, "bob", "other", &["The heron is a canarybob."]);
    let ask = |who: Value, query: &str| {
        let mut body = json!({"agent": "coder", "query": query, "kinds": [], "per_file": 20, "context": 5});
        body.as_object_mut().unwrap().extend(who.as_object().unwrap().clone());
        server.ok("search", body.to_string()).to_string()
    };
    for query in ["canarymain", "canarybob", "Which heron is a canary?", "heron"] {
        let (owner, bob) = (ask(json!({"user": "ann"}), query), ask(json!({"user": "bob"}), query));
        let dm = ask(json!({"user": "ann", "class": "dm"}), query);
        assert!(!owner.contains("canarybob"), "{query}: {owner}");
        assert!(!bob.contains("canarymain") && !bob.contains("ann"), "{query}: {bob}");
        assert!(!dm.contains("canarybob") && !dm.contains("canarymain"), "{query}: {dm}");
    }
    assert!(ask(json!({"user": "ann"}), "canarymain").contains("canarymain"));
    assert!(ask(json!({"user": "bob"}), "canarybob").contains(r#""name":"other""#));
    // Paths are those of the tree that the caller sees, and lead nowhere else.
    let body = json!({"agent": "coder", "user": "bob", "query": "heron", "in": ["/users/ann", "/agents"]});
    let reply = server.post("search", body.to_string());
    assert!(!reply.text().contains("snippet"), "{}", reply.text());
}

#[test]
fn search_omits_retracted_messages_of_a_page() {
    let server = server();
    say(&server, "ann", "birds", &["A quokka sings.", "A quokka sleeps.", "Nothing."]);
    let ask =
        || find(&server, &json!({"query": "quokka", "kinds": ["messages"], "per_file": 5, "context": 2}));
    assert_eq!(ask().len(), 2);
    let source = json!({"agent": "coder", "user": "ann", "name": "birds", "source": "messages:1"});
    server.ok("sessions/retract", source.to_string());
    let left = ask();
    assert_eq!((left.len(), &left[0]["message"]["line"]), (1, &json!(2)), "{left:?}");
    assert!(!json!(left).to_string().contains("sings"), "{left:?}");
    let source = json!({"agent": "coder", "user": "ann", "name": "birds", "source": "messages:2"});
    server.ok("sessions/retract", source.to_string());
    assert!(ask().is_empty());
}

#[test]
fn search_omits_machine_files_and_outdated_memories() {
    let server = server();
    say(&server, "ann", "quokka", &["Hello."]);
    let refs = r#"{"id":"r1","path":"/quokka","kind":"file","summary":"quokka"}"#;
    let refs = format!("{refs}\n");
    write(
        &server,
        &[
            ("/agents/other/settings.json", r#"{"owner":"quokka"}"#),
            ("/agents/other/.meta.json", r#"{"quokka":1}"#),
            ("/notes/.relations.json", r#"{"quokka":1}"#),
            ("/users/ann/agents/coder/session/quokka/context/refs.jsonl", &*refs),
        ],
    );
    let ended = json!({
        "uri": "ctx://acme/users/ann/memories/events/quokka",
        "content": "The quokka was here.",
        "valid_to": "2020-01-01T00:00:00Z",
    });
    server.ok("memories/put", ended.to_string());
    let all = json!({"query": "quokka", "kinds": [], "per_file": 20});
    let found = find(&server, &all);
    assert!(found.is_empty(), "{found:?}");
    // They do not use up the limit either.
    let long = format!("{} one quokka.\n", "Many words. ".repeat(100));
    write(&server, &[("/notes/long.md", &*long)]);
    let one = server.ok("search", json!({"query": "quokka", "in": ["/"], "limit": 1}).to_string());
    assert_eq!(results(&one)[0]["path"], "/notes/long.md");
    assert_eq!((&one["more"], &one["has_more"]), (&json!(false), &json!(null)));
}

#[test]
fn search_mode_decides_if_meaning_counts() {
    let server = Server::start();
    write(&server, &[("/notes/a.md", "Alice takes her coffee without milk.\n")]);
    let ask = |mode: &str| {
        let question = "which hot beverage does she like";
        find(&server, &json!({"query": question, "kinds": ["files"], "mode": mode}))
    };
    assert!(ask("words").is_empty());
    let near = ask("meaning");
    assert_eq!((near.len(), &near[0]["path"]), (1, &json!("/notes/a.md")));
    assert!(near[0]["parts"]["meaning"].as_f64().unwrap() > 0.0, "{near:?}");
    let words = find(&server, &json!({"query": "does Alice take milk", "kinds": ["files"], "mode": "words"}));
    assert_eq!(words[0]["parts"]["meaning"], json!(0.0));
}

#[test]
fn search_returns_passages_with_context_and_neighbours() {
    let server = Server::start();
    let text = format!("one harbour\n{}the other lantern\nlast\n", "filler words\n".repeat(400));
    write(&server, &[("/far/long.txt", &*text)]);
    let ask = |more: Value| {
        let mut body = json!({"query": "harbour lantern", "kinds": ["files"], "mode": "words"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        find(&server, &body)
    };
    assert_eq!(ask(json!({})).len(), 1);
    let both = ask(json!({"per_file": 5, "context": 1}));
    assert_eq!(both.len(), 2, "{both:?}");
    let last = both.iter().find(|hit| hit["context"]["best"] == 402).unwrap();
    let shown = last["context"]["text"].as_str().unwrap();
    assert_eq!(shown.lines().collect::<Vec<_>>(), ["filler words", "the other lantern", "last"]);
    let neighbours = |hits: &[Value]| hits.iter().any(|hit| hit["parts"]["neighbours"] != json!(0.0));
    assert!(neighbours(&both));
    assert!(!neighbours(&ask(json!({"per_file": 5, "neighbours": false}))));
}

#[test]
fn pages_of_described_hits_are_complete() {
    let server = server();
    let files: Vec<(String, String)> =
        (0..7).map(|n| (format!("/n/{n}.md"), format!("needle {}\n", "word ".repeat(n)))).collect();
    write(&server, &files.iter().map(|(path, text)| (&**path, &**text)).collect::<Vec<_>>());
    say(&server, "ann", "needles", &["A needle.", "Another needle.", "No more."]);
    let all = json!({"query": "needle", "kinds": ["files", "messages"], "per_file": 3, "limit": 50});
    let whole = server.ok("search", all.to_string());
    assert_eq!((results(&whole).len(), &whole["more"]), (9, &json!(false)), "{whole}");
    for limit in [1, 2, 4] {
        let (mut items, mut cursor) = (Vec::new(), json!(null));
        loop {
            let mut body = all.clone();
            (body["limit"], body["cursor"]) = (json!(limit), cursor);
            let page = server.ok("search", body.to_string());
            assert!(results(&page).len() <= limit, "{page}");
            items.extend(results(&page).clone());
            cursor = page["next_cursor"].clone();
            let is_last = cursor.is_null();
            assert_eq!((&page["more"], page["has_more"] == json!(true)), (&json!(!is_last), !is_last));
            if is_last {
                break;
            }
        }
        assert_eq!(&items, results(&whole), "{limit}");
    }
}

#[test]
fn search_rejects_cursor_of_another_request() {
    let server = server();
    let files: Vec<(String, String)> =
        (0..5).map(|n| (format!("/n/{n}.md"), format!("needle {}\n", "word ".repeat(n)))).collect();
    write(&server, &files.iter().map(|(path, text)| (&**path, &**text)).collect::<Vec<_>>());
    let asked = json!({"query": "needle", "kinds": ["files"], "in": ["/n"], "limit": 2});
    let first = server.ok("search", asked.to_string());
    let whole = find(&server, &json!({"query": "needle", "kinds": ["files"], "in": ["/n"]}));
    let rest = |changes: Value| {
        let mut body = asked.clone();
        body["cursor"] = first["next_cursor"].clone();
        body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        server.post("search", body.to_string())
    };
    for same in [json!({}), json!({"mode": null}), json!({"limit": 50})] {
        assert_eq!(results(&rest(same).json())[..2], whole[2..4]);
    }
    for other in [
        json!({"query": "needle word"}),
        json!({"kinds": ["files", "messages"]}),
        json!({"kinds": null}),
        json!({"in": ["/"]}),
        json!({"in": null}),
        json!({"mode": "words"}),
        json!({"per_file": 2}),
        json!({"neighbours": false}),
        json!({"context": 1}),
        json!({"tags_any": ["birds"]}),
        json!({"path_prefix": "/n"}),
        json!({"agent_id": "coder"}),
        json!({"agent": "coder"}),
        json!({"agent": "coder", "user": "ann"}),
        json!({"agent": "coder", "user": "ann", "class": "dm"}),
    ] {
        let refused = rest(other.clone()).refused(400, "VALIDATION_ERROR");
        assert_eq!(refused, CURSOR, "{other}");
    }
    // A cursor of the key-value API, and one of another call.
    for n in 0..3 {
        put_value(&server, &format!("/needle/{n}"), "needle");
    }
    let values = server.ok("search", r#"{"query":"needle","limit":1}"#)["next_cursor"].clone();
    let listed = server.ok("list", r#"{"prefix":"/needle","limit":1}"#)["next_cursor"].clone();
    let refused = |call: &str, body: Value| {
        assert_eq!(server.post(call, body.to_string()).refused(400, "VALIDATION_ERROR"), CURSOR, "{call}");
    };
    refused("search", json!({"query": "needle", "kinds": ["values"], "cursor": values}));
    refused("search", json!({"query": "needles", "cursor": values}));
    refused("list", json!({"prefix": "/", "cursor": listed}));
    refused("list", json!({"prefix": "/needle", "cursor": values}));
    server.ok("search", json!({"query": "needle", "cursor": values}).to_string());
    server.ok("list", json!({"prefix": "/needle", "cursor": listed}).to_string());
}

#[test]
fn search_answers_have_a_limit_of_bytes() {
    let server = Server::start();
    for n in 0..6 {
        let value = format!("needle {}", "x".repeat(1_000_000));
        let body = json!({"agent_id": format!("a{n}"), "path": "/long", "value": value, "searchable": true});
        server.ok("put", body.to_string());
    }
    let first = server.ok("search", r#"{"query":"needle","kinds":["values"]}"#);
    assert_eq!((results(&first).len(), &first["has_more"]), (4, &json!(true)));
    let rest = json!({"query": "needle", "kinds": ["values"], "cursor": first["next_cursor"]});
    let rest = server.ok("search", rest.to_string());
    assert_eq!((results(&rest).len(), &rest["more"]), (2, &json!(false)));
}
