//! Packs use their budget: long results are cut before messages are omitted.

use std::collections::HashSet;
use std::sync::Arc;

use garth_agent::session::{Append, Create, Draft, PackOptions, Packed, Select, Sessions};
use garth_engine::FileSystem;
use garth_testkit::fs::counting::Counting;
use serde_json::json;

use super::packs::{budget, call, check, result, tokens};
use super::sessions::{account, engines, sessions};

/// Returns a log of about `tokens` tokens. No two logs are alike.
fn log(number: usize, tokens: usize) -> String {
    (0..tokens / 12).map(|line| format!("{number}.{line} compiled unit {}\n", line * 7919 % 1013)).collect()
}

/// Returns a turn of four messages with a result of about `length` tokens.
fn turn(number: usize, length: usize) -> [Draft; 4] {
    let id = format!("call_{number}");
    [
        Draft::user(format!("Question {number}: {}", "why does the build of this part fail? ".repeat(6))),
        call(&id, "bash", &json!({"command": format!("make part-{number}")})),
        result(&id, &log(number, length)),
        Draft::assistant(format!(
            "Answer {number}. {}",
            "The parser takes the wrong branch here. ".repeat(8)
        )),
    ]
}

/// Creates a session of 400 messages, ten of which are results of 10,000 to 110,000 tokens.
async fn with_ten_long_results(sessions: &Sessions<'_>) {
    for number in 0..100 {
        let length = if number % 10 == 4 { 10_000 + number / 10 * 11_100 } else { 120 };
        sessions.append("default", &Append::messages(turn(number, length))).await.unwrap();
    }
}

