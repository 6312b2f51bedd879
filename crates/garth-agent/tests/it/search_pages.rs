//! Pages of a search: their cost, and memories that are found by several of their files.

use std::sync::Arc;

use garth_agent::memory::{LayerText, Level, Put};
use garth_agent::search::{HitKind, SearchHit, SearchKind, SearchPage, SearchRequest, Searcher};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{Batch, Op, SetAttrs};
use garth_engine::{Env, FileSystem};
use garth_testkit::fs::counting::Counting;
use garth_testkit::tools::p as path;

use super::memories_set::{memories, uri};

/// Number of hits that a search asks for beyond those of a page.
const SPARE: usize = 100;

fn account() -> Arc<dyn FileSystem> {
    Arc::new(MemoryFs::new(Env::system(), garth_agent::registry()))
}

async fn commit(fs: &dyn FileSystem, ops: impl IntoIterator<Item = Op>) {
    fs.commit(Batch::new(ops)).await.unwrap();
}

/// Returns the write of a value, which is read when it is described.
fn value(number: usize, attrs: SetAttrs) -> Op {
    let file = path(&format!("/agents/bot/kv/{number:03}.json"));
    Op::write(file, format!("\"needle {number:03}\"")).with_parents().with_attrs(attrs)
}

async fn page(fs: &dyn FileSystem, asked: &SearchRequest) -> SearchPage {
    Searcher::new(fs, "default").search(asked).await.unwrap()
}

/// Returns all hits, read in pages.
async fn pages(fs: &dyn FileSystem, asked: &SearchRequest) -> Vec<SearchHit> {
    let (mut asked, mut hits) = (asked.clone(), Vec::new());
    loop {
        let page = page(fs, &asked).await;
        hits.extend(page.hits);
        match page.next {
            Some(next) => asked.skip = next,
            None => return hits,
        }
    }
}

fn values_of(text: &str) -> SearchRequest {
    let mut asked = SearchRequest::new(text);
    (asked.kinds, asked.limit) = (vec![SearchKind::Values], 20);
    asked
}

#[tokio::test]
async fn deep_page_takes_one_search() {
    let fs = account();
    commit(&*fs, (0..600).map(|n| value(n, SetAttrs::new().searchable(true)))).await;
    let counting = Counting::new(fs);
    let mut reads = Vec::new();
    for skip in [0, 300, 500] {
        let mut asked = values_of("needle");
        asked.skip = skip;
        let found = page(&counting, &asked).await;
        assert_eq!((found.hits.len(), found.next), (20, Some(skip + 20)));
        // Hits of the pages before are ranked once, and not described.
        let hits = counting.hits_since();
        assert!(hits <= skip + 20 + SPARE, "{hits} hits to skip {skip}");
        reads.push(counting.reads_since());
    }
    assert_eq!(reads, [reads[0]; 3]);
}

#[tokio::test]
async fn deep_page_reads_no_more_text() {
    let fs = account();
    let note = |n: usize| {
        let text = format!("A quokka sleeps in tree {n:03}.\n");
        Op::write(path(&format!("/notes/{n:03}.md")), text).with_parents()
    };
    commit(&*fs, (0..300).map(note)).await;
    let counting = Counting::new(fs);
    let mut read = Vec::new();
    // The first page, and the tenth.
    for skip in [0, 180] {
        let mut asked = SearchRequest::new("quokka");
        (asked.limit, asked.context, asked.skip) = (20, 1, skip);
        let found = page(&counting, &asked).await;
        assert_eq!((found.hits.len(), found.next), (20, Some(skip + 20)));
        let has_text = |hit: &SearchHit| {
            let context = hit.hit.context.as_ref();
            hit.hit.snippet.contains("quokka") && context.is_some_and(|it| it.text.contains("quokka"))
        };
        assert!(found.hits.iter().all(has_text), "{found:?}");
        assert_eq!(counting.hits_since(), skip + 20 + SPARE);
        read.push(counting.bytes_since());
    }
    assert!(read[0] > 0 && read[0] == read[1], "{read:?} bytes");
}

#[tokio::test]
async fn hidden_hits_do_not_shorten_a_page() {
    let fs = account();
    // Of equal hits, those that were created later come first: values that were put without `searchable`.
    commit(&*fs, (0..30).map(|n| value(n, SetAttrs::new().searchable(true)))).await;
    commit(&*fs, (30..200).map(|n| value(n, SetAttrs::new()))).await;
    let counting = Counting::new(fs);
    let found = page(&counting, &values_of("needle")).await;
    assert_eq!((found.hits.len(), found.next), (20, Some(190)));
    assert_eq!(counting.hits_since(), 20 + SPARE + 200, "two searches");
    assert_eq!(pages(&counting, &values_of("needle")).await.len(), 30);
}

#[tokio::test]
async fn memory_is_on_one_page_only() {
    let fs = account();
    let given = |text: &str| LayerText::Given(text.to_owned());
    // Among the notes, the layers come first and the content last.
    let long = format!("{}A quokka.\n", "Nothing else is known of it. ".repeat(100));
    let by_content = Put::new(long).brief(given("Quokka.")).overview(given("A quokka."));
    let by_layer = Put::new("It sleeps.").brief(given("Quokka.")).overview(given("A quokka sleeps."));
    let (content, layer) = (uri("users/ann/memories/events/zoo"), uri("users/ann/memories/events/nap"));
    memories(&*fs).put(&content, &by_content).await.unwrap();
    memories(&*fs).put(&layer, &by_layer).await.unwrap();
    let note = |n: usize| {
        let text = format!("A quokka sleeps in tree {n}.\n");
        Op::write(path(&format!("/notes/{n:03}.md")), text).with_parents()
    };
    commit(&*fs, (0..300).map(note)).await;
    for (limit, kinds) in [(7, vec![]), (50, vec![]), (400, vec![]), (1, vec![SearchKind::Memories])] {
        let mut asked = SearchRequest::new("quokka");
        (asked.limit, asked.kinds) = (limit, kinds.clone());
        let found = pages(&*fs, &asked).await;
        assert_eq!(found.len(), if kinds.is_empty() { 302 } else { 2 }, "{limit}");
        let of_memories = found.iter().filter_map(|hit| match &hit.kind {
            HitKind::Memory { uri, layer } => Some((uri.clone(), *layer)),
            _ => None,
        });
        let due = [(layer.clone(), Level::Abstract), (content.clone(), Level::Content)];
        assert_eq!(of_memories.collect::<Vec<_>>(), due, "{limit} {kinds:?}");
    }
}
