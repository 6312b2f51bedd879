//! Models for features that use one, if it is configured: language models and embedding services. A request,
//! an answer that is checked like any input, and the number of tokens that an account may use in a day.

mod answer;
mod corrections;
mod embedder;
mod failure;
mod pauses;
mod vectors;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use self::answer::{MAX_ANSWER, answer_in, object_in};
use self::corrections::Corrections;
use self::embedder::vectors_in;
pub use self::embedder::{Embedder, Embeddings, MAX_DIMENSIONS};
pub(crate) use self::failure::NoVectors;
pub use self::failure::{NoAnswer, ServiceError};
pub(crate) use self::vectors::{TextKey, Vector};
pub use self::vectors::{VECTOR_BUDGET, VectorCache};
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

/// File with the number of tokens that language models used today.
const SPENT: &str = "/.garth/models.json";
/// File with the number of tokens that embedding services used today.
const SPENT_ON_EMBEDDINGS: &str = "/.garth/embedder.json";

/// Request to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// System prompt.
    pub system: String,
    /// User message.
    pub user: String,
    /// Limit on the tokens of the answer.
    pub max_tokens: u64,
}

/// Answer of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Text as the model wrote it.
    pub text: String,
    /// Tokens of the request and the answer, if the model reports them.
    pub tokens: Option<u64>,
}

/// Interface of a language model.
#[async_trait]
pub trait ChatModel: fmt::Debug + Send + Sync {
    /// Sends a request.
    ///
    /// # Errors
    /// The reason why the model gave no answer.
    async fn ask(&self, ask: &Ask) -> Result<Answer, ServiceError>;
}

/// Daily token allowance of an account (UTC).
#[derive(Clone, Debug)]
pub struct Allowance {
    fs: Arc<dyn FileSystem>,
    /// File with the count.
    file: &'static str,
    cap: u64,
    env: Env,
}

/// Tokens used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct TokenUse {
    /// Day, such as `2026-01-27`.
    date: String,
    tokens: u64,
}

impl Allowance {
    /// Returns an allowance of `cap` tokens a day for language models.
    ///
    /// # Errors
    /// From the storage.
    #[boxed]
    pub async fn new(account: &dyn AccountStore, cap: u64, env: Env) -> Result<Self> {
        Ok(Self { fs: system(account).await?, file: SPENT, cap, env })
    }

    /// Returns an allowance of `cap` tokens a day for embedding services. They cost much less than language
    /// models, and are counted separately.
    ///
    /// # Errors
    /// From the storage.
    #[boxed]
    pub async fn for_embeddings(account: &dyn AccountStore, cap: u64, env: Env) -> Result<Self> {
        Ok(Self { fs: system(account).await?, file: SPENT_ON_EMBEDDINGS, cap, env })
    }

    /// Takes tokens from today's allowance. Returns false if not enough are left.
    ///
    /// # Errors
    /// From the storage.
    #[boxed]
    pub async fn take(&self, tokens: u64) -> Result<bool> {
        self.take_corrected(tokens, 0).await
    }

    /// Takes tokens, and corrects the count before, in one commit. Returns false if not enough are left: then
    /// it corrects nothing.
    #[boxed]
    async fn take_corrected(&self, tokens: u64, correction: i64) -> Result<bool> {
        self.change(|spent| {
            let sum = spent.saturating_add_signed(correction).checked_add(tokens)?;
            (sum <= self.cap).then_some(sum)
        })
        .await
    }

    /// Returns the day whose tokens are counted, such as `2026-01-27`.
    fn today(&self) -> String {
        self.env.now().to_rfc3339()[..10].to_owned()
    }

    /// Corrects the count after a call: `taken` tokens were reserved, `needed` were used.
    ///
    /// # Errors
    /// From the storage.
    #[boxed]
    pub async fn settle(&self, taken: u64, needed: u64) -> Result<()> {
        self.change(|spent| Some(spent.saturating_sub(taken).saturating_add(needed))).await.map(drop)
    }

