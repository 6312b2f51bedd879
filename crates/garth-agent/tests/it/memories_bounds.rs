//! Bounds on the reads and the memory use of one call, with any content of the directories.

use std::sync::Arc;

use garth_agent::memory::{Around, Direction, Edge, List, Memories, Prefix, Put, Uri, edge};
use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{Batch, Op};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt};

fn uri(slug: &str) -> Uri {
    format!("ctx://default/users/alice/memories/events/{slug}").parse().unwrap()
}

fn account() -> Arc<MemoryFs> {
    Arc::new(MemoryFs::new(Env::system(), garth_agent::registry()))
}

fn memories(fs: &dyn FileSystem) -> Memories<'_> {
    Memories::new(fs, "default")
}

/// Writes memories with a file of nearly 1 MiB each.
async fn heavy(fs: &dyn FileSystem, count: usize, file: &str, text: impl Fn(&Uri) -> String) {
    for number in 0..count {
        let uri = uri(&format!("n{number:02}"));
        memories(fs).put(&uri, &Put::new("Text.")).await.unwrap();
        fs.write(uri.file(file), text(&uri)).await.unwrap();
    }
}

fn wide_edge(from: &Uri, to: &Uri) -> String {
    let reason = "r".repeat(1_000_000);
    let text = format!(
        r#"[{{"from_uri":"{from}","to_uri":"{to}","relation_type":"about","weight":0.5,"reason":"{reason}"}}]"#
    );
    let edges: Vec<Edge> = edge::parse(text.as_bytes()).unwrap();
    edge::to_json(&edges).unwrap()
}

#[tokio::test]
async fn large_incoming_edges_are_truncated_but_rewritten() {
    let (fs, to) = (account(), uri("target"));
    memories(&*fs).put(&to, &Put::new("Text.")).await.unwrap();
    heavy(&*fs, 20, ".relations.json", |from| wide_edge(from, &to)).await;
    let found = memories(&*fs).around(&to, &Around::new(Direction::Incoming)).await.unwrap();
    assert!(found.more && (10..20).contains(&found.edges.len()), "{}", found.edges.len());
    memories(&*fs).delete(&to).await.unwrap();
    let mut left = 0;
    for number in 0..20 {
        let text = fs.read_to_string(uri(&format!("n{number:02}")).file(".relations.json")).await.unwrap();
        left += usize::from(text.contains("target"));
    }
    assert!((10..20).contains(&left), "{left} are left to the worker");
}

#[tokio::test]
async fn memory_page_is_bounded_in_bytes() {
    let fs = account();
    heavy(&*fs, 10, ".meta.json", |uri| {
        let meta = garth_agent::memory::Meta::new(uri, Env::system().now());
        meta.to_json().unwrap().replacen('{', &format!("{{\"note\": \"{}\",", "n".repeat(900_000)), 1)
    })
    .await;
    let (mut list, mut pages) = (List::new(Prefix::Account), Vec::new());
    loop {
        let page = memories(&*fs).list(&list).await.unwrap();
        pages.push(page.items.len());
        match page.next {
            Some(next) => list.after = Some(next),
            None => break,
        }
    }
    assert_eq!(pages.iter().sum::<usize>(), 10);
    assert!(pages.len() > 1 && pages.iter().all(|page| *page <= 5), "{pages:?}");
}

#[tokio::test]
async fn delete_ignores_huge_foreign_outbox_file() {
    let fs = account();
    memories(&*fs).put(&uri("a"), &Put::new("Text.")).await.unwrap();
    let huge = uri("a").file(".outbox/huge.json");
    fs.commit(Batch::new([Op::write(&huge, "x")])).await.unwrap();
    for _ in 0..5 {
        fs.append(&huge, vec![b'x'; 5 << 20]).await.unwrap();
    }
    memories(&*fs).delete(&uri("a")).await.unwrap();
    assert!(!fs.exists(uri("a").dir()).await.unwrap());
}

#[tokio::test]
async fn delete_on_folder_ignores_excess_events() {
    let folder = tempfile::tempdir().unwrap();
    let fs = HostFs::open(folder.path(), Mode::Writable, Env::system()).unwrap();
    memories(&*fs).put(&uri("a"), &Put::new("Text.")).await.unwrap();
    let full = || {
        let file = |number| Op::write(uri("a").file(&format!(".outbox/{number}.json")), "{}");
        Batch::new((0..1_100).map(file).collect::<Vec<_>>())
    };
    fs.commit(full()).await.unwrap();
    memories(&*fs).delete(&uri("a")).await.unwrap();
    assert!(!fs.exists(uri("a").dir()).await.unwrap());
    // On a tree with a worker, the worker has to run first.
    let fs = account();
    memories(&*fs).put(&uri("a"), &Put::new("Text.")).await.unwrap();
    fs.commit(full()).await.unwrap();
    let error = memories(&*fs).delete(&uri("a")).await.unwrap_err();
    assert!(error.is(ErrorKind::Conflict) && error.message().contains("garth outbox run"), "{error}");
}

#[tokio::test]
async fn rejects_too_many_tags_first() {
    let (fs, tea) = (account(), uri("tea"));
    let memories = memories(&*fs);
    memories.put(&tea, &Put::new("Green.")).await.unwrap();
    let many: Vec<String> = (0..65).map(|number| format!("t{number}")).collect();
    let same = vec!["t".to_owned(); 65];
    // The same tag given 65 times would be one tag.
    for (add, remove) in [(&many[..], &[][..]), (&[], &many), (&same, &[])] {
        let error = memories.tag(&tea, add, remove).await.unwrap_err();
        assert!(error.is(ErrorKind::InvalidArgument) && error.message().contains("64"), "{error}");
    }
}
