//! Limits on what a recall reads, counts and searches: nothing twice.

use std::sync::Arc;

use garth_agent::memory::{LayerText, Put};
use garth_agent::recall::{MAX_BUDGET, MIN_BUDGET, Recaller};
use garth_engine::FileSystem;
use garth_engine::model::At;
use garth_testkit::data::random::Random;
use garth_testkit::fs::counting::Counting;
use garth_testkit::tools::p as path;

use super::{Account, COFFEE, key, prose, uri, words};

#[tokio::test]
async fn recall_reads_short_files_once() {
    for count in [2, 12] {
        let account = Account::new();
        let mut size = 0;
        for n in 0..count {
            let memory = format!("ctx://default/users/alice/memories/events/e{n}");
            account.put(&memory, "The quokka sleeps in the shade.\n".repeat(20)).await;
            account.write(&format!("/notes/{n}.md"), "A quokka sleeps in the sun.\n".repeat(20)).await;
            let layers = [".meta.json", ".abstract.md", ".overview.md", "content.md"];
            let layers = layers.map(|name| format!("{}/{name}", uri(&memory).dir()));
            for file in layers.into_iter().chain([format!("/notes/{n}.md")]) {
                size += account.fs.stat(&At::Path(path(&file))).await.map_or(0, |entry| entry.size);
            }
        }
        let fs: Arc<dyn FileSystem> = account.fs.clone();
        let counting = Counting::new(fs);
        let asked = words("quokka").budget(MAX_BUDGET);
        let recaller = Recaller::new(&counting, "default").env(account.env.clone());
        let answer = recaller.recall(&asked, &key()).await.unwrap();
        assert_eq!(answer, account.recall(&asked).await);
        // Nothing twice, and no snippets.
        assert_eq!(counting.bytes_since() as u64, size, "{count} memories and files");
    }
}

#[tokio::test]
async fn recall_reads_no_more_than_the_budget_shows() {
    let account = Account::new();
    let text = "A quokka sleeps in the sun.\n".repeat(30);
    for n in 0..60 {
        account.write(&format!("/notes/{n}.md"), text.clone()).await;
    }
    let fs: Arc<dyn FileSystem> = account.fs.clone();
    let counting = Counting::new(fs);
    let recaller = Recaller::new(&counting, "default").env(account.env.clone());
    let mut read = Vec::new();
    for asked in [words("quokka").budget(400), words("quokka").budget(MAX_BUDGET)] {
        let answer = recaller.recall(&asked, &key()).await.unwrap();
        assert_eq!(answer.more, asked.budget == 400, "{answer:?}");
        read.push(counting.bytes_since() / text.len());
    }
    // Files are read in groups. The smaller budget shows few of the first group.
    assert_eq!(read, [16, 60]);
}

#[tokio::test]
async fn tokens_of_a_text_are_counted_once() {
    let mut steps = Vec::new();
    // The budget is tried after each 16 sources: once, and five times.
    for count in [32, 96] {
        let account = Account::new();
        for n in 0..count {
            account.write(&format!("/notes/{}/{n:02}.md", "long-name-".repeat(12)), "A quokka.\n").await;
        }
        let (fs, env) = (account.fs.clone(), account.env.clone());
        let before = env.computed().steps;
        let recall = async move {
            let recaller = Recaller::new(&*fs, "default").env(env);
            recaller.recall(&words("quokka").budget(MAX_BUDGET), &key()).await
        };
        let answer = account.env.compute("default", 1, recall).await.unwrap().unwrap();
        assert_eq!((answer.items.len(), answer.more), (count, false));
        // In bytes that are counted, and bytes that are searched for secrets.
        steps.push(account.env.computed().steps - before);
    }
    assert!(100 * steps[1] <= 105 * 3 * steps[0], "{steps:?}");
}

#[tokio::test]
async fn short_files_are_searched_for_secrets_once() {
    let account = Account::new();
    // Four passages, all of which are found.
    let text = "A quokka sleeps in the sun.\n".repeat(280);
    let size = text.len() as u64;
    account.write("/notes/sun.md", text).await;
    let (fs, env) = (account.fs.clone(), account.env.clone());
    let before = env.computed().steps;
    let recall = async move {
        let recaller = Recaller::new(&*fs, "default").env(env);
        recaller.recall(&words("quokka").budget(MIN_BUDGET), &key()).await
    };
    let answer = account.env.compute("default", 1, recall).await.unwrap().unwrap();
    assert!(answer.fits && answer.more, "{answer:?}");
    // The budget limits what is counted of the passages.
    let steps = account.env.computed().steps - before;
    assert!((size..3 * size).contains(&steps), "{steps} steps for {size} bytes");
}

#[tokio::test]
async fn recall_counts_memory_layers_once() {
    let account = Account::new();
    let mut put = Put::new(prose(&mut Random::new(3), 30));
    put.brief = LayerText::Given("Espresso habits of Alice".to_owned());
    put.overview = LayerText::Given("# Espresso\n\nAlice, mornings.".to_owned());
    account.put_as(COFFEE, &put).await;
    let answer = account.ask("espresso of Alice").await;
    let mut found = answer.items[0].found_in.iter().map(|(file, _)| file.as_str()).collect::<Vec<_>>();
    found.sort_unstable();
    assert_eq!(found, [".abstract.md", ".overview.md"]);
    assert!(answer.items.iter().all(|item| item.source == COFFEE), "{answer:?}");
    // Written through another interface: the layers describe text that no longer exists.
    account
        .write("/users/alice/memories/preferences/coffee/content.md", "Espresso of Alice is history.\n")
        .await;
    let answer = account.ask("espresso of Alice").await;
    assert_eq!(answer.items.len(), 1, "{answer:?}");
    assert_eq!(answer.items[0].text, "Espresso of Alice is history.\n");
}
