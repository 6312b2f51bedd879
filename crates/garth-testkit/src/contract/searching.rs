//! Search: every hit is a current, unexpired file.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use std::time::Duration;

use garth_engine::ErrorKind::InvalidArgument;
use garth_engine::model::{MAX_CONTEXT_BYTES, Remove, SearchMode, SearchQuery, SetAttrs};

use super::suite::checks;
use crate::subject::{START, Subject};
use crate::tools::*;

checks! {
    search_finds_new_files_immediately [search]
    search_omits_overwritten_and_removed_text [search expiry]
    search_filters_by_directory_and_tag [search attributes]
    search_filters_by_metadata_time_and_pattern [search attributes]
    search_limit_counts_visible_hits [search links]
    search_returns_several_passages_with_context [search]
    search_omits_text_before_a_position [search]
    search_finds_answers_in_other_words [search]
    secrets_have_no_meaning [search]
}

fn words(text: &str) -> SearchQuery {
    SearchQuery::new(text)
}

async fn found(fs: &Fs, query: &SearchQuery) -> Vec<String> {
    let mut paths: Vec<String> =
        fs.search(query).await.unwrap().hits.iter().map(|hit| hit.path.to_string()).collect();
    paths.sort();
    paths
}

async fn search_finds_new_files_immediately(subject: &Subject) {
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
    // Content that is not UTF-8 is not indexed, and must not disturb the index.
    put(fs, "/binary", vec![0, 159, 146, 150]).await;
    // Characters that mean something in the query language of FTS5.
    assert_eq!(found(fs, &words("garth?! \"(heron)\" * -")).await, ["/note.md"], "any characters are fine");
    assert!(found(fs, &words("")).await.is_empty());
    for limit in [0, 1_001] {
        assert_error(fs.search(&words("heron").limit(limit)).await, InvalidArgument, None);
    }
}

async fn search_omits_overwritten_and_removed_text(subject: &Subject) {
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
    // An attribute alone takes a file out of the index.
    let off = SetAttrs::new().searchable(false);
    given(fs, [set("/here", off)]).await;
    assert!(found(fs, &words("heron")).await.is_empty());
}

