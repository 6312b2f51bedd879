//! Values of the configuration, as `serve` and the verbs that use a model or a sink need them.

use std::path::PathBuf;
use std::time::Duration;

use garth_server::Limits;

/// Values of all options.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) listen: Vec<String>,
    pub(crate) backlog: u32,
    pub(crate) collect_history: bool,
    /// True if the limits on calls apply. `None`: unless the server listens on loopback only.
    pub(crate) limit_calls: Option<bool>,
    /// Names of the server; empty for the default.
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) is_production: bool,
    /// `None` if neither enabled nor disabled.
    pub(crate) enable_metrics: Option<bool>,
    pub(crate) metrics_token: Option<String>,
    pub(crate) metrics_token_file: Option<PathBuf>,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    pub(crate) access_log: bool,
    pub(crate) sink: Option<String>,
    pub(crate) sink_secret: Option<String>,
    pub(crate) sink_secret_file: Option<PathBuf>,
    pub(crate) model_endpoint: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) model_key: Option<String>,
    pub(crate) model_key_file: Option<PathBuf>,
    pub(crate) model_daily_tokens: Option<u64>,
    pub(crate) embedder_endpoint: Option<String>,
    pub(crate) embedder: Option<String>,
    pub(crate) embedder_key: Option<String>,
    pub(crate) embedder_key_file: Option<PathBuf>,
    pub(crate) embedder_daily_tokens: Option<u64>,
    pub(crate) storage: Storage,
    pub(crate) limits: Limits,
}

/// Form of a line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Limits of the data folder or database, and of computing threads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Storage {
    pub(crate) open_trees: usize,
    pub(crate) idle_connections: usize,
    pub(crate) writer_threads: usize,
    pub(crate) reader_threads: usize,
    pub(crate) read_time: Duration,
    pub(crate) collecting: bool,
    pub(crate) compute_threads: usize,
    pub(crate) compute_queue: usize,
    pub(crate) compute_steps: u64,
    /// Most connections to a database that takes the place of the data folder.
    pub(crate) postgres_connections: usize,
}
