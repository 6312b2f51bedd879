//! The options that name a sink: where events of memories go.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use garth_agent::outbox::Sink;
use garth_engine::Env;
use garth_server::outbox::HttpSink;

use crate::fail::{Failure, Result};

/// Longest secret, in bytes.
const MAX_SECRET: u64 = 4096;

/// Where events go.
#[derive(Args, Debug)]
pub(crate) struct SinkArgs {
    /// Deliver events of memories to this endpoint, http:// or https:// [env: GARTH_SINK]
    #[arg(long, value_name = "URL")]
    sink: Option<String>,
    /// File of this machine with the secret that signs the requests, 16 bytes or more; a final line feed is
    /// ignored [env: GARTH_SINK_SECRET_FILE]
    #[arg(long, value_name = "FILE")]
    sink_secret_file: Option<PathBuf>,
}

impl SinkArgs {
    /// The sink; `None` if there is none: then nobody hears of events.
    pub(crate) fn open(self, env: &Env) -> Result<Option<Arc<dyn Sink>>> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let of_variable = || variable("GARTH_SINK").map(|value| value.to_string_lossy().into_owned());
        let file = self.sink_secret_file.or_else(|| variable("GARTH_SINK_SECRET_FILE").map(PathBuf::from));
        match (self.sink.or_else(of_variable), file) {
            (None, _) => Ok(None),
            (Some(_), None) => {
                Err(Failure::Usage("--sink goes with --sink-secret-file: requests to it are signed".into()))
            }
            (Some(url), Some(file)) => Ok(Some(Arc::new(HttpSink::new(&url, &secret(&file)?, env.clone())?))),
        }
    }
}

fn secret(file: &Path) -> Result<Vec<u8>> {
    let mut secret = Vec::new();
    let opened = File::open(file).map_err(Failure::host(file))?;
    opened.take(MAX_SECRET + 1).read_to_end(&mut secret).map_err(Failure::host(file))?;
    if secret.len() as u64 > MAX_SECRET {
        let message = format!("{}: a secret has at most {MAX_SECRET} bytes", file.display());
        return Err(Failure::Usage(message));
    }
    for end in [b'\n', b'\r'] {
        if secret.last() == Some(&end) {
            secret.pop();
        }
    }
    Ok(secret)
}
