//! Daily memory by day and class, for each writer and call.

use std::sync::Arc;

use garth_agent::Class;
use garth_agent::workspace::{DailySection, Day, PromptOptions, Workspace};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::env::ManualClock;
use garth_engine::model::{At, Author, Batch, Op, SetAttrs, Timestamp};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::fs::counting::Counting;

use super::homes::{Kept, account_on};

/// 2026-01-27 09:30 UTC.
const START: Timestamp = Timestamp(1_769_506_200_000_000_000);
const TODAY: &str = "/agents/coder/memory/2026-01-27.md";
/// Daily memory of Ann of today, from her direct messages.
const OF_ANN: &str = "/users/ann/agents/coder/memory/2026-01-27.md";
/// Daily memory of a channel of today.
const OF_CHANNEL: &str = "/users/:slack:channel:c/agents/coder/memory/2026-01-27.md";

/// Returns a tree on each engine, with its clock.
async fn trees() -> Vec<(Arc<dyn FileSystem>, Env, ManualClock, Option<Kept>)> {
    let (env, clock) = Env::manual(START);
    let memory: Arc<dyn FileSystem> = Arc::new(MemoryFs::new(env.clone(), garth_agent::registry()));
    let (stored_env, stored_clock) = Env::manual(START);
    let (stored, kept) = account_on(stored_env.clone(), &stored_clock).await;
    vec![(memory, env, clock, None), (stored, stored_env, stored_clock, Some(kept))]
}

/// Returns the author of a class: the owner, Ann in her direct messages, or a channel.
fn by(class: &str) -> Author {
    let author = Author::agent("coder").with_class(class);
    match class {
        "main" => author,
        "dm" => author.with_user("ann"),
        _ => author.with_user("bob").with_audience(":slack:channel:c"),
    }
}

fn of_class<'a>(fs: &'a dyn FileSystem, env: &Env, class: &str) -> Workspace<'a> {
    Workspace::new(fs, "coder").unwrap().env(env.clone()).author(by(class))
}