    async fn change(&self, to: impl Fn(u64) -> Option<u64>) -> Result<bool> {
        let path = TreePath::parse(self.file)?;
        retry(|| async {
            let file = read_all(&*self.fs, std::slice::from_ref(&path), 4096).await?.pop().flatten();
            let known = file.as_ref().and_then(|file| file.bytes.as_deref());
            let spent: TokenUse =
                known.and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default();
            let date = self.today();
            // The count starts again on another day.
            let today = if spent.date == date { spent.tokens } else { 0 };
            let Some(tokens) = to(today) else { return Ok(false) };
            let op = Op::write(path.clone(), pretty(&TokenUse { date, tokens })?);
            let batch = Batch::new([op]).message("count tokens of models");
            // On the condition that the file is unchanged, so that concurrent requests are both counted.
            self.fs.commit(batch.require(path.clone(), as_read(file.as_ref()))).await.map(|_| true)
        })
        .await
    }
}

/// Sends a request within the day's allowance; `None` if that is used up.
///
/// # Errors
/// `Unavailable` with a [`NoAnswer`] as its cause if the model gives no answer; from the storage.
pub(crate) async fn asked(
    model: &dyn ChatModel,
    allowance: Option<&Allowance>,
    ask: &Ask,
) -> Result<Option<String>> {
    // The most that the call can use.
    let due = ((count(&ask.system) + count(&ask.user)) as u64).saturating_add(ask.max_tokens);
    // Reserved before the call, so that concurrent requests cannot exceed the day's limit together.
    if let Some(allowance) = allowance
        && !allowance.take(due).await?
    {
        return Ok(None);
    }
    let answer = model.ask(ask).await;
    if let Some(allowance) = allowance {
        // A token has at least one byte, and an answer no more tokens than allowed. A higher number reported
        // by a model is wrong, and would use up the day.
        let most = ((ask.system.len() + ask.user.len()) as u64).saturating_add(ask.max_tokens).max(due);
        let needed = answer.as_ref().map_or(0, |answer| answer.tokens.unwrap_or(due).min(most));
        allowance.settle(due, needed).await?;
    }
    Ok(Some(answer.map_err(NoAnswer::Service)?.text))
}

/// Daily allowance of an account for embeddings, with corrections that are not committed yet.
pub(crate) struct EmbeddingAllowance<'c> {
    pub(crate) allowance: Allowance,
    pub(crate) corrections: &'c Corrections,
    pub(crate) account: &'c str,
}

impl EmbeddingAllowance<'_> {
    /// Commits the correction of earlier requests, if there is one.
    ///
    /// # Errors
    /// From the storage.
    pub(crate) async fn settle(&self) -> Result<()> {
        let mut correction = self.corrections.take(self.account, self.allowance.today());
        let tokens = correction.tokens();
        if tokens != 0 {
            self.allowance.change(|spent| Some(spent.saturating_add_signed(tokens))).await?;
            correction.committed();
        }
        Ok(())
    }
}

/// Returns the vectors of texts within the day's allowance.
///
/// # Errors
/// `UsedUp`; from the service, also if its answer does not fit the texts; from the storage.
pub(crate) async fn embedded(
    embedder: &dyn Embedder,
    allowed: Option<&EmbeddingAllowance<'_>>,
    texts: &[String],
) -> Result<Vec<Vector>, NoVectors> {
    let Some(EmbeddingAllowance { allowance, corrections, account }) = allowed else {
        return Ok(vectors_in(&embedder.embed(texts).await?, texts.len())?);
    };
    let due: u64 = texts.iter().map(|text| count(text) as u64).sum();
    let mut correction = corrections.take(account, allowance.today());
    // Reserved before the call, as for a language model: not even a restart, or another process on the data
    // folder, lets an account exceed its day.
    if !allowance.take_corrected(due, correction.tokens()).await? {
        correction.put_back();
        return Err(NoVectors::UsedUp);
    }
    correction.committed();
    let answer = embedder.embed(texts).await;
    // A token has at least one byte. A higher number reported by a service is wrong.
    let most = texts.iter().map(|text| text.len() as u64).sum::<u64>().max(due);
    let needed = answer.as_ref().map_or(0, |answer| answer.tokens.unwrap_or(due).min(most));
    // Committed with the next request, or at the end of a command, unlike for language models: recalls are
    // frequent.
    correction.settle(&allowance.today(), due, needed);
    Ok(vectors_in(&answer?, texts.len())?)
}
