//! Search, where there is any: a hit is only ever a current, unexpired file.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "each function's name is its promise, and each is a test"
)]

use std::time::Duration;

use garth::ErrorKind::InvalidArgument;
use garth::model::{Remove, SearchQuery, SetAttrs};

use super::{START, Subject};
use crate::tools::*;

fn words(text: &str) -> SearchQuery {
    SearchQuery::new(text)
}

async fn found(fs: &Fs, query: &SearchQuery) -> Vec<String> {
    let mut paths: Vec<String> =
        fs.search(query).await.unwrap().hits.iter().map(|hit| hit.path.to_string()).collect();
    paths.sort();
    paths
}

pub async fn a_text_file_is_found_as_soon_as_it_is_written(subject: &Subject) {
    let fs = &*subject.fs;
    let version = put(fs, "/note.md", "The grey heron stands in the garth.").await;
    put(fs, "/other.md", "Nothing of the kind.").await;
    let hits = fs.search(&words("heron")).await.unwrap().hits;
    assert_eq!(hits.len(), 1);
    let hit = &hits[0];
    assert_eq!((hit.path.as_str(), hit.ino, hit.version), ("/note.md", version.ino, version));
    assert!(hit.score > 0.0 && hit.score <= 1.0, "{}", hit.score);
    assert!(hit.snippet.contains("heron"), "{}", hit.snippet);
    assert!(hit.bytes.start < hit.bytes.end && hit.bytes.end <= 35 && hit.lines == (1..2), "{hit:?}");
    put(fs, "/binary", vec![0, 159, 146, 150]).await;
    assert_eq!(found(fs, &words("garth?! \"(heron)\" * -")).await, ["/note.md"], "any characters are fine");
    assert!(found(fs, &words("")).await.is_empty());
    for limit in [0, 1_001] {
        assert_error(fs.search(&words("heron").limit(limit)).await, InvalidArgument, None);
    }
}

pub async fn what_is_overwritten_removed_or_expired_is_not_found(subject: &Subject) {
    let fs = &*subject.fs;
    let expires = SetAttrs::new().expires_at(START.plus_seconds(10));
    given(fs, [write("/a", "heron"), write("/b", "heron"), write_with("/c", "heron", expires), mkdir("/d")])
        .await;
    given(fs, [write("/d/e", "heron"), write("/f", "hero"), append("/f", "n"), write("/moved", "heron")])
        .await;
    assert_eq!(found(fs, &words("heron")).await, ["/a", "/b", "/c", "/d/e", "/f", "/moved"]);
    given(
        fs,
        [write("/a", "crane"), remove("/b", Remove::File), remove("/d", Remove::Tree), truncate("/f", 3)],
    )
    .await;
    given(fs, [rename("/moved", "/here")]).await;
    subject.clock.advance(Duration::from_secs(10));
    assert_eq!(found(fs, &words("heron")).await, ["/here"]);
    let off = SetAttrs::new().searchable(false);
    given(fs, [set("/here", off)]).await;
    assert!(found(fs, &words("heron")).await.is_empty());
}

pub async fn a_search_is_bounded_by_segment_and_tag(subject: &Subject) {
    let fs = &*subject.fs;
    let tagged = |tag: &str| SetAttrs::new().tags([tag]);
    for dir in ["/chat-a", "/chat-ab", "/chat_a", "/chat%", "/CHAT-A"] {
        given(fs, [mkdir(dir), write_with(&format!("{dir}/f"), "heron", tagged(dir))]).await;
    }
    put(fs, "/chat-a.md", "heron").await;
    for dir in ["/chat-a", "/chat_a", "/chat%", "/CHAT-A"] {
        let query = words("heron").within(p(dir));
        assert_eq!(found(fs, &query).await, [format!("{dir}/f")]);
    }
    let query = words("heron").within(p("/chat-a")).within(p("/chat-ab"));
    assert_eq!(found(fs, &query).await, ["/chat-a/f", "/chat-ab/f"]);
    let query = words("heron").tag("/chat%").tag("no");
    assert_eq!(found(fs, &query).await, ["/chat%/f"]);
    let query = words("heron").within(p("/no"));
    assert!(found(fs, &query).await.is_empty());
    given(fs, [rename("/chat-a", "/chat-b")]).await;
    let query = words("heron").within(p("/chat-b"));
    assert_eq!(found(fs, &query).await, ["/chat-b/f"], "a moved directory is searched where it is");
    assert_eq!(fs.search(&words("heron").limit(2)).await.unwrap().hits.len(), 2);
}
