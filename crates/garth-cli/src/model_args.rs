//! The options that name a language model, for the features that ask one.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use garth_agent::models::Allowance;
use garth_server::chat_model::{HttpModel, ServedModel};

use crate::app::App;
use crate::fail::{Failure, Result};
use crate::size::parse_tokens;

/// A model, and how much it may take.
#[derive(Args, Debug)]
pub(crate) struct ModelArgs {
    /// Base URL of an endpoint that speaks OpenAI's chat completions
    #[arg(long, requires = "model", value_name = "URL")]
    model_endpoint: Option<String>,
    /// Name of the model at the endpoint
    #[arg(long, requires = "model_endpoint", value_name = "NAME")]
    model: Option<String>,
    /// File of this machine with the key of the endpoint
    #[arg(long, requires = "model_endpoint", value_name = "FILE")]
    model_key_file: Option<PathBuf>,
    /// Token limit per day and account; beyond it garth works without the model
    #[arg(long, requires = "model_endpoint", value_name = "TOKENS", value_parser = parse_tokens)]
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

/// Returns what is left of the daily token limit of the account.
pub(crate) async fn allowance(app: &mut App, model: Option<&ServedModel>) -> Result<Option<Allowance>> {
    if model.is_none() {
        return Ok(None);
    }
    let data_dir = app.data_dir_of_account().await?;
    let account = app.account_of(&data_dir).await?;
    Ok(ServedModel::allowance(model, &*account, &app.env).await?)
}
