//! Services that a configuration names: the sink, the language model and the embedding service.

use std::sync::Arc;

use garth_agent::outbox::Sink;
use garth_engine::Env;
use garth_server::chat_model::ServedModel;
use garth_server::embedder::ServedEmbedder;

use crate::config::{Config, Settings};
use crate::fail::Result;
use crate::model_args::{open as open_model, open_embedder};
use crate::verb::outbox::sink::open as open_sink;

/// Services that a configuration names.
pub(crate) struct Services {
    pub(crate) sink: Option<Arc<dyn Sink>>,
    pub(crate) model: Option<ServedModel>,
    pub(crate) embedder: Option<ServedEmbedder>,
}

impl Services {
    /// Opens them. Fails for options that do not fit together, malformed URLs and missing files: `garth
    /// config` checks a configuration by it.
    pub(crate) fn open(config: &Config, settings: &Settings, env: &Env) -> Result<Self> {
        let sink = open_sink(config, settings, env)?;
        Ok(Self { sink, model: open_model(config, settings)?, embedder: open_embedder(config, settings)? })
    }
}
