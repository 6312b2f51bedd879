//! Neighbours of shown pieces: what is left of a budget shows the texts around them.

use std::ops::Range;

use garth_agent::recall::Recall;
use garth_agent::session::{Append, Create, Draft, Sessions, Source};
use garth_engine::FileSystem;
use garth_engine::model::{SearchMode, SearchQuery, Timestamp};
use garth_testkit::data::random::Random;

use super::{Account, prose, words};

/// Creates a session with messages about nothing, one in each minute, and one about a quokka at this line.
async fn say(account: &Account, length: usize, found: usize) -> Sessions<'_> {
    let sessions = Sessions::new(&*account.fs, "ann", "coder").unwrap();
    sessions.create(&Create::new("zoo")).await.unwrap();
    for line in 1..=length {
        let text = if line == found { "The quokka hops." } else { "It rains again." };
        let draft = Draft::user(text).with("created_at", &format!("2023-11-14T07:{line:02}:00Z"));
        sessions.append("zoo", &Append::messages([draft])).await.unwrap();
    }
    sessions
}

/// Returns the lines of the only piece of an answer, which has all that was found.
async fn piece(account: &Account, asked: &Recall) -> Range<u64> {
    let answer = account.recall(asked).await;
    assert_eq!((answer.items.len(), answer.more), (1, false), "{}", answer.text);
    assert_eq!(account.recall(asked).await, answer);
    answer.items[0].lines.clone()
}

#[tokio::test]
async fn budget_left_shows_messages_around_a_piece() {
    let account = Account::new();
    say(&account, 40, 20).await;
    let mut shown = Vec::new();
    for budget in (110..250).step_by(2) {
        shown.push(piece(&account, &words("quokka").budget(budget)).await);
    }
    // The found message, one beside it on each side, and two more.
    assert!(shown.iter().all(|lines| lines.contains(&20) && 17 <= lines.start && lines.end <= 24));
    assert_eq!(shown.last(), Some(&(17..24)));
    assert!(shown.first().is_some_and(|lines| lines.end - lines.start < 7), "{shown:?}");
    // At the beginning and at the end of a session.
    let account = Account::new();
    say(&account, 4, 2).await;
    assert_eq!(piece(&account, &words("quokka")).await, 1..5);
}

#[tokio::test]
async fn retracted_messages_are_no_neighbours() {
    let account = Account::new();
    let sessions = say(&account, 20, 10).await;
    assert_eq!(piece(&account, &words("quokka")).await, 7..14);
    for (retracted, due) in [("messages:8", 9..14), ("messages:13", 9..13), ("messages:11", 9..11)] {
        let source: Source = retracted.parse().unwrap();
        sessions.retract("zoo", &source, None).await.unwrap();
        assert_eq!(piece(&account, &words("quokka")).await, due, "{retracted}");
    }
}

#[tokio::test]
async fn messages_outside_the_times_are_no_neighbours() {
    let account = Account::new();
    say(&account, 20, 10).await;
    let at = |minute: u32| Timestamp::parse_rfc3339(&format!("2023-11-14T07:{minute:02}:00Z")).unwrap();
    assert_eq!(piece(&account, &words("quokka").since(at(8))).await, 8..14);
    assert_eq!(piece(&account, &words("quokka").since(at(10)).until(at(13))).await, 10..13);
}

#[tokio::test]
async fn lines_around_a_passage_are_shown_with_it() {
    let account = Account::new();
    let mut random = Random::new(7);
    let (front, back) = (prose(&mut random, 900), prose(&mut random, 900));
    account.write("/house.md", format!("{front}\n\nThe boiler was mended in March.\n\n{back}")).await;
    let query = SearchQuery::new("boiler").mode(SearchMode::Words);
    let hit = account.fs.search(&query).await.unwrap().hits.swap_remove(0).bytes;
    let answer = account.recall(&words("when was the boiler mended").budget(2_000)).await;
    assert_eq!((answer.items.len(), answer.more), (1, false), "{}", answer.text);
    // Two groups of lines on each side. That they are those of the file is checked for every answer.
    let shown = &answer.items[0].bytes;
    for grown in [hit.start - shown.start, shown.end - hit.end] {
        assert!((481..=960).contains(&grown), "{hit:?} {shown:?}");
    }
}