fn p(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

async fn commit(fs: &dyn FileSystem, class: &str, op: Op) {
    fs.commit(Batch::new([op]).author(by(class))).await.unwrap();
}

/// Returns class, ownership and text of each part of today's memory, for a class.
async fn today(fs: &dyn FileSystem, env: &Env, class: &str) -> Vec<(Class, bool, String)> {
    let day: Day = "2026-01-27".parse().unwrap();
    let parts = of_class(fs, env, class).daily(day).await.unwrap().unwrap_or_default();
    parts.into_iter().map(|part: DailySection| (part.class.unwrap(), part.own, part.text)).collect()
}

fn parts(of: &[(&str, bool, &str)]) -> Vec<(Class, bool, String)> {
    of.iter().map(|(class, own, text)| (Class::named(class), *own, (*text).to_owned())).collect()
}

#[tokio::test]
async fn daily_parts_have_the_class_of_their_writer() {
    for (fs, env, ..) in trees().await {
        let fs = &*fs;
        commit(fs, "main", Op::write(p(TODAY), "tea\n").with_parents()).await;
        assert_eq!(today(fs, &env, "main").await, parts(&[("main", true, "tea\n")]));
        commit(fs, "dm", Op::append(p(TODAY), "### Today\nobey\n")).await;
        let both = parts(&[("main", true, "tea\n"), ("dm", false, "### Today\nobey\n")]);
        assert_eq!(today(fs, &env, "main").await, both);
        // No other audience has a part in the owner's file.
        assert_eq!(today(fs, &env, "dm").await, []);
        assert_eq!(today(fs, &env, "group").await, []);
        // Overwritten text belongs to its new writer.
        commit(fs, "group", Op::patch(p(TODAY), 0, "red")).await;
        let three =
            parts(&[("group", false, "red"), ("main", true, "\n"), ("dm", false, "### Today\nobey\n")]);
        assert_eq!(today(fs, &env, "main").await, three);
        // A file that was written elsewhere keeps its authors.
        commit(fs, "dm", Op::write(p("/chats/x/notes.md"), "of dm").with_parents()).await;
        let moved = Op::rename(p("/chats/x/notes.md"), p(TODAY));
        commit(fs, "main", moved).await;
        assert_eq!(today(fs, &env, "main").await, parts(&[("dm", false, "of dm")]));
    }
}

#[tokio::test]
async fn daily_memory_is_separate_by_audience() {
    for (fs, env, ..) in trees().await {
        let fs = &*fs;
        for (class, at) in [("main", TODAY), ("dm", OF_ANN), ("group", OF_CHANNEL)] {
            let done = of_class(fs, &env, class).add_daily(None, &format!("said in {class}")).await.unwrap();
            assert_eq!(done.path.as_str(), at);
        }
        for class in ["main", "dm", "group"] {
            let [(of, true, text)] = &*today(fs, &env, class).await else { panic!("{class}") };
            assert!(*of == Class::named(class) && text.contains(&format!("said in {class}")), "{text}");
            assert_eq!(text.matches("said in").count(), 1, "{text}");
        }
        // In an audience's file, text of another audience is evidence; that of people or main sessions is
        // not.
        commit(fs, "group", Op::append(p(OF_ANN), "obey")).await;
        commit(fs, "main", Op::append(p(OF_ANN), "fine")).await;
        let of_ann = today(fs, &env, "dm").await;
        let owned: Vec<_> = of_ann.iter().map(|(class, own, _)| (*class, *own)).collect();
        assert_eq!(owned, [(Class::Dm, true), (Class::Group, false), (Class::Main, true)]);
        // A class without an audience has no memory.
        let nobody = Workspace::new(fs, "coder").unwrap().env(env.clone());
        let nobody = nobody.author(Author::agent("coder").with_class("dm"));
        assert!(nobody.list_daily(None, 1).await.unwrap_err().is(ErrorKind::InvalidArgument));
        assert!(nobody.add_daily(None, "x").await.unwrap_err().is(ErrorKind::InvalidArgument));
    }
}

#[tokio::test]
async fn metadata_cannot_forge_main_daily_memory() {
    for (fs, env, ..) in trees().await {
        let fs = &*fs;
        let main = of_class(fs, &env, "main");
        main.add_daily(None, "tea").await.unwrap();
        let entry = fs.stat(&At::Path(p(TODAY))).await.unwrap();
        assert!(entry.attributes.metadata.contains_key("garth.of_main"));
        commit(fs, "dm", Op::append(p(TODAY), "obey")).await;
        let text = fs.read_to_string(TODAY).await.unwrap();
        let mains = text.strip_suffix("obey").unwrap();
        let both = parts(&[("main", true, mains), ("dm", false, "obey")]);
        assert_eq!(today(fs, &env, "main").await, both);
        // Only garth can remove it or set it for another text.
        for metadata in [SetAttrs::new().remove_metadata("garth.of_main"), {
            SetAttrs::new().metadata("garth.of_main", "0".repeat(64))
        }] {
            for class in ["dm", "main"] {
                let batch = Batch::new([Op::set_attrs(p(TODAY), metadata.clone())]).author(by(class));
                assert!(fs.commit(batch.clone()).await.unwrap_err().is(ErrorKind::RuleViolation));
                // Even if it were set, the commits would decide.
                fs.commit(batch.by_garth()).await.unwrap();
                assert_eq!(today(fs, &env, "main").await, both, "{text}");
            }
        }
        // A copy by others is not main's own either.
        main.add_daily("2026-01-20".parse().ok(), "tea").await.unwrap();
        commit(
            fs,
            "group",
            Op::copy(p("/agents/coder/memory/2026-01-20.md"), p("/agents/coder/memory/2026-01-21.md")),
        )
        .await;
        let copied = main.daily("2026-01-21".parse().unwrap()).await.unwrap().unwrap();
        assert_eq!((copied[0].class, copied[0].own), (Some(Class::Group), false));
        // Additions of a main session do not vouch for the text before.
        main.add_daily(None, "cake").await.unwrap();
        let known = today(fs, &env, "main").await;
        assert_eq!(known.iter().map(|part| part.0.as_str()).collect::<Vec<_>>(), ["main", "dm", "main"]);
    }
}

#[tokio::test]
async fn daily_memory_appends_after_invalid_text() {
    for (fs, env, ..) in trees().await {
        let fs = &*fs;
        commit(fs, "main", Op::write(p(TODAY), vec![b'a', 0xff]).with_parents()).await;
        let main = of_class(fs, &env, "main");
        main.add_daily(None, "tea").await.unwrap();
        let error = main.daily("2026-01-27".parse().unwrap()).await.unwrap_err();
        assert!(error.is(ErrorKind::Corrupt) && error.message().contains("UTF-8"), "{error}");
        let bytes = fs.read(&At::Path(p(TODAY)), garth_engine::model::ByteRange::ALL).await.unwrap();
        assert!(bytes.starts_with(b"a\xff\n\n### Remembered") && bytes.ends_with(b"\n\ntea\n"));
    }
}

#[tokio::test]
async fn daily_list_is_paged_by_audience() {
    for (fs, env, ..) in trees().await {
        let fs = &*fs;
        let [main, dm] = ["main", "dm"].map(|class| of_class(fs, &env, class));
        assert_eq!(main.list_daily(None, 10).await.unwrap(), (Vec::new(), None));
        let day = |text: &str| text.parse::<Day>().unwrap();
        for name in ["2026-01-25", "2026-01-26", "2026-01-27"] {
            main.add_daily(Some(day(name)), "tea").await.unwrap();
        }
        dm.add_daily(Some(day("2026-01-26")), "ant").await.unwrap();
        for name in ["README.md", "2026-01-26.txt", "2026-1-1.md", "2026-02-30.md"] {
            fs.write(&format!("/agents/coder/memory/{name}"), "x").await.unwrap();
        }
        fs.mkdir_all("/agents/coder/memory/2026-01-28.md").await.unwrap();
        fs.write("/agents/coder/memory/2026-01-29.md", "").await.unwrap();
        let (all, next) = main.list_daily(None, 100).await.unwrap();
        let names: Vec<_> = all.iter().map(|found| found.day.to_string()).collect();
        assert_eq!(
            (names, next),
            (["2026-01-25", "2026-01-26", "2026-01-27"].map(str::to_owned).into(), None)
        );
        let size = fs.read_to_string("/agents/coder/memory/2026-01-25.md").await.unwrap().len() as u64;
        assert_eq!(all[0].bytes, size);
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let (days, next) = main.list_daily(after, 1).await.unwrap();
            paged.extend(days);
            after = next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(paged, all);
        let (own, _) = dm.list_daily(None, 100).await.unwrap();
        assert_eq!(own.iter().map(|found| found.day).collect::<Vec<_>>(), [day("2026-01-26")]);
        let size = fs.read_to_string("/users/ann/agents/coder/memory/2026-01-26.md").await.unwrap().len();
        assert_eq!(own[0].bytes, size as u64);
        assert!(main.list_daily(None, 0).await.unwrap_err().is(ErrorKind::InvalidArgument));
        assert!(main.list_daily(None, 101).await.unwrap_err().is(ErrorKind::InvalidArgument));
    }
}

#[tokio::test]
async fn concurrent_daily_writes_are_all_kept() {
    for (fs, env, ..) in trees().await {
        let fs = &*fs;
        let workspaces: Vec<_> =
            (0..20).map(|n| of_class(fs, &env, if n % 2 == 0 { "main" } else { "dm" })).collect();
        let texts: Vec<_> = (0..20).map(|n| format!("fact {n}.")).collect();
        let all = workspaces.iter().zip(&texts).map(|(workspace, text)| workspace.add_daily(None, text));
        futures::future::try_join_all(all).await.unwrap();
        for (at, first) in [(TODAY, 0), (OF_ANN, 1)] {
            let text = fs.read_to_string(at).await.unwrap();
            assert_eq!(text.matches("### Remembered (09:30)\n\n").count(), 10);
            assert!(texts.iter().skip(first).step_by(2).all(|fact| text.contains(fact.as_str())));
        }
    }
}

#[tokio::test]
async fn prompt_reads_files_in_few_calls() {
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
        main.add_daily(yesterday, "rain").await.unwrap();
        main.add_daily(None, "tea").await.unwrap();
        let prompt = async |class: &str| {
            let workspace = of_class(&counting, &env, class);
            counting.reads_since();
            let text = workspace.prompt(&PromptOptions::default()).await.unwrap().text;
            (text, counting.reads_since())
        };
        let (text, reads) = prompt("main").await;
        // The settings, and the daily memory of others.
        assert!(text.contains("rain") && reads == 6, "{reads}");
        assert_eq!(prompt("dm").await.1, 3);
        // One more read for all memory of others, however many they are.
        for n in 0..5 {
            let author = Author::agent("coder").with_class("dm").with_audience(format!("user{n}"));
            let of_user = Workspace::new(&*fs, "coder").unwrap().env(env.clone()).author(author);
            of_user.add_daily(None, "ants").await.unwrap();
        }
        let (text, reads) = prompt("main").await;
        assert!(text.matches("> ants").count() == 5 && reads == 7, "{reads}: {text}");
        // Another one for a day of its own with text of others.
        dm.add_daily(None, "bees").await.unwrap();
        commit(&*fs, "group", Op::append(p(OF_ANN), "wasps")).await;
        let (text, reads) = prompt("dm").await;
        assert!(text.contains("> wasps") && reads == 4, "{reads}: {text}");
    }
}

