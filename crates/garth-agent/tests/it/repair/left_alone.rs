//! Directories that repair does not change: without meta and text, or with an unknown status.

use garth_engine::ErrorKind;

use super::*;

/// Files of each directory. None has a meta or a text.
const WITHOUT_META_AND_TEXT: [&[(&str, &str)]; 5] = [
    &[(".abstract.md", "Hers\n")],
    &[(".relations.json", "[]\n"), (".abstract.md", "Hers\n"), (".overview.md", "# Coffee\n")],
    &[(".overview.md", "# Coffee\n"), ("notes.txt", "mine")],
    &[(".relations.json", "[{")],
    &[(".abstract.md", "Hers\n"), (".outbox/.done", "3\n"), (".outbox/mine.json", "{}")],
];

async fn make(fs: &dyn FileSystem, memory: &Uri, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = memory.file(name);
        fs.mkdir_all(&path.parent().unwrap()).await.unwrap();
        fs.write(&path, (*text).to_owned()).await.unwrap();
    }
}

#[tokio::test]
async fn directory_without_meta_and_text_is_skipped() {
    for (fs, _kept) in engines().await {
        for (n, files) in WITHOUT_META_AND_TEXT.iter().enumerate() {
            make(&*fs, &uri(&format!("users/alice/memories/events/e{n}")), files).await;
            make(&*fs, &uri(&format!("agents/scout/skills/s{n}")), files).await;
        }
        let before = all(&*fs).await;
        let report = repaired(&*fs).await;
        assert_eq!((found(&report), report.waiting, report.broken), (vec![], 0, 0));
        let report = Repair::new(memories(&*fs)).retry(&uri("users/alice/memories/events/e1"), |_| ()).await;
        assert_eq!(found(&report.unwrap()), []);
        assert_eq!(all(&*fs).await, before);
    }
}

