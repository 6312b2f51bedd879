//! Junk in files that garth reads itself. Whatever another program has written there, calls continue without
//! it or fail with `corrupt` and the path of the file, and everything that can be restored is.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use garth_agent::media::Media;
use garth_agent::memory::{Around, Direction, Level, List as MemoryList, Memories, Prefix, Put};
use garth_agent::outbox;
use garth_agent::session::{
    Append, Change, ChildChange, Collect, Compact, Create, Damaged, Derive, Draft, Due, Export, List, Log,
    PackOptions, Select, SessionKey, Sessions, Spawn, State, TranscriptFormat, mend_all,
};
use garth_agent::workspace::{Init, PromptOptions, Reset, Trim, Workspace, due_resets, next_job};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{At, Author, Batch, Moment, Op, SetAttrs, WalkPage};
use garth_engine::{Env, Error, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::fs::counting::Counting;

use super::memories_set::{coffee, edge, uri};
use super::packs::{call, result};
use super::sessions::{account, path};

const SESSION: &str = "default";
const KEY: &str = "agent:coder:main";

/// Returns contents that other programs may leave in a file.
fn junk() -> Vec<Vec<u8>> {
    let texts = ["{", "[]", "{\"id\": 7, \"version\": -1, \"window\": []}"];
    let mut all: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    all.push(b"\xff\xfe\0".to_vec());
    all
}

fn sessions(fs: &dyn FileSystem) -> Sessions<'_> {
    Sessions::new(fs, "default", "coder").unwrap()
}

fn workspace(fs: &dyn FileSystem) -> Workspace<'_> {
    Workspace::new(fs, "coder").unwrap()
}

/// Returns an account in which every feature was used once.
async fn scene() -> MemoryFs {
    let fs = MemoryFs::new(Env::system(), garth_agent::registry());
    let own = sessions(&fs);
    workspace(&fs).init(&Init::default()).await.unwrap();
    workspace(&fs).add_daily(None, "Ann likes tea.").await.unwrap();
    let skill = Op::write(
        TreePath::parse("/agents/coder/skills/pdf/SKILL.md").unwrap(),
        "---\nname: pdf\ndescription: d\n---\n",
    );
    fs.commit(skill.with_parents().into()).await.unwrap();
    let key: SessionKey = KEY.parse().unwrap();
    own.create(&Create::new(SESSION).key(key)).await.unwrap();
    let said = [
        Draft::user("one"),
        call("a", "sh", &serde_json::json!({})),
        result("a", "long"),
        Draft::user("two"),
    ];
    own.append(SESSION, &Append::messages(said)).await.unwrap();
    own.swap_out(SESSION, &"messages:1-1".parse().unwrap(), "the beginning").await.unwrap();
    own.dedup(SESSION, &["tool:a".parse().unwrap()]).await.unwrap();
    own.derive(SESSION, &facts()).await.unwrap();
    own.spawn(SESSION, &Spawn::new("kid", "do it")).await.unwrap();
    own.pin(SESSION, "rules.md", Some("always")).await.unwrap();
    fs.write(&path("context/gc.policy"), "pack_ttl=1d\n").await.unwrap();
    own.pack(SESSION, &PackOptions::default()).await.unwrap();
    let memories = Memories::new(&fs, "default");
    memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
    memories.put(&tea(), &Put::new("Green.")).await.unwrap();
    memories.relate(&edge(&coffee(), &tea())).await.unwrap();
    fs
}

fn tea() -> garth_agent::memory::Uri {
    uri("users/alice/memories/preferences/tea")
}

fn facts() -> Derive {
    let mut derive = Derive::default();
    derive.facts = Some("{\"id\":\"f1\",\"text\":\"t\",\"source\":\"messages:1-1\"}\n".to_owned());
    derive
}

type Call<'a> = (&'static str, Pin<Box<dyn Future<Output = Result<String, Error>> + 'a>>);

fn named<'a, T: Debug>(name: &'static str, call: impl Future<Output = Result<T, Error>> + 'a) -> Call<'a> {
    (name, Box::pin(async { call.await.map(|done| format!("{done:?}")) }))
}

