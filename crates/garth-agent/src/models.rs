//! Language models that features ask, where somebody has set one: a question, an answer that is checked like
//! any input, and how many tokens a day an account gives for them.

mod answer;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use self::answer::{MAX_ANSWER, answer_in, object_in};
use super::small_file::{as_read, pretty, read_all};
use crate::boxed;
use crate::count::count;
use crate::retry::retry;
use garth_engine::env::Env;
use garth_engine::error::Result;
use garth_engine::fs::store::system;
use garth_engine::fs::{AccountStore, FileSystem};
use garth_engine::model::{Batch, Op};
use garth_engine::path::TreePath;

/// Where it is kept how many tokens were taken today.
const SPENT: &str = "/.garth/models.json";

/// What a model is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What it is to do.
    pub system: String,
    /// With what.
    pub user: String,
    /// Most tokens of the answer.
    pub max_tokens: u64,
}

/// What it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// As it said it.
    pub text: String,
    /// Tokens of the question and the answer, if it told them.
    pub tokens: Option<u64>,
}

/// A language model.
#[async_trait]
pub trait ChatModel: fmt::Debug + Send + Sync {
    /// Asks it.
    ///
    /// # Errors
    /// `Unavailable` if it does not answer.
    async fn ask(&self, ask: &Ask) -> Result<Answer>;
}

/// The tokens that an account gives for models, a day (UTC).
#[derive(Clone, Debug)]
pub struct Allowance {
    fs: Arc<dyn FileSystem>,
    cap: u64,
    env: Env,
}

/// How much was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Spent {
    /// The day, `2026-01-27`.
    date: String,
    tokens: u64,
}

impl Allowance {
    /// So many tokens a day of an account.
    ///
    /// # Errors
    /// From the storage.
    #[boxed]
    pub async fn new(account: &dyn AccountStore, cap: u64, env: Env) -> Result<Self> {
        Ok(Self { fs: system(account).await?, cap, env })
    }

    /// Takes tokens, if so many are left today.
    ///
    /// # Errors
    /// From the storage.
    #[boxed]
    pub async fn take(&self, tokens: u64) -> Result<bool> {
        self.change(|spent| {
            let sum = spent.checked_add(tokens)?;
            (sum <= self.cap).then_some(sum)
        })
        .await
    }

    /// Gives back what was taken and not needed, or takes what it was too little.
    ///
    /// # Errors
    /// From the storage.
    #[boxed]
    pub async fn settle(&self, taken: u64, needed: u64) -> Result<()> {
        self.change(|spent| Some(spent.saturating_sub(taken).saturating_add(needed))).await.map(drop)
    }

    async fn change(&self, to: impl Fn(u64) -> Option<u64>) -> Result<bool> {
        let path = TreePath::parse(SPENT)?;
        retry(|| async {
            let file = read_all(&*self.fs, std::slice::from_ref(&path), 4096).await?.pop().flatten();
            let known = file.as_ref().and_then(|file| file.bytes.as_deref());
            let spent: Spent = known.and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default();
            let date = self.env.now().to_rfc3339()[..10].to_owned();
            let today = if spent.date == date { spent.tokens } else { 0 };
            let Some(tokens) = to(today) else { return Ok(false) };
            let op = Op::write(path.clone(), pretty(&Spent { date, tokens })?);
            let batch = Batch::new([op]).message("count tokens of models");
            self.fs.commit(batch.require(path.clone(), as_read(file.as_ref()))).await.map(|_| true)
        })
        .await
    }
}

/// Asks a model within the day's tokens; `None` if they are used up.
///
/// # Errors
/// `Unavailable` if it does not answer; from the storage.
pub(crate) async fn asked(
    model: &dyn ChatModel,
    allowance: Option<&Allowance>,
    ask: &Ask,
) -> Result<Option<String>> {
    let due = ((count(&ask.system) + count(&ask.user)) as u64).saturating_add(ask.max_tokens);
    if let Some(allowance) = allowance
        && !allowance.take(due).await?
    {
        return Ok(None);
    }
    let answer = model.ask(ask).await;
    if let Some(allowance) = allowance {
        // A token is a byte at least, and an answer has no more tokens than were allowed: what a model
        // reports beyond that is wrong, and would use up the day.
        let most = ((ask.system.len() + ask.user.len()) as u64).saturating_add(ask.max_tokens).max(due);
        let needed = answer.as_ref().map_or(0, |answer| answer.tokens.unwrap_or(due).min(most));
        allowance.settle(due, needed).await?;
    }
    Ok(Some(answer?.text))
}
