//! Sink of the configuration, to which events of memories are delivered.

use std::sync::Arc;

use clap::Args;
use garth_agent::outbox::Sink;
use garth_engine::Env;
use garth_server::Limits;
use garth_server::outbox::HttpSink;

use crate::app::App;
use crate::config::{Config, Settings, SinkFlags};
use crate::fail::{Failure, Result};
use crate::host_text;

/// Options of the sink.
#[derive(Args, Clone, Debug)]
pub(crate) struct SinkArgs {
    #[command(flatten)]
    flags: SinkFlags,
}

impl SinkArgs {
    /// Returns the sink that flags, environment or file name, if any, and the limits of deliveries.
    pub(crate) fn open(self, app: &App) -> Result<(Option<Arc<dyn Sink>>, Limits)> {
        let config = Config::load(&self.flags.given, app.location()?.folder())?;
        let settings = config.settings()?;
        Ok((open(&config, &settings, &app.env)?, settings.limits))
    }
}

/// Returns the sink of a configuration; `None` if it has none. Events are then removed undelivered.
pub(crate) fn open(config: &Config, settings: &Settings, env: &Env) -> Result<Option<Arc<dyn Sink>>> {
    let secret = match (&settings.sink_secret, &settings.sink_secret_file) {
        (Some(secret), _) => Some(secret.clone()),
        // Read without a sink, too, so that the step to one reveals no error.
        (None, Some(file)) => Some(host_text::secret("sink_secret_file", file)?),
        (None, None) => None,
    };
    let Some(url) = &settings.sink else { return Ok(None) };
    let Some(secret) = secret else {
        return Err(Failure::Usage(format!(
            "{} requires sink_secret_file (--sink-secret-file) or GARTH_SINK_SECRET, because requests are signed",
            config.named("sink")
        )));
    };
    Ok(Some(Arc::new(HttpSink::new(url, secret.as_bytes(), env.clone())?.limits(&settings.limits))))
}
