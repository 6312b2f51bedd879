//! Repair of memories that other programs wrote or changed, by following the log of an account.

use garth_agent::memory::{FindingReport, Follow, Memories, Next, Repair, Report};
use garth_engine::{AccountStore, Env, Result};

/// Repairs what is due in an account, in at most `steps` steps. Returns the new position in its log, and the
/// time of the next repair.
pub(crate) async fn step(
    tree: &dyn AccountStore,
    account: &str,
    env: &Env,
    follow: Option<Follow>,
    steps: usize,
) -> Result<(Follow, Next)> {
    let memories = Memories::new(tree, account).env(env.clone());
    let mut follow = match follow {
        Some(follow) => follow,
        None => Follow::resume(&memories).await?,
    };
    let (repair, mut report, mut next) = (Repair::new(memories), Report::default(), Next::Now);
    for _ in 0..steps {
        let tell = &mut |told: &FindingReport<'_>| {
            // A memory that is still being written is not repaired yet.
            if told.until.is_none() {
                tracing::info!(memory = %told.memory, finding = told.finding.as_str(), "repaired");
            }
        };
        next = follow.step(&repair, &mut report, tell).await?;
        if next != Next::Now {
            break;
        }
    }
    for failure in &report.failures {
        tracing::warn!(failure = %failure, "a memory cannot be repaired");
    }
    Ok((follow, next))
}
