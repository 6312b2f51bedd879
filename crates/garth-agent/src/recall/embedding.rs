//! Vectors of texts from an embedding service, from a cache as far as it has them.

use std::collections::{HashMap, HashSet};

use crate::models::{
    Allowance, Embedder, EmbeddingAllowance, NoVectors, TextKey, Vector, VectorCache, embedded,
};
use garth_engine::env::Env;
use garth_engine::error::Result;
use garth_engine::fs::AccountStore;

/// Embedding service that compares texts with a question, instead of the table of the program.
///
/// It gets the question and texts that an answer could show: with masked secrets, and without retracted
/// messages and what the tree of the recall does not contain.
#[derive(Clone, Copy, Debug)]
pub struct Embedding<'a> {
    embedder: &'a dyn Embedder,
    cache: &'a VectorCache,
    daily: Option<(&'a dyn AccountStore, u64)>,
}

impl<'a> Embedding<'a> {
    /// Returns the service with a cache for its vectors, and without a limit on tokens.
    pub fn new(embedder: &'a dyn Embedder, cache: &'a VectorCache) -> Self {
        Self { embedder, cache, daily: None }
    }

    /// Sets the number of tokens that the account may use in a day (UTC).
    #[must_use]
    pub fn daily_tokens(self, account: &'a dyn AccountStore, tokens: u64) -> Self {
        Self { daily: Some((account, tokens)), ..self }
    }

    /// Returns the vectors of texts of an account.
    ///
    /// # Errors
    /// The reason why vectors are missing that are not known: the tokens of the day are used up, the service
    /// failed or its answer does not fit the texts, the account pauses after that, or the storage failed.
    pub(super) async fn vectors(
        &self,
        account: &str,
        env: &Env,
        texts: &[String],
    ) -> Result<Vec<Vector>, NoVectors> {
        let keys: Vec<TextKey> = texts.iter().map(|text| TextKey::new(self.embedder.model(), text)).collect();
        let mut known = self.cache.get(account, env.now(), &keys);
        let mut asked = HashSet::new();
        let (mut new_keys, mut new_texts) = (Vec::new(), Vec::new());
        for (key, text) in keys.iter().zip(texts) {
            // Two sources can have the same text.
            if !known.contains_key(key) && asked.insert(*key) {
                new_keys.push(*key);
                new_texts.push(text.clone());
            }
        }
        if !new_texts.is_empty() {
            let vectors = self.computed(account, env, &new_texts).await?;
            let new: HashMap<TextKey, Vector> = new_keys.into_iter().zip(vectors).collect();
            self.cache.put(account, env.now(), &new);
            known.extend(new);
        }
        // Each key is known now: `embedded` returns a vector for each text.
        Ok(keys.iter().filter_map(|key| known.get(key).cloned()).collect())
    }

    /// Asks the service for the vectors of texts, unless the account pauses after a failure.
    async fn computed(&self, account: &str, env: &Env, texts: &[String]) -> Result<Vec<Vector>, NoVectors> {
        let allowed = self.allowed(account, env).await?;
        let pending = self.cache.pauses().ask(account, env).ok_or(NoVectors::Paused)?;
        let answer = embedded(self.embedder, allowed.as_ref(), texts).await;
        // Errors of the storage say nothing about the service.
        if !answer.as_ref().is_err_and(NoVectors::is_failure_of_service) {
            pending.answered();
        }
        answer
    }

    /// Commits the difference between the tokens that requests of an account used and those that they
    /// reserved.
    ///
    /// # Errors
    /// From the storage.
    pub(super) async fn settle(&self, account: &str, env: &Env) -> Result<()> {
        // The allowance creates the directory of its file, also in an account that never asked the service.
        if !self.cache.corrections().has(account) {
            return Ok(());
        }
        match self.allowed(account, env).await? {
            Some(allowed) => allowed.settle().await,
            None => Ok(()),
        }
    }

    /// Returns the daily allowance of an account; `None` without a limit on tokens.
    async fn allowed<'s>(&'s self, account: &'s str, env: &Env) -> Result<Option<EmbeddingAllowance<'s>>> {
        let Some((store, tokens)) = self.daily else { return Ok(None) };
        let allowance = Allowance::for_embeddings(store, tokens, env.clone()).await?;
        Ok(Some(EmbeddingAllowance { allowance, corrections: self.cache.corrections(), account }))
    }

    /// Drops the cached vectors of an account.
    pub(super) fn forget(&self, account: &str) {
        self.cache.forget(account);
    }
}