#[tokio::test]
async fn unknown_status_is_reported_and_kept() {
    let statuses = [r#""ARCHIVED""#, r#""active""#, r#""Pending""#, r#""""#, "null", "7", r#"["ACTIVE"]"#];
    for (fs, _kept) in engines().await {
        for (n, status) in statuses.iter().enumerate() {
            let meta = format!(r#"{{"status": {status}, "version": 3}}"#);
            let files = [(".meta.json", &*meta), ("content.md", "Black.\n"), (".abstract.md", "Hers\n")];
            make(&*fs, &uri(&format!("users/alice/memories/events/whole{n}")), &files).await;
            make(&*fs, &uri(&format!("users/alice/memories/events/text{n}")), &files[..2]).await;
            make(&*fs, &uri(&format!("users/alice/memories/events/meta{n}")), &files[..1]).await;
        }
        make(&*fs, &tea(), &[(".meta.json", r#"{"mood": 7}"#), ("content.md", "Green.\n")]).await;
        let before = all(&*fs).await;
        let report = repaired(&*fs).await;
        assert_eq!((found(&report), report.broken, report.waiting), (vec![], 0, 0));
        assert_eq!(report.unknown, 3 * statuses.len() as u64 + 1);
        assert!(
            report.unknown_memories.contains(&format!("{}: missing", tea())),
            "{:?}",
            report.unknown_memories
        );
        let archived = uri("users/alice/memories/events/text0");
        assert!(report.unknown_memories.contains(&format!("{archived}: \"ARCHIVED\"")));
        assert!(report.is_whole() && !report.is_sound());
        let report = Repair::new(memories(&*fs)).retry(&archived, |_| ()).await.unwrap();
        assert_eq!((found(&report), report.unknown), (vec![], 1));
        assert_eq!(all(&*fs).await, before);
        let refused = memories(&*fs).get(&archived, Level::Content).await.unwrap_err().to_string();
        assert!(refused.contains("ARCHIVED") && refused.contains("remove the memory"), "{refused}");
        let refused = memories(&*fs).put(&archived, &Put::new("White.")).await.unwrap_err();
        assert!(refused.is(ErrorKind::Corrupt) && refused.message().contains("ARCHIVED"), "{refused}");
        assert_eq!(all(&*fs).await, before);
        assert!(!memories(&*fs).exists(&archived).await.unwrap());
    }
}

#[tokio::test]
async fn end_of_active_memory_is_delivered_once() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        for memory in [coffee(), tea()] {
            memories.put(&memory, &Put::new("Black.")).await.unwrap();
        }
        memories.relate(&edge(&coffee(), &tea())).await.unwrap();
        memories.relate(&edge(&tea(), &coffee())).await.unwrap();
        drain(&*fs).await;
        for name in [".meta.json", "content.md"] {
            fs.remove(coffee().file(name)).await.unwrap();
        }
        let own = |files: BTreeMap<String, String>| -> Vec<(String, String)> {
            files.into_iter().filter(|(path, _)| path.starts_with(coffee().dir().as_str())).collect()
        };
        let before = own(all(&*fs).await);
        let report = repaired(&*fs).await;
        assert_eq!(own(all(&*fs).await), before);
        match fs.capabilities(&TreePath::root()).log {
            true => {
                assert_eq!(found(&report), [("deleted", 1)]);
                let due = [
                    (EventType::DeleteContext, coffee().to_string()),
                    (EventType::UpsertRelation, tea().to_string()),
                ];
                assert_eq!(events(&*fs).await, due);
            }
            false => assert_eq!((found(&report), events(&*fs).await), (vec![], vec![])),
        }
        drain(&*fs).await;
        assert_eq!(found(&repaired(&*fs).await), [], "it was told already");
        assert_eq!(own(all(&*fs).await), before);
    }
}

#[tokio::test]
async fn each_end_of_a_memory_is_delivered() {
    let fs = MemoryFs::new(Env::system(), garth_agent::registry());
    for _ in 0..2 {
        memories(&fs).put(&coffee(), &Put::new("Black.")).await.unwrap();
        drain(&fs).await;
        for name in ["content.md", ".meta.json"] {
            fs.remove(coffee().file(name)).await.unwrap();
        }
        assert_eq!(found(&repaired(&fs).await), [("deleted", 1)]);
        drain(&fs).await;
    }
}

#[tokio::test]
async fn inactive_memory_has_no_delete_event() {
    let fs = MemoryFs::new(Env::system(), garth_agent::registry());
    let pending = Meta { status: Status::Pending, ..Meta::new(&coffee(), Timestamp(0)) };
    make(&fs, &coffee(), &[(".meta.json", &pending.to_json().unwrap()), (".abstract.md", "Hers\n")]).await;
    fs.remove(coffee().file(".meta.json")).await.unwrap();
    assert_eq!(found(&repaired(&fs).await), []);
}

#[tokio::test]
async fn follow_delivers_end_despite_other_files() {
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let fs = MemoryFs::new(env.clone(), garth_agent::registry());
    let mut follow = Follow::since(Seq(0));
    Memories::new(&fs, "default").env(env.clone()).put(&coffee(), &Put::new("Black.")).await.unwrap();
    assert_eq!(followed(&mut follow, &fs, &env, &clock, 3).await, [""; 0]);
    drain(&fs).await;
    for name in [".meta.json", "content.md"] {
        fs.remove(coffee().file(name)).await.unwrap();
    }
    let told = followed(&mut follow, &fs, &env, &clock, 3).await;
    assert_eq!(told, ["deleted /users/alice/memories/preferences/coffee"]);
    assert!(fs.exists(coffee().file(".abstract.md")).await.unwrap());
    assert_eq!(events(&fs).await, [(EventType::DeleteContext, coffee().to_string())]);
    drain(&fs).await;
    assert_eq!(followed(&mut follow, &fs, &env, &clock, 3).await, [""; 0]);
}

#[tokio::test]
async fn moved_memory_has_no_delete_event() {
    let fs = MemoryFs::new(Env::system(), garth_agent::registry());
    memories(&fs).put(&coffee(), &Put::new("Black.")).await.unwrap();
    drain(&fs).await;
    fs.rename(&coffee().dir(), &tea().dir()).await.unwrap();
    make(&fs, &coffee(), &[(".abstract.md", "Hers\n")]).await;
    assert_eq!(found(&repaired(&fs).await), [("moved", 1)]);
    assert_eq!(events(&fs).await, [(EventType::MoveContext, coffee().to_string())]);
}
