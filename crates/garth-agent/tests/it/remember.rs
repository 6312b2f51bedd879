//! Facts that are stored and forgotten in one call each.

use garth_agent::memory::{Level, NOTES, Put, Remember, Space, Uri};
use garth_agent::{Access, Caller, Request};
use garth_engine::model::{Batch, Op};
use garth_engine::{Env, ErrorKind};

use super::homes::account;
use super::memories_set::{engines, memories};

const COFFEE: &str = "Takes her coffee black.";

fn alice() -> Space {
    Space::User("alice".to_owned())
}

fn fact(text: &str) -> Remember {
    Remember::new(text).space(alice())
}

#[tokio::test]
async fn remembers_a_fact_as_a_note() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let written = memories.remember(&fact(COFFEE).tags(["drink"])).await.unwrap();
        assert!(written.created && written.seq.is_some());
        assert_eq!((&*written.meta.category, &*written.meta.owner_space), (NOTES, "user:alice"));
        assert_eq!(written.meta.tags, ["drink"]);
        let uri: Uri = written.meta.uri.parse().unwrap();
        assert!(
            written.meta.uri.starts_with("ctx://default/users/alice/memories/notes/takes-her-coffee-black-")
        );
        assert_eq!(memories.get(&uri, Level::Content).await.unwrap().text, format!("{COFFEE}\n"));
    }
}

#[tokio::test]
async fn remember_refuses_empty_facts() {
    for (fs, _kept) in engines().await {
        for text in ["", " \n\t\n"] {
            let error = memories(&*fs).remember(&fact(text)).await.unwrap_err();
            assert!(error.is(ErrorKind::InvalidArgument), "{error}");
            // A fact has no option that would accept it.
            assert_eq!(error.message(), "the text is empty; give the fact as a sentence");
        }
    }
}

#[tokio::test]
async fn remembers_the_same_text_once() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let first = memories.remember(&fact(COFFEE)).await.unwrap();
        let again = memories.remember(&fact(&format!("  {COFFEE}\n\n"))).await.unwrap();
        assert_eq!((again.created, again.seq, &again.meta.uri), (false, None, &first.meta.uri));
        let tagged = memories.remember(&fact(COFFEE).tags(["drink"])).await.unwrap();
        assert_eq!((&*tagged.meta.tags, tagged.meta.version), (&["drink".to_owned()][..], 2));
        let other = memories.remember(&Remember::new(COFFEE)).await.unwrap();
        assert!(other.created && other.meta.owner_space == "user:default");
    }
}

#[tokio::test]
async fn edited_and_replaced_notes_are_kept() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let uri: Uri = memories.remember(&fact(COFFEE)).await.unwrap().meta.uri.parse().unwrap();
        memories.put(&uri, &Put::new("Takes her coffee with milk.\n")).await.unwrap();
        let second = memories.remember(&fact(COFFEE)).await.unwrap();
        assert!(second.created && second.meta.uri.ends_with("-2"), "{}", second.meta.uri);
        assert_eq!(memories.get(&uri, Level::Content).await.unwrap().text, "Takes her coffee with milk.\n");
        let second: Uri = second.meta.uri.parse().unwrap();
        let mut tea = Put::new("Drinks tea now.\n");
        tea.replaces = Some(second.clone());
        let tea_uri = "ctx://default/users/alice/memories/preferences/tea".parse().unwrap();
        memories.put(&tea_uri, &tea).await.unwrap();
        let third = memories.remember(&fact(COFFEE)).await.unwrap();
        assert!(third.created && third.meta.uri.ends_with("-3"), "{}", third.meta.uri);
    }
}

#[tokio::test]
async fn deleted_note_hides_no_later_one() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let uri = async || memories.remember(&fact(COFFEE)).await.unwrap().meta.uri.parse::<Uri>().unwrap();
        let first = uri().await;
        memories.put(&first, &Put::new("Takes her coffee with milk.\n")).await.unwrap();
        let second = uri().await;
        assert_ne!(first, second);
        memories.forget(&first).await.unwrap();
        assert_eq!(uri().await, second, "it is not stored again");
        assert_eq!(memories.remembered(&fact(COFFEE)).await.unwrap(), second);
        memories.forget(&second).await.unwrap();
        assert_eq!(uri().await, first, "the first free number");
    }
}

#[tokio::test]
async fn texts_in_any_script_have_slugs() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let texts = ["她喝黑咖啡。", "Ölkännchen – größer", "###", &"word ".repeat(500), &"x".repeat(9_000)];
        let mut uris = Vec::new();
        for text in texts {
            let written = memories.remember(&fact(text)).await.unwrap();
            assert!(written.created, "{text}");
            uris.push(written.meta.uri);
        }
        uris.sort();
        uris.dedup();
        assert_eq!(uris.len(), texts.len());
    }
}

#[tokio::test]
async fn rejects_an_empty_fact() {
    for (fs, _kept) in engines().await {
        for text in ["", " \n\t"] {
            let error = memories(&*fs).remember(&fact(text)).await.unwrap_err();
            assert!(error.is(ErrorKind::InvalidArgument), "{error}");
        }
    }
}

#[tokio::test]
async fn remember_reports_similar_memories() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let first = memories.remember(&fact("Alice takes her coffee black at breakfast.")).await.unwrap();
        let near = memories.remember(&fact("Alice takes coffee black at breakfast!")).await.unwrap().near;
        let searches = fs.capabilities(&first.meta.uri.parse::<Uri>().unwrap().dir()).search;
        let near = near.map(|near| near[0].uri.to_string());
        assert_eq!(near, searches.then_some(first.meta.uri));
    }
}

