//! Language model of the configuration, for the verbs that use one.

use std::sync::Arc;

use clap::Args;
use garth_agent::models::Allowance;
use garth_server::chat_model::{HttpModel, ServedModel};

use crate::app::App;
use crate::config::{Config, ModelFlags, Settings};
use crate::fail::{Failure, Result};
use crate::host_text::secret_file;

/// Options of the language model.
#[derive(Args, Clone, Debug)]
pub(crate) struct ModelArgs {
    #[command(flatten)]
    flags: ModelFlags,
}

impl ModelArgs {
    /// Opens the model that flags, environment or file name; `None` if none is named.
    pub(crate) fn open(self, app: &App) -> Result<Option<ServedModel>> {
        let config = Config::load(&self.flags.given, &app.folder()?)?;
        open(&config, &config.settings()?)
    }
}

/// Opens the model of a configuration; `None` if none is named.
pub(crate) fn open(config: &Config, settings: &Settings) -> Result<Option<ServedModel>> {
    let (url, name) = match (&settings.model_endpoint, &settings.model) {
        (Some(url), Some(name)) => (url, name),
        (None, None) => return Ok(None),
        (Some(_), None) => {
            let endpoint = config.named("model_endpoint");
            return Err(Failure::Usage(format!(
                "{endpoint} requires model (--model), the name of the model"
            )));
        }
        (None, Some(_)) => {
            let model = config.named("model");
            let endpoint = "model_endpoint (--model-endpoint), the URL of its endpoint";
            return Err(Failure::Usage(format!("{model} requires {endpoint}")));
        }
    };
    let key = match (&settings.model_key, &settings.model_key_file) {
        (Some(key), _) => Some(key.clone()),
        (None, Some(file)) => {
            Some(std::fs::read_to_string(file).map_err(secret_file("model_key_file", file))?)
        }
        (None, None) => None,
    };
    // A key file may end with a line feed.
    let model = HttpModel::new(url, name, key.map(|key| key.trim().to_owned()))?.limits(&settings.limits);
    Ok(Some(ServedModel { model: Arc::new(model), daily_tokens: settings.model_daily_tokens }))
}

/// Returns the daily token allowance of the account.
pub(crate) async fn allowance(app: &mut App, model: Option<&ServedModel>) -> Result<Option<Allowance>> {
    if model.is_none() {
        return Ok(None);
    }
    let data_dir = app.data_dir_of_account().await?;
    let account = app.account_of(&data_dir).await?;
    Ok(ServedModel::allowance(model, &*account, &app.env).await?)
}
