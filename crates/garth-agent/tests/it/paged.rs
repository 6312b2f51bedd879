//! Every call with pages returns the same items for each page size: the next page starts where the one before
//! ends.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use futures::stream;
use garth_agent::kv::{Kv, PageRequest, Put as PutValue, Semantics};
use garth_agent::media::{Media, NewMedia};
use garth_agent::memory::{List as MemoryList, Memories, Prefix, Put, Status};
use garth_agent::session::{Create, List, Sessions};
use garth_agent::workspace::Workspace;
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{Batch, HistoryPage, Op};
use garth_engine::{Env, FileSystem, TreePath};
use serde_json::value::RawValue;

/// Items, and cursor of the next page.
type PageOf = (Vec<String>, Option<String>);
type Answer<'a> = Pin<Box<dyn Future<Output = PageOf> + 'a>>;
type Call<'a> = Box<dyn Fn(usize, Option<String>) -> Answer<'a> + 'a>;

const KEY: &str = "agent:coder:main";

/// Session that owns the media.
const SESSION: &str = "0190a1b2-0000-7000-8000-000000000001";

/// Number of items of each call: more than the pages of most limits.
const ITEMS: usize = 23;

/// Returns an account in which each call has [`ITEMS`] items, among many other files.
async fn scene() -> MemoryFs {
    let fs = MemoryFs::new(Env::system(), garth_agent::registry());
    let sessions = Sessions::new(&fs, "ann", "coder").unwrap();
    let memories = Memories::new(&fs, "default");
    let (kv, media) = (Kv::new(&fs, "coder").unwrap(), Media::new(&fs));
    let value = RawValue::from_string(r#"{"text":"needle"}"#.to_owned()).unwrap();
    let mut ops = Vec::new();
    let mut file = |path: String| {
        ops.push(Op::write(TreePath::parse(&path).unwrap(), "text\n").with_parents());
    };
    for n in 0..ITEMS {
        sessions.create(&Create::new(format!("s{n}"))).await.unwrap();
        memories
            .put(&format!("ctx://default/users/ann/memories/events/e{n}").parse().unwrap(), &Put::new("Tea."))
            .await
            .unwrap();
        let changed = "ctx://default/users/ann/memories/cases/changed".parse().unwrap();
        match n + 1 < ITEMS {
            true => drop(memories.put(&changed, &Put::new(format!("Tea {n}."))).await.unwrap()),
            false => drop(memories.delete(&changed).await.unwrap()),
        }
        kv.put(&PutValue::new(&format!("/d/k{n}"), &value), None).await.unwrap();
        kv.put(&PutValue::new("/changed", &RawValue::from_string(n.to_string()).unwrap()), None)
            .await
            .unwrap();
        let picture = stream::iter([Ok(bytes::Bytes::from_static(b"picture"))]);
        media.put(&NewMedia::new(KEY, "image/png").session(SESSION), picture).await.unwrap();
        // Moved media and parts of compactions are listed among the archives.
        file(format!("/agents/coder/sessions/a{n}.jsonl.gz"));
        file(format!("/agents/coder/sessions/a{n}/picture.png"));
        file(format!("/agents/coder/sessions/a{n}-part{n}.jsonl.gz"));
        file(format!("/agents/coder/memory/2026-01-{:02}.md", n + 1));
        file(format!("/agents/coder/memory/2026-01-{:02}-notes.md", n + 1));
        file(format!("/users/ann/agents/coder/session/s{n}x/notes.md"));
        file(format!("/media/{KEY}/notes{n}.txt"));
    }
    fs.commit(Batch::new(ops)).await.unwrap();
    fs
}

async fn memory_log(fs: &dyn FileSystem, limit: usize, after: Option<String>) -> PageOf {
    let page = HistoryPage::default().limit(limit).before(after.map(|id| id.parse().unwrap()));
    let uri = "ctx://default/users/ann/memories/cases/changed".parse().unwrap();
    let found = Memories::new(fs, "default").log(&uri, &page).await.unwrap();
    let ids: Vec<String> = found.items.iter().map(|version| version.id.to_string()).collect();
    let next = ids.last().cloned().filter(|_| found.more);
    (ids, next)
}

/// Returns the calls, by name.
fn calls(fs: &dyn FileSystem) -> BTreeMap<&'static str, Call<'_>> {
    let workspace = || Workspace::new(fs, "coder").unwrap();
    let kv = || Kv::new(fs, "coder").unwrap();
    let mut calls: BTreeMap<&'static str, Call<'_>> = BTreeMap::new();
    calls.insert(
        "sessions",
        Box::new(move |limit, after| {
            Box::pin(async move {
                let mut list = List::default();
                (list.limit, list.after) = (limit, after);
                let sessions = Sessions::new(fs, "ann", "coder").unwrap();
                let (found, next) = sessions.list(&list).await.unwrap();
                (found.into_iter().map(|session| session.name).collect(), next)
            })
        }),
    );
    calls.insert(
        "archives",
        Box::new(move |limit, after| {
            Box::pin(async move {
                let (found, next) = workspace().archives(after.as_deref(), limit).await.unwrap();
                (found.into_iter().map(|archive| archive.session_id).collect(), next)
            })
        }),
    );
    calls.insert(
        "days",
        Box::new(move |limit, after| {
            Box::pin(async move {
                let after = after.map(|day| day.parse().unwrap());
                let (found, next) = workspace().list_daily(after, limit).await.unwrap();
                (found.into_iter().map(|day| day.day.to_string()).collect(), next.map(|day| day.to_string()))
            })
        }),
    );
    calls.insert(
        "media",
        Box::new(move |limit, after| {
            Box::pin(async move {
                let media = Media::new(fs);
                let (found, next) = media.list(SESSION, after.as_deref(), limit).await.unwrap();
                (found.into_iter().map(|stored| stored.key.to_string()).collect(), next)
            })
        }),
    );
    for (name, status) in [("memories", Status::Active), ("memories that are broken", Status::Broken)] {
        calls.insert(
            name,
            Box::new(move |limit, after| {
                Box::pin(async move {
                    let mut list = MemoryList::new(Prefix::Account);
                    (list.limit, list.after, list.status) = (limit, after, status);
                    let found = Memories::new(fs, "default").list(&list).await.unwrap();
                    (found.items.into_iter().map(|(uri, _)| uri.to_string()).collect(), found.next)
                })
            }),
        );
    }
    calls.insert("memory log", Box::new(move |limit, after| Box::pin(memory_log(fs, limit, after))));
    calls.insert(
        "kv list",
        Box::new(move |limit, cursor| {
            Box::pin(async move {
                let page = kv().list("/d", PageRequest { limit, cursor: cursor.as_deref() }).await.unwrap();
                (page.items.into_iter().map(|item| item.path).collect(), page.next)
            })
        }),
    );
    calls.insert(
        "kv glob",
        Box::new(move |limit, cursor| {
            Box::pin(async move {
                let page = PageRequest { limit, cursor: cursor.as_deref() };
                let page = kv().glob("/d/k*", Semantics::Whole, page).await.unwrap();
                (page.items, page.next)
            })
        }),
    );
    calls.insert(
        "kv history",
        Box::new(move |limit, cursor| {
            Box::pin(async move {
                let page = PageRequest { limit, cursor: cursor.as_deref() };
                let page = kv().history("/changed", page).await.unwrap();
                (page.items.into_iter().map(|past| past.version.to_string()).collect(), page.next)
            })
        }),
    );
    calls
}

#[tokio::test]
async fn pages_of_any_size_give_the_same_items() {
    let fs = scene().await;
    for (name, call) in calls(&fs) {
        let (whole, next) = call(100, None).await;
        assert_eq!(next, None, "{name}: all fit in one page");
        let due = if name.ends_with("broken") { 0 } else { ITEMS };
        assert_eq!(whole.len(), due, "{name}");
        for limit in [1, 2, 7, ITEMS] {
            let (mut items, mut cursor) = (Vec::new(), None);
            loop {
                let (page, next) = call(limit, cursor).await;
                assert!(page.len() <= limit, "{name}: a page of {limit} has {}", page.len());
                items.extend(page);
                cursor = next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(items, whole, "{name} in pages of {limit}");
        }
    }
}

#[tokio::test]
async fn prompt_supports_many_skills() {
    let fs = MemoryFs::new(Env::system(), garth_agent::registry());
    let skill = |n: usize, text: &str| {
        let path = TreePath::parse(&format!("/agents/coder/skills/s{n:05}/SKILL.md")).unwrap();
        Op::write(path, format!("---\nname: s{n:05}\ndescription: does {n}\n---\n{text}")).with_parents()
    };
    fs.commit(Batch::new((0..1500).map(|n| skill(n, "")))).await.unwrap();
    let workspace = Workspace::new(&fs, "coder").unwrap();
    let prompt = workspace.prompt(&Default::default()).await.unwrap();
    assert!(prompt.text.contains("s00000") && prompt.text.contains("s01499"));
    assert_eq!(workspace.skills(&[]).await.unwrap().shown.len(), 1500);
    // What all of them say is more than a prompt reads: it is built without the last.
    let long = "long ".repeat(200_000);
    fs.commit(Batch::new((0..8).map(|n| skill(n, &long)))).await.unwrap();
    for batch in 1..6 {
        fs.commit(Batch::new((batch * 8..batch * 8 + 8).map(|n| skill(n, &long)))).await.unwrap();
    }
    let prompt = workspace.prompt(&Default::default()).await.unwrap();
    assert!(prompt.text.contains("s00000") && !prompt.text.contains("s01499"));
    let listing = workspace.skills(&[]).await.unwrap();
    assert_eq!(listing.shown.len() + listing.left_out.len(), 1500);
    workspace.remove_skill("default", "s00000", garth_agent::workspace::Origin::Agent).await.unwrap();
    assert!(!workspace.prompt(&Default::default()).await.unwrap().text.contains("s00000"));
}