#[tokio::test]
async fn daily_write_rejects_link_as_file() {
    for (fs, env, ..) in trees().await {
        let main = of_class(&*fs, &env, "main");
        let link = Op::symlink(p("/agents/coder/memory/2026-01-27.md"), "/agents/coder/MEMORY.md");
        fs.commit(link.with_parents().into()).await.unwrap();
        let error = main.add_daily("2026-01-27".parse().ok(), "tea").await.unwrap_err();
        assert!(error.is(ErrorKind::AlreadyExists), "{error}");
    }
}

/// Remembered text never reaches a file elsewhere: neither one of garth's own nor one that other people read.
#[tokio::test]
async fn daily_write_rejects_hard_links() {
    for (fs, env, ..) in trees().await {
        let main = of_class(&*fs, &env, "main");
        let (day, elsewhere) = (p("/agents/coder/memory/2026-01-27.md"), p("/users/ann/notes.md"));
        fs.commit(Op::write(elsewhere.clone(), "notes").with_parents().into()).await.unwrap();
        fs.commit(Op::mkdir_all(p("/agents/coder/memory")).into()).await.unwrap();
        fs.commit(Op::link(elsewhere.clone(), day.clone()).into()).await.unwrap();

        let error = main.add_daily("2026-01-27".parse().ok(), "tea").await.unwrap_err();
        assert!(error.is(ErrorKind::AlreadyExists) && error.path() == Some(&day), "{error}");
        assert_eq!(fs.read_to_string("/users/ann/notes.md").await.unwrap(), "notes");

        // Following the advice of the message.
        fs.commit(Op::remove(elsewhere).into()).await.unwrap();
        main.add_daily("2026-01-27".parse().ok(), "tea").await.unwrap();
    }
}

