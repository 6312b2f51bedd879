//! Follows the logs of all accounts, and makes context nodes whole that other programs wrote or changed.

use std::collections::HashMap;
use std::time::Duration;

use garth::agent::node::{Follow, Next, Nodes, Repair, Report};
use garth::datadir::AccountState;
use garth::model::{Seq, Timestamp};
use garth::{DataDir, Env, Result};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::connection::told_to_stop;

/// How often accounts are looked at.
const TICK: Duration = Duration::from_millis(500);

/// How many of them at a time: of more, each has its turn.
const AT_ONCE: usize = 100;

/// Steps for one account in its turn.
const STEPS: usize = 16;

/// How long an account is left alone that could not be followed.
const PAUSE_SECONDS: i64 = 60;

/// An account that is followed.
struct Followed {
    follow: Follow,
    /// The last commit that was seen.
    head: Seq,
    /// When to look at it, whether there is a commit or not.
    due: Option<Timestamp>,
}

/// Follows all accounts until it is told to stop.
pub(crate) async fn follow(data_dir: DataDir, mut stopping: watch::Receiver<bool>) {
    let (mut known, mut paused) = (HashMap::new(), HashMap::new());
    let mut turn = 0;
    loop {
        tokio::select! {
            () = told_to_stop(&mut stopping) => return,
            () = sleep(TICK) => {}
        }
        let accounts = match data_dir.control().accounts().await {
            Ok(accounts) => accounts,
            Err(error) => {
                tracing::debug!(%error, "accounts cannot be listed to be followed");
                continue;
            }
        };
        let ids: Vec<String> = accounts
            .into_iter()
            .filter(|account| account.state == AccountState::Active)
            .map(|account| account.id)
            .collect();
        known.retain(|id, _| ids.contains(id));
        paused.retain(|id, until| ids.contains(id) && *until > data_dir.env().now());
        let many = ids.len().min(AT_ONCE);
        for id in ids.iter().cycle().skip(turn % ids.len().max(1)).take(many) {
            if *stopping.borrow() {
                return;
            }
            if paused.contains_key(id) {
                continue;
            }
            if let Err(error) = look(&data_dir, id, &mut known).await {
                tracing::warn!(account = %id, %error, "context nodes cannot be followed");
                known.remove(id);
                paused.insert(id.clone(), data_dir.env().now().plus_seconds(PAUSE_SECONDS));
            }
        }
        turn = (turn + many) % ids.len().max(1);
    }
}

/// Does what is due for an account.
async fn look(data_dir: &DataDir, id: &str, known: &mut HashMap<String, Followed>) -> Result<()> {
    let env: &Env = data_dir.env();
    let tree = data_dir.account(id).await?;
    let nodes = Nodes::new(&*tree, id, env.clone());
    let head = tree.head().await?.seq;
    let followed = match known.get_mut(id) {
        Some(followed) => followed,
        None => {
            let follow = Follow::resume(&nodes).await?;
            known.entry(id.to_owned()).or_insert(Followed { follow, head: Seq(0), due: Some(Timestamp(0)) })
        }
    };
    if followed.head == head && followed.due.is_none_or(|due| due > env.now()) {
        return Ok(());
    }
    let (repair, mut report) = (Repair::new(nodes), Report::default());
    for _ in 0..STEPS {
        let next = followed
            .follow
            .step(&repair, &mut report, &mut |told| {
                if told.until.is_none() {
                    tracing::info!(node = %told.node, finding = told.finding.as_str(), "repaired");
                }
            })
            .await?;
        followed.head = head;
        followed.due = match next {
            Next::Now => {
                followed.due = Some(Timestamp(0));
                continue;
            }
            Next::At(due) => Some(due),
            Next::Commit => None,
        };
        break;
    }
    for failure in &report.failures {
        tracing::warn!(account = %id, failure = %failure, "a context node cannot be repaired");
    }
    Ok(())
}
