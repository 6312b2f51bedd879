//! Sink of the configuration, to which events of memories are delivered.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use garth_agent::outbox::Sink;
use garth_engine::Env;
use garth_server::Limits;
use garth_server::outbox::HttpSink;

use crate::app::App;
use crate::config::{Config, Settings, SinkFlags};
use crate::fail::{Failure, Result};
use crate::host_text::secret_file;

/// Longest secret in bytes.
const MAX_SECRET: u64 = 4096;

/// Options of the sink.
#[derive(Args, Clone, Debug)]
pub(crate) struct SinkArgs {
    #[command(flatten)]
    flags: SinkFlags,
}

impl SinkArgs {
    /// Returns the sink that flags, environment or file name, if any, and the limits of deliveries.
    pub(crate) fn open(self, app: &App) -> Result<(Option<Arc<dyn Sink>>, Limits)> {
        let config = Config::load(&self.flags.given, &app.folder()?)?;
        let settings = config.settings()?;
        Ok((open(&config, &settings, &app.env)?, settings.limits))
    }
}

/// Returns the sink of a configuration; `None` if it has none. Events are then removed undelivered.
pub(crate) fn open(config: &Config, settings: &Settings, env: &Env) -> Result<Option<Arc<dyn Sink>>> {
    let Some(url) = &settings.sink else { return Ok(None) };
    let secret = match (&settings.sink_secret, &settings.sink_secret_file) {
        (Some(secret), _) => secret.clone().into_bytes(),
        (None, Some(file)) => read_secret(file)?,
        (None, None) => {
            return Err(Failure::Usage(format!(
                "{} requires sink_secret_file (--sink-secret-file) or GARTH_SINK_SECRET, because requests are signed",
                config.named("sink")
            )));
        }
    };
    Ok(Some(Arc::new(HttpSink::new(url, &secret, env.clone())?.limits(&settings.limits))))
}

fn read_secret(file: &Path) -> Result<Vec<u8>> {
    let mut secret = Vec::new();
    let opened = File::open(file).map_err(secret_file("sink_secret_file", file))?;
    // One more byte shows that the file is too long.
    opened.take(MAX_SECRET + 1).read_to_end(&mut secret).map_err(secret_file("sink_secret_file", file))?;
    if secret.len() as u64 > MAX_SECRET {
        let message = format!("{}: a secret may have at most {MAX_SECRET} bytes", file.display());
        return Err(Failure::Usage(message));
    }
    // Editors and `echo` add a line end, which is not part of the secret.
    for end in [b'\n', b'\r'] {
        if secret.last() == Some(&end) {
            secret.pop();
        }
    }
    Ok(secret)
}
