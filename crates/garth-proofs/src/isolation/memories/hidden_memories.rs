//! Memories of other users and agents, with a canary in each, which no attempt may read or change.

use garth_agent::memory::{Edge, Memories, Put, Uri};
use garth_engine::AccountStore;
use garth_testkit::proof::Proven;

/// Part of all texts, tags, reasons and names of others, which must stay hidden.
pub(super) const CANARY: &str = "canary-of-others";
/// Account of the attempts.
pub(super) const OWN: &str = "own";
/// Another account.
pub(super) const OTHER: &str = "other";

/// Puts memories of others into an account, with relations among them and to the memory of the attempts.
pub(super) async fn hide(account: &dyn AccountStore, name: &str) -> Proven<()> {
    let memories = Memories::new(account, name);
    let uri = |below: &str| format!("ctx://{name}/{below}").parse::<Uri>();
    let mine = uri("users/alice/memories/events/a")?;
    memories.put(&mine, &Put::new("The garden of Alice.")).await?;
    let mut last = mine.clone();
    for owner in ["users/bob", "agents/eve", "users/alic", "users/alice2"] {
        for below in ["memories/profile", "memories/events/a", "memories/events/hidden"] {
            let below = below.replace("hidden", CANARY);
            let other = uri(&format!("{owner}/{below}"))?;
            let mut put = Put::new(format!("The garden of Alice is a {CANARY}."));
            put.tags = Some(vec![CANARY.to_owned()]);
            memories.put(&other, &put).await?;
            for to in [&mine, &last] {
                if *to != other {
                    memories.relate(&edge(&other, to, CANARY)).await?;
                }
            }
            last = other;
        }
    }
    Ok(())
}

/// Returns a relation of two memories.
pub(super) fn edge(from: &Uri, to: &Uri, reason: &str) -> Edge {
    Edge {
        from_uri: from.to_string(),
        to_uri: to.to_string(),
        relation_type: "related_to".to_owned(),
        weight: 0.5,
        reason: reason.to_owned(),
        other: serde_json::Map::new(),
    }
}
