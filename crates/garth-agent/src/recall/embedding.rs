//! Vectors of texts from an embedding service, from a cache as far as it has them.

use std::collections::{HashMap, HashSet};

use crate::models::{Allowance, Embedder, TextKey, Vector, VectorCache, embedded};
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, Result};
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

    /// Returns the vectors of texts of an account; `None` if the tokens of the day are used up.
    ///
    /// # Errors
    /// `Unavailable` if the service does not answer, or its answer does not fit the texts, and during the
    /// pause after that, unless all vectors are known; from the storage.
    pub(super) async fn vectors(
        &self,
        account: &str,
        env: &Env,
        texts: &[String],
    ) -> Result<Option<Vec<Vector>>> {
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
            let Some(vectors) = self.computed(account, env, &new_texts).await? else { return Ok(None) };
            let new: HashMap<TextKey, Vector> = new_keys.into_iter().zip(vectors).collect();
            self.cache.put(account, env.now(), &new);
            known.extend(new);
        }
        // Each key is known now: `embedded` returns a vector for each text.
        Ok(Some(keys.iter().filter_map(|key| known.get(key).cloned()).collect()))
    }

    /// Asks the service for the vectors of texts, unless the account pauses after a failure.
    async fn computed(&self, account: &str, env: &Env, texts: &[String]) -> Result<Option<Vec<Vector>>> {
        let allowance = match self.daily {
            Some((store, tokens)) => Some(Allowance::for_embeddings(store, tokens, env.clone()).await?),
            None => None,
        };
        let Some(pending) = self.cache.pauses().ask(account, env) else {
            let message = "the embedding service failed shortly before, and is asked again later";
            return Err(Error::new(ErrorKind::Unavailable, message));
        };
        let answer = embedded(self.embedder, allowance.as_ref(), texts).await;
        // Errors of the storage say nothing about the service.
        if !answer.as_ref().is_err_and(|error| error.is(ErrorKind::Unavailable)) {
            pending.answered();
        }
        answer
    }

    /// Drops the cached vectors of an account.
    pub(super) fn forget(&self, account: &str) {
        self.cache.forget(account);
    }
}