/// Ways to write one fact.
const SPELLINGS: [&str; 6] = [
    "Ann is allergic to walnuts.",
    "ann is allergic to walnuts",
    "ANN IS ALLERGIC TO WALNUTS!",
    "- Ann is **allergic** to walnuts",
    "Ann is allergic  to walnuts;",
    "Ann is allergic to walnuts. ",
];

#[tokio::test]
async fn spellings_of_a_fact_are_similar() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let first = memories.remember(&fact(SPELLINGS[0])).await.unwrap().meta.uri;
        if !fs.capabilities(&first.parse::<Uri>().unwrap().dir()).search {
            continue;
        }
        for text in &SPELLINGS[1..5] {
            let near = memories.remember(&fact(text)).await.unwrap().near.unwrap();
            assert!(near.iter().any(|near| near.uri.to_string() == first), "{text}: {near:?}");
        }
        let same = memories.remember(&fact(SPELLINGS[5])).await.unwrap();
        assert_eq!((same.created, same.meta.uri), (false, first));
    }
}

#[tokio::test]
async fn facts_remembered_at_once_report_each_other() {
    let (fs, _kept) = engines().await.swap_remove(0);
    let memories = memories(&*fs);
    let facts: Vec<Remember> = SPELLINGS[..5].iter().map(|text| fact(text)).collect();
    let all = futures::future::join_all(facts.iter().map(|fact| memories.remember(fact))).await;
    let near = all.into_iter().map(|written| written.unwrap().near.unwrap());
    let alone = near.filter(Vec::is_empty).count();
    assert!(alone <= 1, "only the first commit has none before it: {alone}");
}

#[tokio::test]
async fn edited_fact_is_forgotten_by_its_new_text() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let uri: Uri = memories.remember(&fact(COFFEE)).await.unwrap().meta.uri.parse().unwrap();
        if !fs.capabilities(&uri.dir()).search {
            continue;
        }
        memories.remember(&fact("Takes her coffee with hot milk.")).await.unwrap();
        let edit = Op::write(uri.file("content.md"), "Takes her coffee with milk.\n".to_owned());
        fs.commit(Batch::new([edit])).await.unwrap();
        assert!(memories.remembered(&fact(COFFEE)).await.unwrap_err().is(ErrorKind::NotFound));
        assert!(memories.remembered(&fact("takes her coffee with milk")).await.is_err());
        assert_eq!(memories.remembered(&fact("Takes her coffee with milk. ")).await.unwrap(), uri);
    }
}

#[tokio::test]
async fn forgets_a_fact_by_its_text() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        memories.remember(&fact(COFFEE)).await.unwrap();
        let uri = memories.remembered(&fact(&format!("{COFFEE}\n"))).await.unwrap();
        let left = memories.forget(&uri).await.unwrap();
        assert_eq!((&left.uri, left.more, &left.provenance), (&uri, false, &None));
        assert_eq!(left.versions, usize::from(fs.capabilities(&uri.dir()).log));
        assert!(!memories.exists(&uri).await.unwrap());
        let error = memories.remembered(&fact(COFFEE)).await.unwrap_err();
        assert!(error.is(ErrorKind::NotFound), "{error}");
        assert!(memories.forget(&uri).await.unwrap_err().is(ErrorKind::NotFound));
        assert!(memories.remember(&fact(COFFEE)).await.unwrap().created, "it can be remembered again");
    }
}

#[tokio::test]
async fn forget_names_similar_memories() {
    let (fs, _kept) = engines().await.swap_remove(0);
    let memories = memories(&*fs);
    let stored = memories.remember(&fact("Alice takes her coffee black at breakfast.")).await.unwrap();
    let error = memories.remembered(&fact("Alice takes coffee black at breakfast!")).await.unwrap_err();
    assert!(error.message().contains(&stored.meta.uri), "{error}");
}

#[tokio::test]
async fn eight_callers_store_one_memory() {
    let (fs, _kept) = engines().await.swap_remove(0);
    let memories = memories(&*fs);
    let (coffee, all) = (fact(COFFEE), std::iter::repeat_n((), 8));
    let all = futures::future::join_all(all.map(|()| memories.remember(&coffee))).await;
    let created = all.iter().filter(|written| written.as_ref().unwrap().created).count();
    assert_eq!(created, 1);
}

#[tokio::test]
async fn an_agent_remembers_for_its_audience() {
    let (account, _kept) = account().await;
    let open = async |user: &str| {
        let request = Request::new("concierge").user(user);
        let access = Access::open(&account, &Env::system(), Caller::ApiKey, &request).await.unwrap();
        access.make().await.unwrap();
        access
    };
    let (alice, bob) = (open("alice").await, open("bob").await);
    let written = alice.memories("default").remember(&COFFEE.into()).await.unwrap();
    assert_eq!(written.meta.owner_space, "user:alice");
    let uri: Uri = written.meta.uri.parse().unwrap();
    assert!(bob.memories("default").remembered(&COFFEE.into()).await.is_err());
    assert!(bob.memories("default").forget(&uri).await.is_err());
    assert!(bob.memories("default").remember(&fact(COFFEE)).await.is_err(), "to another user");
    assert!(alice.memories("default").forget(&uri).await.is_ok());
}
