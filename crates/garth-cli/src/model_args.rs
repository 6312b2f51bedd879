//! Language model and embedding service of the configuration, for the verbs that use them.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use garth_agent::models::{Allowance, VECTOR_BUDGET, VectorCache};
use garth_agent::recall::Embedding;
use garth_engine::AccountStore;
use garth_server::chat_model::{HttpModel, ServedModel};
use garth_server::embedder::{HttpEmbedder, ServedEmbedder};

use crate::app::App;
use crate::config::{Config, EmbedderFlags, ModelFlags, Settings};
use crate::fail::{Failure, Result};
use crate::host_text;

/// Options of the language model.
#[derive(Args, Clone, Debug)]
pub(crate) struct ModelArgs {
    #[command(flatten)]
    flags: ModelFlags,
}

impl ModelArgs {
    /// Opens the model that flags, environment or file name; `None` if none is named.
    pub(crate) fn open(self, app: &App) -> Result<Option<ServedModel>> {
        let config = Config::load(&self.flags.given, app.location()?.folder())?;
        open(&config, &config.settings()?)
    }
}

/// Options of the embedding service.
#[derive(Args, Clone, Debug)]
pub(crate) struct EmbedderArgs {
    #[command(flatten)]
    flags: EmbedderFlags,
}

impl EmbedderArgs {
    /// Returns true if a flag sets an option of the service.
    pub(crate) fn is_given(&self) -> bool {
        !self.flags.given.is_empty()
    }

    /// Opens the service that flags, environment or file name; `None` if none is named.
    pub(crate) fn open(&self, app: &App) -> Result<Option<OwnEmbedder>> {
        let config = Config::load(&self.flags.given, app.location()?.folder())?;
        let settings = config.settings()?;
        let Some(served) = open_embedder(&config, &settings)? else { return Ok(None) };
        let budget = settings.limits.get("embedder_cache").and_then(|bytes| usize::try_from(bytes).ok());
        let vectors = VectorCache::with_budget(budget.unwrap_or(VECTOR_BUDGET));
        Ok(Some(OwnEmbedder { served, vectors }))
    }
}

/// Embedding service of a command, with the vectors that it computed for the command.
#[derive(Debug)]
pub(crate) struct OwnEmbedder {
    served: ServedEmbedder,
    vectors: VectorCache,
}

impl OwnEmbedder {
    /// Returns the service for recalls from an account, within the tokens that the account may use in a day.
    pub(crate) fn embedding<'a>(&'a self, account: &'a dyn AccountStore) -> Embedding<'a> {
        self.served.limited(self.unlimited(), account)
    }

    /// Returns the service without a limit on tokens.
    pub(crate) fn unlimited(&self) -> Embedding<'_> {
        Embedding::new(&*self.served.embedder, &self.vectors)
    }
}

/// Opens the model of a configuration; `None` if none is named.
pub(crate) fn open(config: &Config, settings: &Settings) -> Result<Option<ServedModel>> {
    // Read without an endpoint, too, so that the step to one reveals no error.
    let key = key(&settings.model_key, &settings.model_key_file, "model_key_file")?;
    let given = (&settings.model_endpoint, &settings.model);
    let Some((url, name)) = endpoint_and_name(config, given, ["model_endpoint", "model"])? else {
        return Ok(None);
    };
    let model = HttpModel::new(url, name, key)?.limits(&settings.limits);
    Ok(Some(ServedModel { model: Arc::new(model), daily_tokens: settings.model_daily_tokens }))
}

/// Opens the embedding service of a configuration; `None` if none is named.
pub(crate) fn open_embedder(config: &Config, settings: &Settings) -> Result<Option<ServedEmbedder>> {
    let key = key(&settings.embedder_key, &settings.embedder_key_file, "embedder_key_file")?;
    let given = (&settings.embedder_endpoint, &settings.embedder);
    let Some((url, name)) = endpoint_and_name(config, given, ["embedder_endpoint", "embedder"])? else {
        return Ok(None);
    };
    let embedder = HttpEmbedder::new(url, name, key)?.limits(&settings.limits);
    let daily_tokens = settings.embedder_daily_tokens;
    Ok(Some(ServedEmbedder { embedder: Arc::new(embedder), daily_tokens }))
}

/// Returns the URL of an endpoint and the name of the model there; `None` without both. `options` are the
/// names of their options.
fn endpoint_and_name<'s>(
    config: &Config,
    given: (&'s Option<String>, &'s Option<String>),
    options: [&str; 2],
) -> Result<Option<(&'s str, &'s str)>> {
    let [endpoint, model] = options;
    let flag = |option: &str| format!("{option} (--{})", option.replace('_', "-"));
    match given {
        (Some(url), Some(name)) => Ok(Some((url.as_str(), name.as_str()))),
        (None, None) => Ok(None),
        (Some(_), None) => {
            let named = config.named(endpoint);
            Err(Failure::Usage(format!("{named} requires {}, the name of the model", flag(model))))
        }
        (None, Some(_)) => {
            let named = config.named(model);
            Err(Failure::Usage(format!("{named} requires {}, the URL of its endpoint", flag(endpoint))))
        }
    }
}

/// Returns the API key of an endpoint, given as a secret or in the file that `option` names.
fn key(secret: &Option<String>, file: &Option<PathBuf>, option: &str) -> Result<Option<String>> {
    let key = match (secret, file) {
        (Some(key), _) => key.clone(),
        (None, Some(file)) => host_text::secret(option, file)?,
        (None, None) => return Ok(None),
    };
    // Spaces around a key are not part of it.
    Ok(Some(key.trim().to_owned()))
}

/// Returns the daily token allowance of the account.
pub(crate) async fn allowance(app: &mut App, model: Option<&ServedModel>) -> Result<Option<Allowance>> {
    if model.is_none() {
        return Ok(None);
    }
    let home = app.home_of_account().await?;
    let account = app.account_of(&*home).await?;
    Ok(ServedModel::allowance(model, &*account, &app.env).await?)
}
