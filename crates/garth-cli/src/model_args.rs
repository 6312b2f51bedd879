//! The options that name a language model, for the features that ask one.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use garth_server::chat_model::{HttpModel, ServedModel};

use crate::fail::{Failure, Result};

/// A model, and how much it may take.
#[derive(Args, Debug)]
pub(crate) struct ModelArgs {
    /// The base URL of an endpoint that speaks OpenAI's chat completions
    #[arg(long, requires = "model", value_name = "URL")]
    model_endpoint: Option<String>,
    /// The name of the model there
    #[arg(long, requires = "model_endpoint", value_name = "NAME")]
    model: Option<String>,
    /// A file of this machine with the key of the endpoint
    #[arg(long, requires = "model_endpoint", value_name = "FILE")]
    model_key_file: Option<PathBuf>,
    /// Ask the model for at most so many tokens a day and account; beyond that go without
    #[arg(long, requires = "model_endpoint", value_name = "TOKENS")]
    model_daily_tokens: Option<u64>,
}

impl ModelArgs {
    /// The model; `None` if none is named.
    pub(crate) fn open(self) -> Result<Option<ServedModel>> {
        let Some((url, name)) = self.model_endpoint.zip(self.model) else { return Ok(None) };
        let key = match &self.model_key_file {
            Some(file) => Some(std::fs::read_to_string(file).map_err(Failure::host(file))?),
            None => None,
        };
        let model = Arc::new(HttpModel::new(&url, name, key.map(|key| key.trim().to_owned()))?);
        Ok(Some(ServedModel { model, daily_tokens: self.model_daily_tokens }))
    }
}