async fn search_filters_by_directory_and_tag(subject: &Subject) {
    let fs = &*subject.fs;
    let tagged = |tag: &str| SetAttrs::new().tags([tag]);
    // Names that a comparison of text, a `LIKE` pattern or another case would confuse.
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

async fn search_filters_by_metadata_time_and_pattern(subject: &Subject) {
    let fs = &*subject.fs;
    let of = |topic: &str, seconds| {
        let attrs = SetAttrs::new().metadata("topic", topic).metadata("lang", "en");
        attrs.mtime(START.plus_seconds(seconds))
    };
    given(fs, [mkdir("/notes"), mkdir("/notes/old"), mkdir("/log")]).await;
    given(
        fs,
        [
            write_with("/notes/a.md", "heron one", of("birds", 10)),
            write_with("/notes/old/b.md", "heron two", of("birds", 20)),
            write_with("/log/c.txt", "heron three", of("ponds", 30)),
        ],
    )
    .await;
    let heron = || words("heron");
    assert_eq!(found(fs, &heron().metadata("topic", "birds")).await, ["/notes/a.md", "/notes/old/b.md"]);
    assert_eq!(found(fs, &heron().metadata("topic", "ponds").metadata("lang", "en")).await, ["/log/c.txt"]);
    assert!(found(fs, &heron().metadata("topic", "ponds").metadata("lang", "de")).await.is_empty());
    assert!(found(fs, &heron().metadata("topic", "bird")).await.is_empty(), "values are whole");
    let at = |seconds| START.plus_seconds(seconds);
    assert_eq!(found(fs, &heron().since(at(20))).await, ["/log/c.txt", "/notes/old/b.md"]);
    // The end of the range is exclusive.
    assert_eq!(found(fs, &heron().until(at(20))).await, ["/notes/a.md"]);
    assert_eq!(found(fs, &heron().since(at(11)).until(at(30))).await, ["/notes/old/b.md"]);
    let pattern = |pattern: &str| heron().pattern(pattern);
    assert_eq!(found(fs, &pattern("/notes/**")).await, ["/notes/a.md", "/notes/old/b.md"]);
    assert_eq!(found(fs, &pattern("/*/*.md")).await, ["/notes/a.md"]);
    assert_eq!(
        found(fs, &pattern("/log/c.txt").pattern("/**/b.md")).await,
        ["/log/c.txt", "/notes/old/b.md"]
    );
    assert_eq!(found(fs, &pattern("/**/*.md").within(p("/notes/old"))).await, ["/notes/old/b.md"]);
    assert!(found(fs, &pattern("/nothing/**")).await.is_empty());
    for wrong in ["", "/a//b", "/a**"] {
        assert_error(fs.search(&pattern(wrong)).await, InvalidArgument, None);
    }
}

async fn search_limit_counts_visible_hits(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/best"), mkdir("/rest")]).await;
    // Better hits that the pattern excludes, more of them than the limit.
    for n in 0..30 {
        put(fs, &format!("/best/{n}"), "heron heron heron").await;
    }
    put(fs, "/rest/a", "a heron among many other words that are here").await;
    given(fs, [link("/rest/a", "/best/z")]).await;
    let query = words("heron").pattern("/rest/*").limit(3);
    assert_eq!(found(fs, &query).await, ["/rest/a"], "of its names the one that is asked for");
}

async fn search_returns_several_passages_with_context(subject: &Subject) {
    let fs = &*subject.fs;
    let filler = "plain filler words that fill\n".repeat(200);
    put(fs, "/long", format!("first heron\n{filler}before\nthe second heron\nbehind\n{filler}end")).await;
    put(fs, "/other", "a heron").await;
    assert_eq!(found(fs, &words("heron")).await, ["/long", "/other"], "one of each file");
    assert_eq!(found(fs, &words("heron").per_file(2)).await, ["/long", "/long", "/other"]);
    let answer = fs.search(&words("second heron").per_file(20).context(1)).await.unwrap();
    let hit = &answer.hits[0];
    let context = hit.context.as_ref().unwrap();
    assert_eq!(context.text, "before\nthe second heron\nbehind\n");
    assert_eq!((context.best, context.lines.clone()), (203, 202..205));
    assert!(hit.lines.contains(&203), "{hit:?}");
    let read = fs.read(&at("/long"), context.bytes.clone().into()).await.unwrap();
    assert_eq!(read, context.text.as_bytes());
    assert_eq!(hit.score, 1.0);
    assert!(fs.search(&words("heron")).await.unwrap().hits[0].context.is_none());
    let all = fs.search(&words("heron").within(p("/other")).context(20)).await.unwrap().hits;
    assert_eq!(all[0].context.as_ref().unwrap().text, "a heron");
    // One line that is longer than the context may be.
    let long = "x ".repeat(20_000) + "heron " + &"y ".repeat(20_000);
    put(fs, "/line", long).await;
    let hits = fs.search(&words("heron").within(p("/line")).context(20)).await.unwrap().hits;
    let context = hits[0].context.as_ref().unwrap();
    assert!(context.text.contains("heron") && context.text.len() <= MAX_CONTEXT_BYTES, "{context:?}");
    assert_eq!(context.lines, 1..2);
    for wrong in [words("heron").per_file(0), words("heron").per_file(21), words("heron").context(21)] {
        assert_error(fs.search(&wrong).await, InvalidArgument, None);
    }
}

async fn search_omits_text_before_a_position(subject: &Subject) {
    let fs = &*subject.fs;
    for n in 0..5 {
        put(fs, &format!("/{n}"), format!("a heron{}", " and more".repeat(n))).await;
    }
    let query = words("heron").context(1);
    let all = fs.search(&query).await.unwrap().hits;
    assert!(all.iter().all(|hit| hit.snippet.contains("heron") && hit.context.is_some()), "{all:?}");
    for from in [0, 2, 4, 5, usize::MAX] {
        let mut due = all.clone();
        for hit in due.iter_mut().take(from) {
            (hit.snippet, hit.context) = (String::new(), None);
        }
        let hits = fs.search(&query.clone().text_from(from)).await.unwrap().hits;
        assert_eq!((hits.len(), hits), (5, due), "text from {from}");
    }
}

async fn search_finds_answers_in_other_words(subject: &Subject) {
    let fs = &*subject.fs;
    put(fs, "/drinks", "Alice takes her coffee without milk.\n").await;
    put(fs, "/travel", "The night train to Vienna leaves from platform nine.\n").await;
    put(fs, "/garden", "The roses were cut back in March.\n").await;
    for (question, path) in [
        ("which hot beverage does she like", "/drinks"),
        ("when do the railway carriages depart", "/travel"),
        ("were the flowers pruned lately", "/garden"),
    ] {
        let asked = words(question);
        let best = fs.search(&asked).await.unwrap().hits.swap_remove(0);
        assert_eq!((best.path.as_str(), best.parts.words), (path, 0.0), "{question}");
        assert!(best.parts.meaning > 0.0 && best.score <= 1.0, "{best:?}");
        let hits = fs.search(&asked.mode(SearchMode::Words)).await.unwrap().hits;
        assert!(hits.is_empty(), "{question}: {hits:?}");
    }
    // A word or two are looked up, not compared.
    assert!(found(fs, &words("tractor")).await.is_empty());
    assert_eq!(found(fs, &words("blossoms roses")).await, ["/garden"]);
}

async fn secrets_have_no_meaning(subject: &Subject) {
    let fs = &*subject.fs;
    let question = words("which big animal of the jungle is it");
    let score = async |secret: &str| {
        put(fs, "/note", format!("The host of the build is seven.\npassword: {secret}\n")).await;
        fs.search(&question).await.unwrap().hits.first().map(|hit| hit.score)
    };
    let (near, far) = (score("elephantjungle7").await, score("spreadsheets7xx").await);
    assert_eq!(near, far);
    put(fs, "/note", "An elephant of the jungle.\n").await;
    let shown = fs.search(&question).await.unwrap().hits.swap_remove(0);
    assert!(shown.parts.meaning > 0.0 && Some(shown.score) != near, "{shown:?}");
}
