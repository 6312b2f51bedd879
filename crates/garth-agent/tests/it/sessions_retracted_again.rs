//! Repeats of retractions: entries that were derived since stay, and their number does not raise the cost.

use std::sync::Arc;

use garth_agent::session::{Create, Sessions};
use garth_engine::FileSystem;
use garth_testkit::fs::counting::Counting;

use super::sessions::{account, engines, sessions};
use super::sessions_retracted::{fact_ids, facts, say, source};

#[tokio::test]
async fn repeat_of_a_long_retraction_keeps_later_entries() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", (0..1300).map(|number| format!("Said {number}."))).await;
        sessions.create(&Create::new("other")).await.unwrap();
        let last = ("last", "default#messages:1300");
        sessions.derive("other", &facts(&[last, ("old", "default#messages:1-1300")])).await.unwrap();
        let retract = async |lines: &str| {
            sessions.retract("default", &source(lines), None).await.unwrap();
        };
        retract("messages:1-1200").await;
        assert_eq!(fact_ids(&*fs, "other").await, ["last"]);
        let of = [last, ("new", "default#messages:1-1300"), ("part", "default#messages:1200-1201")];
        sessions.derive("other", &facts(&of)).await.unwrap();
        for repeated in ["messages:1-1200", "messages:1-1200", "messages:1150-1200", "messages:7"] {
            retract(repeated).await;
            assert_eq!(fact_ids(&*fs, "other").await, ["last", "new", "part"], "{repeated}");
        }
        // Lines that were not retracted before.
        retract("messages:1202").await;
        assert_eq!(fact_ids(&*fs, "other").await, ["last", "part"]);
        retract("messages:1202").await;
        assert_eq!(fact_ids(&*fs, "other").await, ["last", "part"]);
    }
}

#[tokio::test]
async fn repeat_reads_the_past_once_for_all_entries() {
    let (account, _folder) = account().await;
    let fs: Arc<dyn FileSystem> = account.clone();
    let counting = Counting::new(fs);
    let sessions = Sessions::new(&counting, "default", "coder").unwrap();
    let reads = async |name: &str, count: usize| {
        let (other, lines) = (format!("{name}-other"), format!("{name}#messages:1-3"));
        for name in [name, &other] {
            sessions.create(&Create::new(name)).await.unwrap();
        }
        say(&sessions, name, (0..4).map(|number| format!("Said {number}."))).await;
        sessions.retract(name, &source("messages:2"), None).await.unwrap();
        let ids: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
        let of: Vec<(&str, &str)> = ids.iter().map(|id| (&**id, &*lines)).collect();
        sessions.derive(&other, &facts(&of)).await.unwrap();
        counting.reads_since();
        sessions.retract(name, &source("messages:2"), None).await.unwrap();
        let reads = counting.reads_since();
        assert_eq!(fact_ids(&counting, &other).await, ids);
        reads
    };
    assert_eq!(reads("few", 2).await, reads("many", 200).await);
}