/// Returns the errors of calls that read damaged files, then of those that write.
async fn failures(fs: &dyn FileSystem) -> Vec<(&'static str, Error)> {
    let (own, work) = (sessions(fs), workspace(fs));
    let memories = Memories::new(fs, "default");
    let (env, now) = (Env::system(), Env::system().now());
    let (key, coffee, tea, chunk) =
        (KEY.parse::<SessionKey>().unwrap(), coffee(), tea(), "messages:1-1".parse().unwrap());
    let mut prompt = PromptOptions::default();
    prompt.session = Some(("default".to_owned(), SESSION.to_owned()));
    let (list, export) = (List::default(), Export::new(TranscriptFormat::Pi));
    let (messages, events) = (Select::messages(1..=9), Select::events(1..=9));
    let (pack, collect, compact) = (PackOptions::default(), Collect::default(), Compact::default());
    let (done, idle, around) =
        (ChildChange::done("ok"), Change::new().state(State::Idle), Around::new(Direction::Both));
    let append = Append::messages([Draft::user("more")]);
    let (memories_list, text, add) = (MemoryList::new(Prefix::Account), Put::new("Milk."), ["x".to_owned()]);
    let (outbox_top, spawn, media) =
        (TreePath::root(), Spawn::new("other", "h"), Media::new(fs).env(env.clone()));
    let (trim, moment) = (Trim::default(), Moment::Time(now));
    let mut all: Vec<Call<'_>> = vec![
        named("get", own.get(SESSION)),
        named("list", own.list(&list)),
        named("current", own.current(&key)),
        named("messages", own.lines(SESSION, &messages)),
        named("events", own.lines(SESSION, &events)),
        named("end", own.end(SESSION, Log::Messages)),
        named("resolve", own.resolve(SESSION, &chunk)),
        named("export", own.export(SESSION, &export)),
        named("packed", own.packed(SESSION, None)),
        named("replay", own.replay(SESSION, None)),
        named("replay of now", own.replay(SESSION, Some(&moment))),
        named("swapped", own.swapped(SESSION)),
        named("children", own.children(SESSION)),
        named("why", own.why(SESSION, "f1")),
        named("due", Due::find(fs, now, None)),
        named("resets", due_resets(fs, now, None)),
        named("prompt", work.prompt(&prompt)),
        named("settings", work.settings()),
        named("skills", work.skills(&[])),
        named("days", work.list_daily(None, 10)),
        named("archives", work.archives(None, 10)),
        named("memory", memories.get(&coffee, Level::Content)),
        named("memories", memories.list(&memories_list)),
        named("around", memories.around(&coffee, &around)),
        named("outbox", outbox::list(fs, "default", false, None)),
        named("failed", outbox::list(fs, "default", true, None)),
        named("counters", outbox::counters(fs)),
        named("job", next_job(fs)),
        named("media", media.list(KEY, None, 10)),
        named("collect", own.collect(SESSION, &collect)),
        named("append", own.append(SESSION, &append)),
        named("set_child", own.set_child(SESSION, "kid", &done)),
        named("spawn", own.spawn(SESSION, &spawn)),
        named("swap_out", own.swap_out(SESSION, &chunk, "again")),
        named("dedup", own.dedup(SESSION, std::slice::from_ref(&chunk))),
        named("pin", own.pin(SESSION, "more.md", Some("text"))),
        named("compact", own.compact(SESSION, &compact)),
        named("trim", work.compact("default", SESSION, &trim)),
        named("remember", work.add_daily(None, "More.")),
        named("tag", memories.tag(&coffee, &add, &[])),
        named("put", memories.put(&coffee, &text)),
        named("unrelate", memories.unrelate(&coffee, &tea, None)),
        named("delete", memories.delete(&tea)),
        named("resend", outbox::resend(fs, &env, "default", &outbox_top, None)),
        named("pack", own.pack(SESSION, &pack)),
    ];
    let mut failed = Vec::new();
    for (name, call) in all.drain(..) {
        if let Err(error) = call.await {
            failed.push((name, error));
        }
    }
    let end = work.reset("default", SESSION, &Reset::default()).await.err().map(|error| ("reset", error));
    let set = own.set(SESSION, &idle).await.err().map(|error| ("set", error));
    failed.into_iter().chain(end).chain(set).collect()
}