#[tokio::test]
async fn further_files_belong_to_their_day() {
    for (fs, env, ..) in trees().await {
        let fs = &*fs;
        let day = |text: &str| text.parse::<Day>().unwrap();
        let (today_is, before) = (day("2026-01-27"), day("2026-01-26"));
        for (class, at) in [("main", TODAY), ("dm", OF_ANN)] {
            let workspace = of_class(fs, &env, class);
            workspace.add_daily(Some(before), "rain").await.unwrap();
            let full = format!("first\n{}", "\n".repeat((1 << 20) - 100));
            commit(fs, class, Op::write(p(at), full).with_parents()).await;
            let next = p(&at.replace(".md", "-2.md"));
            let added = format!("{class} likes {}", "tea ".repeat(40));
            // A short text still fits into the first file.
            assert_eq!(workspace.add_daily(None, "x").await.unwrap().path, p(at));
            assert_eq!(workspace.add_daily(None, &added).await.unwrap().path, next);
            let memory = workspace.daily(today_is).await.unwrap().unwrap();
            let texts: Vec<_> = memory.iter().map(|part| part.text.trim()).collect();
            assert!(texts[0].starts_with("first") && texts.last().unwrap().ends_with(added.trim()));
            assert!(memory.iter().all(|part| part.own && part.class == Some(Class::named(class))));
            let sizes = [p(at), next].map(|path| async move { fs.entry(&path).await.unwrap().size });
            let bytes: u64 = futures::future::join_all(sizes).await.iter().sum();
            for limit in [1, 100] {
                let (mut found, mut after) = (Vec::new(), None);
                loop {
                    let (days, next) = workspace.list_daily(after, limit).await.unwrap();
                    found.extend(days);
                    after = next;
                    if after.is_none() {
                        break;
                    }
                }
                let found: Vec<_> = found.iter().map(|one| (one.day, one.bytes > 100, one.bytes)).collect();
                assert_eq!((found.len(), found[0].0, found[1]), (2, before, (today_is, true, bytes)));
            }
            let prompt = of_class(fs, &env, class).prompt(&PromptOptions::default()).await.unwrap();
            assert!(prompt.text.contains(added.trim()) && prompt.text.contains("rain"), "{class}");
        }
        // A main session sees the second file of another audience as well.
        let prompt = of_class(fs, &env, "main").prompt(&PromptOptions::default()).await.unwrap();
        assert!(prompt.text.contains("> dm likes tea"), "as evidence");
    }
}
