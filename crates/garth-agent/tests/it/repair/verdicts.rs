//! Cases of the judgement that decide on the text to keep, and on the events to deliver.

use super::*;

#[tokio::test]
async fn edit_before_new_text_is_kept_as_stale() {
    for (fs, _kept) in engines().await {
        memories(&*fs).put(&coffee(), &Put::new("Black.")).await.unwrap();
        drain(&*fs).await;
        fs.write(coffee().file(".overview.md"), "Black, said Alice.\n").await.unwrap();
        fs.write(coffee().file("content.md"), "With milk.\n").await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("changed_content", 1)]);
        let layers = meta(&*fs, &coffee()).await.layers.unwrap();
        assert_eq!((layers.brief.origin, layers.overview.origin), (Origin::Derived, Origin::Stale));
        let overview = fs.read_to_string(coffee().file(".overview.md")).await.unwrap();
        assert_eq!(overview, "Black, said Alice.\n");
    }
}

#[tokio::test]
async fn retry_without_text_changes_nothing() {
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let fs = MemoryFs::new(env.clone(), garth_agent::registry());
    let memories = Memories::new(&fs, "default").env(env);
    memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
    fs.remove(coffee().file("content.md")).await.unwrap();
    assert_eq!(found(&repaired(&fs).await), [("broken", 1)]);
    let before = all(&fs).await;
    clock.advance(Duration::from_secs(60));
    let report = Repair::new(memories).retry(&coffee(), |_| ()).await.unwrap();
    assert_eq!((report.broken, found(&report)), (1, vec![]));
    assert_eq!(all(&fs).await, before);
}

#[tokio::test]
async fn copy_drops_events_of_the_original() {
    for (fs, _kept) in engines().await {
        let copied = uri("users/alice/memories/events/copied");
        memories(&*fs).put(&tea(), &Put::new("Green.")).await.unwrap();
        fs.mkdir_all(&copied.dir().parent().unwrap()).await.unwrap();
        fs.commit(Batch::new([Op::copy_tree(tea().dir(), copied.dir())])).await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("copied", 1)]);
        let due = [(EventType::UpsertContext, tea()), (EventType::UpsertContext, copied)];
        assert_eq!(events(&*fs).await, due.map(|(event_type, uri)| (event_type, uri.to_string())));
    }
}

#[tokio::test]
async fn manual_move_delivers_waiting_text_once() {
    for (fs, _kept) in engines().await {
        memories(&*fs).put(&coffee(), &Put::new("Black.")).await.unwrap();
        fs.rename(&coffee().dir(), &tea().dir()).await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("moved", 1)]);
        let due = [EventType::UpsertContext, EventType::MoveContext];
        assert_eq!(events(&*fs).await, due.map(|event_type| (event_type, coffee().to_string())));
    }
}

#[tokio::test]
async fn interrupted_move_is_delivered_once() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
        drain(&*fs).await;
        memories.move_to(&coffee(), &tea()).await.unwrap();
        set_meta(&*fs, &tea(), |meta| {
            meta["uri"] = coffee().to_string().into();
            meta["version"] = 1.into();
        })
        .await;
        assert_eq!(found(&repaired(&*fs).await), [("moved", 1)]);
        assert_eq!(events(&*fs).await, [(EventType::MoveContext, coffee().to_string())]);
        assert_eq!(meta(&*fs, &tea()).await.version, 2);
    }
}
