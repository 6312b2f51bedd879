//! Output formats of a prompt, its manifest, differences of two prompts, and text that is never in one.

use std::time::Duration;

use garth_agent::count::count;
use garth_agent::session::{Create, Format, Sessions};
use garth_agent::workspace::{Changed, Inputs, Prompt, PromptCache, PromptOptions, Workspace};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::env::ManualClock;
use garth_engine::model::{Author, Batch, Moment, Op, SetAttrs, Timestamp};
use garth_engine::{Env, FileSystem, FileSystemExt, TreePath};
use serde_json::{Value, json};

/// 2026-01-27 09:30 UTC.
const START: Timestamp = Timestamp(1_769_506_200_000_000_000);

fn tree() -> (MemoryFs, Env, ManualClock) {
    let (env, clock) = Env::manual(START);
    (MemoryFs::new(env.clone(), garth_agent::registry()), env, clock)
}

fn file(name: &str) -> TreePath {
    TreePath::parse(&format!("/agents/coder/{name}")).unwrap()
}

async fn write(fs: &dyn FileSystem, name: &str, text: &str) {
    fs.commit(Batch::new([Op::write(file(name), text.to_owned()).with_parents()])).await.unwrap();
}

fn workspace<'a>(fs: &'a dyn FileSystem, env: &Env) -> Workspace<'a> {
    Workspace::new(fs, "coder").unwrap().env(env.clone())
}

async fn prompt(fs: &dyn FileSystem, env: &Env) -> Prompt {
    workspace(fs, env).prompt(&PromptOptions::default()).await.unwrap()
}

fn names(of: &[Changed]) -> Vec<&str> {
    of.iter().map(|one| one.to.name).collect()
}