/// Returns the files of an account that its agents' calls read.
async fn files(fs: &dyn FileSystem) -> Vec<TreePath> {
    let mut page = WalkPage::default();
    page.limit = 1000;
    let walk = fs.walk(&At::from(&TreePath::root()), &page).await.unwrap();
    let mut files = Vec::new();
    for item in walk.items {
        if fs.entry(&item.path).await.unwrap().is_file() {
            files.push(item.path);
        }
    }
    files
}

#[tokio::test]
async fn junk_files_are_skipped_or_reported_corrupt() {
    let fs = scene().await;
    let sound = failures(&fs).await;
    assert!(sound.iter().all(|(_, error)| error.is(ErrorKind::NotFound)), "{sound:?}");
    let usual: Vec<&str> = sound.iter().map(|(name, _)| *name).collect();
    let names = files(&scene().await).await;
    assert!(names.len() > 40, "{names:?}");
    let mut wrong = Vec::new();
    for file in names.iter().filter(|file| !file.as_str().contains("/.outbox/")) {
        for content in junk() {
            let fs = scene().await;
            if let Err(error) = fs.write(file, content.clone()).await {
                assert!(error.is(ErrorKind::RuleViolation), "{file}: {error}");
                continue;
            }
            for (call, error) in failures(&fs).await {
                let is_named = error.is(ErrorKind::Corrupt) && error.path() == Some(file);
                // The reasons in it were lost with the content.
                let is_gone = ["why", "packed", "replay", "replay of now"].contains(&call);
                let is_gone = is_gone && error.is(ErrorKind::NotFound);
                if !is_named && !usual.contains(&call) && !is_gone {
                    let shown = String::from_utf8_lossy(&content[..content.len().min(20)]).into_owned();
                    wrong.push(format!("{file} {shown:?}: {call}: {:?} {error}", error.kind()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn misplaced_directory_fails_without_retries() {
    let mut wrong = Vec::new();
    let of_prompt = |file: &TreePath| {
        let name = file.name().unwrap_or_default();
        let of_agent = file.as_str().starts_with("/agents/coder/");
        of_agent && (name.ends_with(".md") || name == "fragments.jsonl") && !file.as_str().contains("skills")
    };
    for file in files(&scene().await).await {
        for what in [Op::mkdir(file.clone()), Op::symlink(file.clone(), "/elsewhere")] {
            let fs = scene().await;
            // Ids of events and chunks differ between scenes.
            if !fs.exists(&file).await.unwrap() {
                continue;
            }
            let placed = Batch::new([Op::remove(file.clone()), what.clone()]).by_garth();
            if let Err(error) = fs.commit(placed).await {
                assert!(error.is(ErrorKind::RuleViolation), "{file}: {error}");
                continue;
            }
            let failed = failures(&fs).await;
            let lost = failed.iter().filter(|(_, error)| error.is(ErrorKind::Conflict));
            let of_reads = ["prompt", "days"];
            let read = failed.iter().filter(|(call, _)| of_prompt(&file) && of_reads.contains(call));
            wrong.extend(lost.chain(read).map(|(call, error)| format!("{file}: {call}: {error}")));
            let untrue = failed.iter().filter(|(_, error)| error.message().contains("too long"));
            wrong.extend(untrue.map(|(call, error)| format!("{file}: {call}: {error}")));
        }
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn repair_replaces_misplaced_meta() {
    for what in [Op::mkdir(path("meta.json")), Op::symlink(path("meta.json"), "/elsewhere")] {
        for by_set in [true, false] {
            let (fs, _folder) = account().await;
            let own = sessions(&*fs);
            own.create(&Create::new(SESSION).title("Trip")).await.unwrap();
            let placed = Batch::new([Op::remove(path("meta.json")), what.clone()]).by_garth();
            fs.commit(placed).await.unwrap();
            let error = own.get(SESSION).await.unwrap_err();
            assert!(
                error.is(ErrorKind::Corrupt) && error.message().contains("directory or a link"),
                "{error}"
            );
            if by_set {
                own.set(SESSION, &Change::new().title("Trip")).await.unwrap();
            } else {
                let (author, env) = (Author::default(), Env::system());
                let found = mend_all(&*fs, &env, &author, false, |_: &Damaged| ()).await.unwrap();
                assert!(found.len() == 1 && found[0].mended, "{found:?}");
            }
            assert_eq!(own.get(SESSION).await.unwrap().meta.name, SESSION);
        }
    }
}

#[tokio::test]
async fn repair_restores_damaged_meta_json() {
    let (fs, _folder) = account().await;
    let own = sessions(&*fs);
    own.create(&Create::new(SESSION).key(KEY.parse().unwrap()).title("Trip")).await.unwrap();
    let before = own.get(SESSION).await.unwrap().meta;
    for (junk, by_set) in [("{", true), ("[]", false), ("{\"id\":\"x\"}", true)] {
        let damaged = Op::write(path("meta.json"), junk);
        fs.commit(Batch::new([damaged]).by_garth()).await.unwrap();
        let error = own.get(SESSION).await.unwrap_err();
        assert!(error.is(ErrorKind::Corrupt) && error.path() == Some(&path("meta.json")), "{error}");
        if by_set {
            own.set(SESSION, &Change::new().title("Trip")).await.unwrap();
        } else {
            let (author, env) = (Author::default(), Env::system());
            let found = mend_all(&*fs, &env, &author, true, |_: &Damaged| ()).await.unwrap();
            assert!(found.len() == 1 && !found[0].mended, "{found:?}");
            assert!(own.get(SESSION).await.is_err(), "a dry run changes nothing");
            assert!(mend_all(&*fs, &env, &author, false, |_: &Damaged| ()).await.unwrap()[0].mended);
            assert!(mend_all(&*fs, &env, &author, false, |_: &Damaged| ()).await.unwrap().is_empty());
        }
        assert_eq!(own.get(SESSION).await.unwrap().meta, before);
    }
}

#[tokio::test]
async fn repaired_meta_without_history_is_main() {
    let (fs, _folder) = account().await;
    let own = sessions(&*fs);
    let junk = Op::write(path("meta.json"), "{\"class\":\"group\",").with_parents();
    fs.commit(Batch::new([junk]).by_garth()).await.unwrap();
    own.mend(SESSION).await.unwrap().expect("it was damaged");
    let meta = own.get(SESSION).await.unwrap().meta;
    assert_eq!(
        (meta.class.as_str(), &*meta.name, &*meta.agent, &*meta.user),
        ("main", SESSION, "coder", "default")
    );
    assert_eq!(meta.id.len(), 36);
}

#[tokio::test]
async fn marks_of_other_files_hide_no_due_session() {
    let fs = Arc::new(MemoryFs::new(Env::system(), garth_agent::registry()));
    let sessions = sessions(&*fs);
    sessions.create(&Create::new(SESSION)).await.unwrap();
    sessions.append(SESSION, &Append::messages([Draft::user("one")])).await.unwrap();
    fs.write(&path("context/gc.policy"), "pack_ttl=0s\n").await.unwrap();
    sessions.pack(SESSION, &PackOptions::default()).await.unwrap();
    let mark = SetAttrs::new().metadata("garth.collect_at", "2020-01-01T00:00:00Z");
    // More than one look reads.
    let copies = (0..4500).map(|number| {
        let path = TreePath::parse(&format!("/users/default/copies/{number}")).unwrap();
        Op::write(path, "x").with_parents().with_attrs(mark.clone())
    });
    fs.commit(Batch::new(copies).by_garth()).await.unwrap();
    let later = Env::system().now().plus_seconds(10);
    let counting = Counting::new(Arc::clone(&fs) as Arc<dyn FileSystem>);
    let first = Due::find(&counting, later, None).await.unwrap();
    assert_eq!((first.sessions.len(), counting.reads_since()), (0, 4), "{first:?}");
    assert_eq!(first.next, Some(later.plus_seconds(10)), "the next look is soon");
    let second = Due::find(&counting, later, first.after.as_ref()).await.unwrap();
    assert_eq!((second.sessions.len(), counting.reads_since()), (1, 1), "{second:?}");
    assert!(second.after.is_none() && second.next.is_some(), "{second:?}");
}