/// Checks the omitted messages and the cuts of results against the stored messages.
async fn check_shrunk(sessions: &Sessions<'_>, packed: &Packed) {
    check(packed);
    let window = &packed.pack.window;
    let budget = packed.pack.budget_tokens - packed.pack.reserved.all();
    let mut shown = Vec::new();
    for cut in &window.cuts {
        let start = packed.markdown.find(&format!("<!-- messages:{} tool result", cut.line)).unwrap();
        let rest = &packed.markdown[start..];
        let end = rest[4..].find("<!-- ").map_or(rest.len(), |at| at + 4);
        assert!(rest[..end].contains(&format!("bytes are left out: {}", format_args!("swap:{}", cut.swap))));
        shown.push(tokens(&rest[..end]));
    }
    let (all, of_results) = (packed.pack.tokens, shown.iter().sum::<u64>());
    // More than two fifths, if messages leave a part of the budget unused.
    assert!(of_results * 5 <= budget * 2 || all * 4 <= budget * 3, "{shown:?}, {all} of {budget}");
    if window.from > 1 {
        let page = sessions.lines("default", &Select::messages(1..=window.from - 1)).await.unwrap();
        if page.items.iter().any(|line| tokens(&line.text) < 400) {
            assert!(shown.iter().all(|tokens| *tokens <= 1000), "{shown:?}");
        }
    }
    let mut ids = HashSet::new();
    assert!(window.cuts.iter().all(|cut| ids.insert(&cut.swap)));
    for cut in &window.cuts {
        assert!(!sessions.swap_content("default", &cut.swap).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn long_results_are_cut_before_turns() {
    let (account, _folder) = account().await;
    let sessions = sessions(&*account).await;
    with_ten_long_results(&sessions).await;
    let packed = sessions.pack("default", &budget(64_000)).await.unwrap();
    check_shrunk(&sessions, &packed).await;
    assert!(packed.pack.tokens >= 64_000 * 7 / 10, "{}", packed.pack.tokens);
    for number in 90..100 {
        for said in ["Question", "Answer"] {
            assert!(packed.markdown.contains(&format!("{said} {number}")), "{said} {number}");
        }
    }
    println!(
        "{} tokens, messages {} to {}, {} results shrunk",
        packed.pack.tokens,
        packed.pack.window.from,
        packed.pack.window.to,
        packed.pack.window.cuts.len()
    );
    let again = sessions.replay("default", None).await.unwrap();
    assert_eq!(again.markdown, packed.markdown);
}

#[tokio::test]
async fn small_budgets_are_used_for_a_huge_result() {
    let (account, _folder) = account().await;
    let sessions = sessions(&*account).await;
    let digits: String = (0..20_000_u64).map(|number| format!("{} ", number * 7_919 % 100_003)).collect();
    let hex: String = (0..20_000_u64)
        .map(|number| format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    let words = "the parser takes the wrong branch here ".repeat(3000);
    for (number, text) in [log(1, 40_000), digits, hex, words].into_iter().enumerate() {
        for is_last in [true, false] {
            let session = format!("s{number}-{is_last}");
            sessions.create(&Create::new(&session)).await.unwrap();
            let mut said = vec![
                Draft::user("Why?"),
                call("c1", "bash", &json!({"command": "make"})),
                result("c1", &text),
            ];
            if !is_last {
                said.extend([Draft::assistant("It fails."), Draft::user("Go on, please.")]);
            }
            sessions.append(&session, &Append::messages(said)).await.unwrap();
            for most in (500..=700).step_by(20) {
                let mut options = budget(most);
                options.fresh = true;
                let packed = sessions.pack(&session, &options).await.unwrap();
                check(&packed);
                let used = packed.pack.tokens;
                assert!(used * 2 > most && used <= most, "{session}: {used} of {most}");
                assert_eq!(packed.pack.window.cuts.len(), 1);
                assert_eq!(sessions.replay(&session, None).await.unwrap().markdown, packed.markdown);
            }
        }
    }
}

#[tokio::test]
async fn two_turns_with_long_results_fit() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        for (number, length) in [(1, 40_000), (2, 60_000)] {
            sessions.append("default", &Append::messages(turn(number, length))).await.unwrap();
        }
        let packed = sessions.pack("default", &budget(64_000)).await.unwrap();
        check_shrunk(&sessions, &packed).await;
        assert_eq!(packed.pack.window.from, 1);
        assert!(packed.pack.tokens > 40_000, "{}", packed.pack.tokens);
        // All of it is there, so the longest alone is cut.
        assert_eq!(packed.pack.window.cuts.len(), 1);
        let small = sessions.pack("default", &budget(2000)).await.unwrap();
        check_shrunk(&sessions, &small).await;
        assert_eq!((small.pack.window.from, small.pack.window.cuts.len()), (1, 2));
    }
}

#[tokio::test]
async fn cut_results_stay_cut_across_packs() {
    let (account, _folder) = account().await;
    let sessions = sessions(&*account).await;
    let (mut before, mut moves): (Option<Packed>, _) = (None, 0);
    for number in 0..120 {
        let length = if number % 7 == 3 { 9_000 } else { 150 };
        sessions.append("default", &Append::messages(turn(number, length))).await.unwrap();
        let packed = sessions.pack("default", &budget(16_000)).await.unwrap();
        check_shrunk(&sessions, &packed).await;
        if let Some(before) = &before {
            if packed.markdown.starts_with(&before.markdown) {
                assert_eq!(packed.pack.window.from, before.pack.window.from);
            } else {
                moves += 1;
                assert!(packed.pack.tokens <= 13_000, "{}", packed.pack.tokens);
                assert!(packed.pack.tokens >= 16_000 * 6 / 10, "{}", packed.pack.tokens);
            }
        }
        let again = sessions.pack("default", &budget(16_000)).await.unwrap();
        assert_eq!(again.markdown, packed.markdown);
        before = Some(packed);
    }
    assert!((3..16).contains(&moves), "{moves}");
}

#[tokio::test]
async fn many_long_results_share_the_budget() {
    let (account, _folder) = account().await;
    let sessions = sessions(&*account).await;
    for number in 0..150 {
        sessions.append("default", &Append::messages(turn(number, 3_000))).await.unwrap();
    }
    let packed = sessions.pack("default", &budget(64_000)).await.unwrap();
    check_shrunk(&sessions, &packed).await;
    assert!(packed.pack.tokens >= 64_000 * 7 / 10, "{}", packed.pack.tokens);
}

#[tokio::test]
async fn repeated_output_frees_room_for_messages() {
    let (account, _folder) = account().await;
    let sessions = sessions(&*account).await;
    for number in 0..200 {
        let [question, call, _, answer] = turn(number, 0);
        let same = result(&format!("call_{number}"), &log(1, 900));
        sessions.append("default", &Append::messages([question, call, same, answer])).await.unwrap();
    }
    let packed = sessions.pack("default", &budget(20_000)).await.unwrap();
    check_shrunk(&sessions, &packed).await;
    assert!(packed.pack.tokens >= 20_000 * 7 / 10, "{}", packed.pack.tokens);
}

#[tokio::test]
async fn pack_cost_ignores_session_length() {
    let (account, _folder) = account().await;
    let fs: Arc<dyn FileSystem> = account.clone();
    let mut reads = Vec::new();
    for turns in [300, 3_000] {
        let counting = Counting::new(Arc::clone(&fs));
        let sessions = Sessions::new(&counting, "default", &format!("a{turns}")).unwrap();
        sessions.create(&garth_agent::session::Create::new("s")).await.unwrap();
        for first in (0..turns).step_by(100) {
            let all = (first..first + 100)
                .flat_map(|number| turn(number, if number % 9 == 0 { 2_500 } else { 100 }));
            sessions.append("s", &Append::messages(all)).await.unwrap();
        }
        let mut options = PackOptions::default();
        options.budget = Some(16_000);
        counting.reads_since();
        let packed = sessions.pack("s", &options).await.unwrap();
        assert!(packed.pack.window.from > 1 && !packed.pack.window.cuts.is_empty());
        reads.push(counting.reads_since());
    }
    assert!(reads[1] <= reads[0] + 2, "{reads:?}");
    assert!(reads[1] < 60, "{reads:?}");
}