#[tokio::test]
async fn providers_get_stable_prefix_as_block() {
    let (fs, env, _) = tree();
    write(&fs, "SOUL.md", "kind \"and\" calm\u{1f388}").await;
    write(&fs, "memory/2026-01-27.md", "tea").await;
    let prompt = prompt(&fs, &env).await;
    let list = |format| serde_json::from_str::<Value>(&prompt.list(format)).unwrap();
    assert_eq!(list(Format::OpenAi), json!([{"role": "system", "content": prompt.text}]));
    let blocks = list(Format::Anthropic);
    let [stable, rest] = [&blocks[0], &blocks[1]].map(|block| block["text"].as_str().unwrap());
    assert_eq!(format!("{stable}{rest}"), prompt.text);
    assert_eq!(stable.len() as u64, prompt.stable.bytes);
    assert!(stable.ends_with("calm\u{1f388}") && rest.starts_with("\n\n---\n\n## Recent Context"));
    assert_eq!(blocks[0]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!((blocks.as_array().unwrap().len(), blocks[1].get("cache_control")), (2, None));
    // Without a prefix there is one block, because no block may be blank.
    write(&fs, "settings.json", r#"{"prompt":{"base":""}}"#).await;
    fs.remove(&file("SOUL.md")).await.unwrap();
    let bare = self::prompt(&fs, &env).await;
    assert_eq!(bare.stable.bytes, 0);
    let blocks: Value = serde_json::from_str(&bare.list(Format::Anthropic)).unwrap();
    assert_eq!(blocks, json!([{"type": "text", "text": bare.text}]));
}

#[tokio::test]
async fn manifest_describes_every_part() {
    let (fs, env, _) = tree();
    write(&fs, "SOUL.md", "kind\n").await;
    let built = prompt(&fs, &env).await;
    let manifest = built.manifest();
    let part = |name: &str| {
        let parts = manifest["parts"].as_array().unwrap();
        parts.iter().find(|part| part["name"] == name).unwrap().clone()
    };
    let version = fs.stat(&garth_engine::model::At::Path(file("SOUL.md"))).await.unwrap().etag.to_string();
    let due = json!({
        "name": "soul", "section": "Your Soul", "file": "/agents/coder/SOUL.md", "version": version,
        "sha256": "e1ae364ec24dc399e1aac256dfc87d78c5e4a72f9f0da0d8f5342ced42f74358",
        "tokens": 7, "included": true, "reason": "the file is there",
    });
    assert_eq!(part("soul"), due);
    assert_eq!(part("user")["reason"], "no such file");
    assert_eq!(part("user")["included"], false);
    assert_eq!(manifest["sha256"], built.sha256);
    assert_eq!(manifest["bytes"], built.text.len());
    assert_eq!(manifest["stable"]["bytes"], built.stable.bytes);
    assert_eq!(manifest["inputs"]["clock"], "2026-01-27T09:30:00.000Z");
    assert_eq!(manifest["seq"], built.seq.0);
    assert!(manifest.get("text").is_none() && manifest.get("replayed").is_none());
    // Each included part has its range.
    for part in built.parts.iter().filter(|part| part.included) {
        assert!(!built.said(part).is_empty(), "{}", part.name);
    }
    assert_eq!(built.said(built.parts.iter().find(|part| part.name == "soul").unwrap()), "kind");
}

#[tokio::test]
async fn part_tokens_add_up_with_cache() {
    let (fs, env, clock) = tree();
    let cache = PromptCache::default();
    let texts = ["kind", "/slash/first", "1", "ends with a dot.", "ends with a slash /", "\u{1f388}", "---"];
    for (round, text) in texts.iter().cycle().take(2 * texts.len()).enumerate() {
        for name in ["SOUL.md", "AGENTS.md", "MEMORY.md", "TOOLS.md", "memory/2026-01-27.md"] {
            write(&fs, name, text).await;
        }
        write(&fs, "fragments.jsonl", &json!({"id": "a", "type": "term", "text": text}).to_string()).await;
        let skill = format!("---\nname: {text}\n---\nIt does {text}.\n");
        write(&fs, "skills/pdf/SKILL.md", &skill).await;
        write(&fs, "settings.json", &json!({"prompt": {"base": text}}).to_string()).await;
        let without = prompt(&fs, &env).await;
        let with = workspace(&fs, &env).cache(&cache, "a").prompt(&PromptOptions::default()).await.unwrap();
        assert_eq!(with, without, "{round}: {text}");
        assert_eq!(without.tokens, count(&without.text) as u64, "{text}");
        clock.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn report_fences_the_prompt_text() {
    let (fs, env, _) = tree();
    write(&fs, "SOUL.md", "```\ncode\n````\n").await;
    let built = prompt(&fs, &env).await;
    let report = built.report();
    assert!(report.starts_with("# Prompt of coder\n\n- Class of the session: main\n"), "{report}");
    assert!(report.contains("| soul: Your Soul | yes | "), "{report}");
    assert!(report.contains("| user: About Your Human | no | 0 | no such file |  |  |  |"), "{report}");
    assert!(report.ends_with(&format!("\n`````markdown\n{}\n`````\n", built.text)), "{report}");
}

#[tokio::test]
async fn prompts_mask_secrets() {
    let (fs, env, _) = tree();
    let key = format!("AKIA{}", "Q3ZXJ7TLM5WPV2RD");
    write(&fs, "TOOLS.md", &format!("aws_access_key_id = {key}\nregion = eu\n")).await;
    let built = prompt(&fs, &env).await;
    assert!(!built.text.contains(&key) && built.text.contains("[secret: "), "{}", built.text);
    assert!(built.text.contains("region = eu"));
    for form in [built.report(), built.list(Format::OpenAi), built.list(Format::Anthropic)] {
        assert!(!form.contains(&key));
    }
}

#[tokio::test]
async fn prompts_replace_control_characters_of_skills() {
    let (fs, env, _) = tree();
    let text = "---\nname: \"a\\x07b\"\ndescription: Reads \u{202e}PDF\u{2066} caf\u{e9}\n---\nHow to.\n";
    write(&fs, "skills/pdf/SKILL.md", text).await;
    let built = prompt(&fs, &env).await;
    assert!(
        built.text.contains("- **a\u{fffd}b**: Reads \u{fffd}PDF\u{fffd} caf\u{e9} (`"),
        "{}",
        built.text
    );
}

#[tokio::test]
async fn prompt_diff_lists_changed_parts() {
    let (fs, env, clock) = tree();
    for name in ["SOUL", "USER", "TOOLS"] {
        write(&fs, &format!("{name}.md"), &format!("of {name}")).await;
    }
    let before = prompt(&fs, &env).await;
    assert_eq!(before.since(&before).common_bytes, before.text.len() as u64);
    clock.advance(Duration::from_secs(60));
    write(&fs, "USER.md", "another").await;
    write(&fs, "AGENTS.md", "be brief").await;
    fs.remove(&file("TOOLS.md")).await.unwrap();
    let after = prompt(&fs, &env).await;
    let difference = after.since(&before);
    assert_eq!(names(&difference.added), ["agents"]);
    assert_eq!(names(&difference.removed), ["tools"]);
    assert_eq!(names(&difference.changed), ["user", "runtime"]);
    assert_eq!(difference.changed[0].texts, ["of USER", "another"]);
    assert_eq!(difference.added[0].texts, ["", "be brief"]);
    assert_eq!(difference.removed[0].to.reason, "no such file");
    assert_eq!(difference.bytes, [before.text.len() as u64, after.text.len() as u64]);
    assert_eq!(difference.common_bytes, before.text.find("of USER").unwrap() as u64);
    // The other parts of a first run are listed as well.
    write(&fs, "BOOTSTRAP.md", "ask").await;
    let first = prompt(&fs, &env).await.since(&after);
    assert_eq!((names(&first.added), names(&first.removed)), (vec!["bootstrap"], vec!["agents"]));
}

async fn session(fs: &dyn FileSystem, env: &Env, class: &str) {
    let author = Author::agent("coder").with_user("default").with_class(class);
    let sessions = Sessions::new(fs, "default", "coder").unwrap().env(env.clone()).author(author);
    sessions.create(&Create::new("s")).await.unwrap();
}

#[tokio::test]
async fn daily_memory_visibility_is_not_pinned() {
    let (fs, env, clock) = tree();
    write(&fs, "settings.json", r#"{"daily_memory":"all","prompt":{"pinned":true}}"#).await;
    let day = TreePath::parse("/users/default/agents/coder/memory/2026-01-27.md").unwrap();
    let author = Author::agent("coder").with_class("dm").with_audience("bob");
    let said = Batch::new([Op::write(day, "of bob").with_parents()]).author(author);
    fs.commit(said).await.unwrap();
    session(&fs, &env, "dm").await;
    let of = PromptOptions::default().session("default", "s");
    let workspace = workspace(&fs, &env);
    assert!(workspace.prompt(&of).await.unwrap().text.contains("\nof bob"));
    clock.advance(Duration::from_secs(1));
    write(&fs, "settings.json", r#"{"prompt":{"pinned":true}}"#).await;
    let after = workspace.prompt(&of).await.unwrap();
    assert!(after.text.contains("> of bob") && !after.text.contains("\nof bob"), "{}", after.text);
}

#[tokio::test]
async fn prompts_reveal_no_days_of_others() {
    let (fs, env, _) = tree();
    let author = |class: &str| {
        let author = Author::agent("coder").with_class(class);
        if class == "main" { author } else { author.with_audience("bob") }
    };
    for (class, text) in [("main", "a secret of four digits: 1234"), ("dm", "ants")] {
        Workspace::new(&fs, "coder")
            .unwrap()
            .env(env.clone())
            .author(author(class))
            .add_daily(None, text)
            .await
            .unwrap();
    }
    let hash = async |class: &str| {
        let workspace = Workspace::new(&fs, "coder").unwrap().env(env.clone()).author(author(class));
        let built = workspace.prompt(&PromptOptions::default()).await.unwrap();
        let part = |name: &str| built.parts.iter().find(|part| part.name == name).unwrap().clone();
        assert_eq!(part("others").sha256, None);
        if class != "main" {
            assert_eq!((part("others").reason.as_str(), part("others").tokens), ("not a main session", 0));
        }
        part("today").sha256.unwrap()
    };
    let (main, dm) = (hash("main").await, hash("dm").await);
    assert_ne!(main, dm);
    Workspace::new(&fs, "coder")
        .unwrap()
        .env(env.clone())
        .author(author("main"))
        .add_daily(None, "x")
        .await
        .unwrap();
    assert_ne!(hash("main").await, main);
    assert_eq!(hash("dm").await, dm);
}

#[tokio::test]
async fn prompt_replay_omits_expired_files() {
    let (fs, env, clock) = tree();
    let until = SetAttrs::new().expires_at(START.plus_seconds(60));
    write(&fs, "TOOLS.md", "for a minute").await;
    fs.commit(Batch::new([Op::set_attrs(file("TOOLS.md"), until)])).await.unwrap();
    session(&fs, &env, "main").await;
    let of = PromptOptions::default().session("default", "s");
    let workspace = workspace(&fs, &env);
    clock.advance(Duration::from_secs(120));
    let built = workspace.prompt(&of).await.unwrap();
    assert!(!built.text.contains("for a minute"));
    clock.advance(Duration::from_secs(120));
    let again = workspace.prompt(&of.at(Moment::Time(env.now()))).await.unwrap();
    assert_eq!((again.text.as_str(), again.replayed.unwrap().same), (built.text.as_str(), true));
}

#[tokio::test]
async fn prompt_omits_skills_over_read_limit() {
    let (fs, env, _) = tree();
    let text = "x".repeat(1 << 20);
    for n in 0..32 {
        write(&fs, &format!("skills/s{n}/SKILL.md"), &text).await;
    }
    assert!(workspace(&fs, &env).prompt(&PromptOptions::default()).await.is_ok());
    write(&fs, "SOUL.md", "of the soul").await;
    let prompt = workspace(&fs, &env).prompt(&PromptOptions::default()).await.unwrap();
    assert!(prompt.text.contains("of the soul"));
}

#[tokio::test]
async fn given_inputs_replace_unknown_past_inputs() {
    let (fs, env, clock) = tree();
    write(&fs, "SOUL.md", "kind").await;
    let then = Moment::Time(env.now());
    clock.advance(Duration::from_secs(60));
    let past = PromptOptions::default().at(then);
    let error = workspace(&fs, &env).prompt(&past).await.unwrap_err();
    for flag in ["--host", "--runtime", "--clock"] {
        assert!(error.message().contains(flag), "{error}");
    }
    let mut inputs = Inputs::default();
    inputs.clock = Some("2026-01-27T10:15:00+01:00".to_owned());
    inputs.runtime.insert("Channel".to_owned(), "mail".to_owned());
    let built = workspace(&fs, &env).prompt(&past.inputs(inputs)).await.unwrap();
    assert!(built.text.contains("- Channel: mail") && built.text.contains("- Time: 09:15"), "{}", built.text);
}
