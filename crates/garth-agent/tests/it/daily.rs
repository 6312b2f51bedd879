//! Daily memory: what is there of which day and class, whoever wrote it and by whichever call.

use std::sync::Arc;

use garth::agent::workspace::{Day, Memory as Remembered, PromptOptions, Workspace};
use garth::engine::memory::Memory;
use garth::env::ManualClock;
use garth::model::{At, Author, Batch, Op, SetAttrs, Timestamp};
use garth::{Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::fs::counting::Counting;
use tempfile::TempDir;

/// 2026-01-27 09:30 UTC.
const START: Timestamp = Timestamp(1_769_506_200_000_000_000);
const TODAY: &str = "/agents/coder/memory/2026-01-27.md";

/// A tree on each engine, with its clock.
async fn trees() -> Vec<(Arc<dyn FileSystem>, Env, ManualClock, Option<TempDir>)> {
    let (env, clock) = Env::manual(START);
    let memory: Arc<dyn FileSystem> = Arc::new(Memory::new(env.clone(), garth::agent::registry()));
    let (sqlite_env, sqlite_clock) = Env::manual(START);
    let folder = tempfile::tempdir().unwrap();
    let data = garth::builder().env(sqlite_env.clone()).open(&folder.path().join("data")).unwrap();
    data.create_account("default").await.unwrap();
    let sqlite: Arc<dyn FileSystem> = data.account("default").await.unwrap();
    vec![(memory, env, clock, None), (sqlite, sqlite_env, sqlite_clock, Some(folder))]
}

fn of_class<'a>(fs: &'a dyn FileSystem, env: &Env, class: &str) -> Workspace<'a> {
    let author = Author::agent("coder").with_class(class);
    Workspace::new(fs, "coder", env.clone()).unwrap().author(author)
}

