//! The call `recall`: memories and files relevant to a question, within a budget of tokens.

use std::sync::Arc;

use bytes::Bytes;
use garth::agent::recall::{BUDGET, Key, MAX_BUDGET, MAX_SOURCES, MIN_BUDGET, Recall, Recaller};
use garth::agent::{AgentTree, Identity};
use garth::model::Timestamp;
use garth::{AccountStore, Env, TreePath};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::call::{Answering, Call};
use super::nodes::identity;
use crate::errors::Refusal;

/// Limit on the paths of a call.
const MAX_PATHS: usize = 100;

/// Handler of a call on the tree of the account.
pub(super) type Handler = for<'a> fn(&'a Arc<dyn AccountStore>, &'a Call<'a>) -> Answering<'a>;

/// Answers a call on a thread for long work, because the choice of what to answer takes time.
pub(super) async fn recall(tree: &Arc<dyn AccountStore>, call: &Call<'_>) -> Result<Bytes, Refusal> {
    let (asked, who) = (asked(call)?, identity(&call.fields)?);
    let (tree, account, env) = (Arc::clone(tree), call.key.account.clone(), call.env.clone());
    let runtime = Handle::current();
    let answered =
        spawn_blocking(move || runtime.block_on(answer(&*tree, &account, &env, who, &asked))).await;
    answered.unwrap_or_else(|error| Err(Refusal::internal().because(error.to_string())))
}

async fn answer(
    tree: &dyn AccountStore,
    account: &str,
    env: &Env,
    who: Option<Identity>,
    asked: &Recall,
) -> Result<Bytes, Refusal> {
    let key = Key::random(env)?;
    let answer = match who {
        Some(who) => {
            let places = who.places()?;
            let tree = AgentTree::new(tree, who).create(false).open().await?;
            Recaller::new(&*tree, account, env.clone()).places(places).recall(asked, &key).await?
        }
        None => Recaller::new(tree, account, env.clone()).recall(asked, &key).await?,
    };
    let json = serde_json::to_vec(&answer.to_json(&key));
    Ok(json.map_err(|_| Refusal::validation("the answer is no JSON"))?.into())
}

/// Reads the question.
fn asked(call: &Call<'_>) -> Result<Recall, Refusal> {
    let fields = &call.fields;
    let mut asked = Recall::new(fields.required_text("question")?);
    let number = |name: &str, least: usize, most: usize, default: usize| {
        let number = fields.integer(name, least as u64, most as u64)?;
        Ok::<_, Refusal>(number.and_then(|number| usize::try_from(number).ok()).unwrap_or(default))
    };
    asked.budget = number("budget", MIN_BUDGET, MAX_BUDGET, BUDGET)?;
    asked.limit = number("limit", 1, MAX_SOURCES, asked.limit)?;
    let within = fields.texts("within")?.unwrap_or_default();
    if within.len() > MAX_PATHS {
        return Err(Refusal::validation(format!("\"within\" has at most {MAX_PATHS} paths")));
    }
    for path in &within {
        asked.within.push(TreePath::parse(path).map_err(garth::Error::from)?);
    }
    asked.tags_any = fields.texts("tags_any")?.unwrap_or_default();
    if let Some(text) = fields.text("valid_at")? {
        let must = || Refusal::validation("\"valid_at\" must be a time such as 2026-01-31T12:00:00Z");
        asked.valid_at = Some(Timestamp::parse_rfc3339(&text).map_err(|_| must())?);
    }
    asked.as_of = call.moment("as_of")?;
    Ok(asked)
}
