//! Services that a configuration names: the sink, the language model, the embedding service and the access
//! to the metrics.

use std::sync::Arc;

use garth_agent::outbox::Sink;
use garth_engine::Env;
use garth_server::chat_model::ServedModel;
use garth_server::embedder::ServedEmbedder;
use garth_server::{MetricsAccess, MetricsToken};

use crate::config::{Config, Group, Settings};
use crate::fail::{Failure, Result};
use crate::host_text;
use crate::model_args::{open as open_model, open_embedder};
use crate::verb::outbox::sink::open as open_sink;

/// Services that a configuration names.
pub(crate) struct Services {
    pub(crate) sink: Option<Arc<dyn Sink>>,
    pub(crate) model: Option<ServedModel>,
    pub(crate) embedder: Option<ServedEmbedder>,
    pub(crate) metrics: MetricsAccess,
}

impl Services {
    /// Opens each service, to find its mistakes. Returns the groups of the options with the outcomes.
    pub(crate) fn check(config: &Config, settings: &Settings, env: &Env) -> [(Group, Result); 4] {
        [
            (Group::Server, metrics_access(config, settings).map(|_| ())),
            (Group::Sink, open_sink(config, settings, env).map(|_| ())),
            (Group::Model, open_model(config, settings).map(|_| ())),
            (Group::Embedder, open_embedder(config, settings).map(|_| ())),
        ]
    }

    /// Opens them. Fails for options that do not fit together, malformed URLs and missing files: `garth
    /// config` checks a configuration by it.
    pub(crate) fn open(config: &Config, settings: &Settings, env: &Env) -> Result<Self> {
        Ok(Self {
            sink: open_sink(config, settings, env)?,
            model: open_model(config, settings)?,
            embedder: open_embedder(config, settings)?,
            metrics: metrics_access(config, settings)?,
        })
    }
}

/// Returns the access to the metrics that a configuration grants.
fn metrics_access(config: &Config, settings: &Settings) -> Result<MetricsAccess> {
    let token = match (&settings.metrics_token, &settings.metrics_token_file) {
        (Some(token), _) => Some(token.clone()),
        (None, Some(file)) => Some(host_text::secret("metrics_token_file", file)?),
        (None, None) => None,
    };
    // Checked in development, too, so that the step to production reveals no error.
    let token = token.map(|token| MetricsToken::new(&token)).transpose()?;
    match (settings.is_production, settings.enable_metrics, token) {
        (false, Some(false), _) | (true, None | Some(false), _) => Ok(MetricsAccess::Off),
        (false, None | Some(true), _) => Ok(MetricsAccess::Open),
        (true, Some(true), Some(token)) => Ok(MetricsAccess::Token(token)),
        (true, Some(true), None) => Err(Failure::Usage(format!(
            "{} requires METRICS_TOKEN or metrics_token_file (--metrics-token-file) in production",
            config.named("enable_metrics")
        ))),
    }
}
