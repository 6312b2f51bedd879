//! The route of recall: what is known about a question, within so many tokens.

use std::sync::Arc;

use bytes::Bytes;
use garth::agent::recall::{BUDGET, Key, MAX_BUDGET, MAX_SOURCES, MIN_BUDGET, Recall, Recaller};
use garth::agent::{AgentTree, Identity};
use garth::model::{Moment, Timestamp};
use garth::{AccountStore, Env, TreePath};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::Caller;
use super::nodes::identity;
use crate::errors::Refusal;
use crate::fields::Fields;

/// Where it is.
pub(super) const PATH: &str = "/v1/recall";
/// Most paths of a request.
const MAX_PATHS: usize = 100;

/// Answers the call, on a thread for long work: to choose what is answered takes time.
pub(super) async fn answer(caller: &Caller<'_>, body: &Bytes) -> Result<Bytes, Refusal> {
    let fields = Fields::parse(body)?;
    let (asked, who) = (asked(caller, &fields)?, identity(&fields)?);
    let (tree, account, env) = (Arc::clone(caller.account), caller.key.account.clone(), caller.env.clone());
    let runtime = Handle::current();
    let answered =
        spawn_blocking(move || runtime.block_on(recall(&*tree, &account, &env, who, &asked))).await;
    answered.unwrap_or_else(|error| Err(Refusal::internal().because(error.to_string())))
}

async fn recall(
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

fn asked(caller: &Caller<'_>, fields: &Fields<'_>) -> Result<Recall, Refusal> {
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
    let now = caller.env.now();
    if let Some(text) = fields.text("valid_at")? {
        let must = || Refusal::validation("\"valid_at\" must be a time such as 2026-01-31T12:00:00Z");
        asked.valid_at = Some(Timestamp::parse_rfc3339(&text).map_err(|_| must())?);
    }
    if let Some(text) = fields.text("as_of")? {
        let moment = Moment::parse(&text, now)?;
        asked.as_of = Some(moment.unwrap_or_else(|| Moment::Snapshot(text.into_owned())));
    }
    Ok(asked)
}