fn p(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

async fn commit(fs: &dyn FileSystem, class: &str, op: Op) {
    fs.commit(Batch::new([op]).author(Author::agent("coder").with_class(class))).await.unwrap();
}

/// Class and text of each part of today's memory, for a class.
async fn today(fs: &dyn FileSystem, env: &Env, class: &str) -> Vec<(String, String)> {
    let day: Day = "2026-01-27".parse().unwrap();
    let parts = of_class(fs, env, class).memory(day).await.unwrap().unwrap_or_default();
    let part = |part: Remembered| (part.class.unwrap_or_default(), part.text);
    parts.into_iter().map(part).collect()
}

fn parts(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(class, text)| ((*class).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn what_is_written_by_any_call_is_of_the_class_that_wrote_it() {
    for (fs, env, ..) in trees().await {
        let fs = &*fs;
        commit(fs, "main", Op::write(p(TODAY), "tea\n").with_parents()).await;
        assert_eq!(today(fs, &env, "main").await, parts(&[("main", "tea\n")]));
        commit(fs, "dm", Op::append(p(TODAY), "### Today\nobey\n")).await;
        let both = parts(&[("main", "tea\n"), ("dm", "### Today\nobey\n")]);
        assert_eq!(today(fs, &env, "main").await, both);
        assert_eq!(today(fs, &env, "dm").await, both[1..]);
        assert_eq!(today(fs, &env, "work").await, []);
        // what is written over a part is the writer's
        commit(fs, "work", Op::patch(p(TODAY), 0, "red")).await;
        let three = parts(&[("work", "red"), ("main", "\n"), ("dm", "### Today\nobey\n")]);
        assert_eq!(today(fs, &env, "main").await, three);
        assert_eq!(today(fs, &env, "work").await, three[..1]);
        // a file that was written elsewhere keeps its authors
        commit(fs, "dm", Op::write(p("/chats/x/notes.md"), "of dm").with_parents()).await;
        let moved = Op::rename(p("/chats/x/notes.md"), p(TODAY));
        commit(fs, "main", moved).await;
        assert_eq!(today(fs, &env, "main").await, parts(&[("dm", "of dm")]));
    }
}

#[tokio::test]
async fn no_metadata_makes_the_words_of_others_mains_own() {
    for (fs, env, ..) in trees().await {
        let fs = &*fs;
        let main = of_class(fs, &env, "main");
        main.remember(None, "tea").await.unwrap();
        let entry = fs.stat(&At::Path(p(TODAY))).await.unwrap();
        assert!(entry.attributes.metadata.contains_key("garth.of_main"));
        commit(fs, "dm", Op::append(p(TODAY), "obey")).await;
        let text = fs.read_to_string(TODAY).await.unwrap();
        assert_eq!(today(fs, &env, "dm").await, parts(&[("dm", "obey")]));
        // kept, taken away, or of another text: each time the commits are asked
        for metadata in [SetAttrs::new().remove_metadata("garth.of_main"), {
            SetAttrs::new().metadata("garth.of_main", "0".repeat(64))
        }] {
            commit(fs, "dm", Op::set_attrs(p(TODAY), metadata)).await;
            assert_eq!(today(fs, &env, "dm").await, parts(&[("dm", "obey")]));
            assert_eq!(today(fs, &env, "main").await.len(), 2, "{text}");
        }
        // nor is a copy by others theirs to give
        main.remember("2026-01-20".parse().ok(), "tea").await.unwrap();
        commit(
            fs,
            "work",
            Op::copy(p("/agents/coder/memory/2026-01-20.md"), p("/agents/coder/memory/2026-01-21.md")),
        )
        .await;
        let copied = main.memory("2026-01-21".parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(copied[0].class.as_deref(), Some("work"));
        // what main adds does not vouch for what was there
        main.remember(None, "cake").await.unwrap();
        let known = today(fs, &env, "main").await;
        assert_eq!(known.iter().map(|part| part.0.as_str()).collect::<Vec<_>>(), ["main", "dm", "main"]);
        assert_eq!(today(fs, &env, "dm").await, parts(&[("dm", "obey")]));
    }
}

#[tokio::test]
async fn behind_what_is_no_text_is_remembered_all_the_same() {
    for (fs, env, ..) in trees().await {
        let fs = &*fs;
        commit(fs, "main", Op::write(p(TODAY), vec![b'a', 0xff]).with_parents()).await;
        let main = of_class(fs, &env, "main");
        main.remember(None, "tea").await.unwrap();
        let error = main.memory("2026-01-27".parse().unwrap()).await.unwrap_err();
        assert!(error.is(ErrorKind::Corrupt) && error.message().contains("UTF-8"), "{error}");
        let bytes = fs.read(&At::Path(p(TODAY)), garth::model::ByteRange::ALL).await.unwrap();
        assert!(bytes.starts_with(b"a\xff\n\n### Extracted") && bytes.ends_with(b"\n\ntea\n"));
    }
}

#[tokio::test]
async fn days_are_listed_in_pages_and_others_see_those_of_their_class_alone() {
    for (fs, env, ..) in trees().await {
        let fs = &*fs;
        let [main, dm] = ["main", "dm"].map(|class| of_class(fs, &env, class));
        assert_eq!(main.days(None, 10).await.unwrap(), (Vec::new(), None));
        let day = |text: &str| text.parse::<Day>().unwrap();
        for name in ["2026-01-25", "2026-01-26", "2026-01-27"] {
            main.remember(Some(day(name)), "tea").await.unwrap();
        }
        dm.remember(Some(day("2026-01-26")), "ant").await.unwrap();
        for name in ["README.md", "2026-01-26.txt", "2026-1-1.md", "2026-02-30.md"] {
            fs.write(&format!("/agents/coder/memory/{name}"), "x").await.unwrap();
        }
        fs.mkdir_all("/agents/coder/memory/2026-01-28.md").await.unwrap();
        fs.write("/agents/coder/memory/2026-01-29.md", "").await.unwrap();
        let (all, next) = main.days(None, 100).await.unwrap();
        let names: Vec<_> = all.iter().map(|found| found.day.to_string()).collect();
        assert_eq!(
            (names, next),
            (["2026-01-25", "2026-01-26", "2026-01-27"].map(str::to_owned).into(), None)
        );
        let size = fs.read_to_string("/agents/coder/memory/2026-01-25.md").await.unwrap().len() as u64;
        assert_eq!(all[0].bytes, size);
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let (days, next) = main.days(after, 1).await.unwrap();
            paged.extend(days);
            after = next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(paged, all);
        let (own, _) = dm.days(None, 100).await.unwrap();
        assert_eq!(own.iter().map(|found| found.day).collect::<Vec<_>>(), [day("2026-01-26")]);
        assert!(own[0].bytes < all[1].bytes);
        assert!(main.days(None, 0).await.unwrap_err().is(ErrorKind::InvalidArgument));
        assert!(main.days(None, 101).await.unwrap_err().is(ErrorKind::InvalidArgument));
    }
}

#[tokio::test]
async fn what_many_remember_at_once_is_all_there_under_one_header_each() {
    for (fs, env, ..) in trees().await {
        let fs = &*fs;
        let workspaces: Vec<_> =
            (0..20).map(|n| of_class(fs, &env, if n % 2 == 0 { "main" } else { "dm" })).collect();
        let texts: Vec<_> = (0..20).map(|n| format!("fact {n}.")).collect();
        let all = workspaces.iter().zip(&texts).map(|(workspace, text)| workspace.remember(None, text));
        futures::future::try_join_all(all).await.unwrap();
        let text = fs.read_to_string(TODAY).await.unwrap();
        assert_eq!(text.matches("### Extracted from context compaction (09:30)\n\n").count(), 20);
        assert!(texts.iter().all(|fact| text.contains(fact.as_str())));
        let of_dm: String = today(fs, &env, "dm").await.into_iter().map(|part| part.1).collect();
        assert_eq!(of_dm.matches("fact").count(), 10);
    }
}

#[tokio::test]
async fn a_prompt_takes_three_reads_of_one_moment_and_one_more_for_a_day_that_others_wrote() {
    for (fs, env, ..) in trees().await {
        let counting = Counting::new(Arc::clone(&fs));
        let file =
            |name: String, text: String| Op::write(p(&format!("/agents/coder/{name}")), text).with_parents();
        for name in ["SOUL", "IDENTITY", "USER", "AGENTS", "MEMORY", "TOOLS", "HEARTBEAT"] {
            fs.commit(file(format!("{name}.md"), "text".to_owned()).into()).await.unwrap();
        }
        for skill in 0..50 {
            let text = format!("---\nname: s{skill}\ndescription: does {skill}\n---\n");
            fs.commit(file(format!("skills/s{skill}/SKILL.md"), text).into()).await.unwrap();
        }
        let [main, dm] = ["main", "dm"].map(|class| of_class(&*fs, &env, class));
        let yesterday = "2026-01-26".parse().ok();
        main.remember(yesterday, "rain").await.unwrap();
        main.remember(None, "tea").await.unwrap();
        let workspace = of_class(&counting, &env, "main");
        let prompt = async || workspace.prompt(&PromptOptions::default()).await.unwrap().text;
        counting.reads_since();
        assert!(prompt().await.contains("rain"));
        assert_eq!(counting.reads_since(), 3);
        dm.remember(None, "ants").await.unwrap();
        assert!(prompt().await.contains("> ants"));
        assert_eq!(counting.reads_since(), 4);
    }
}
