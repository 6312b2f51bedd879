//! `garth serve`: the HTTP server, by default for this machine only.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use garth_agent::outbox::Sink;
use garth_engine::home::{KeyOwner, KeysPage, NewKey, Scope};
use garth_engine::{Env, Home};
use garth_server::chat_model::ServedModel;
use garth_server::embedder::ServedEmbedder;
use garth_server::outbox::Courier;
use garth_server::{Collecting, Metrics, MetricsAccess, MetricsToken};
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::app::App;
use crate::config::{Config, ServeFlags, Settings};
use crate::fail::{Failure, Result, no_account_or};
use crate::model_args::{open as open_model, open_embedder};
use crate::verb::outbox::sink::open as open_sink;
use crate::{host_text, logs, terminal};

/// Start the HTTP server
///
/// The first start creates the account `default` and an API key with scope admin, and prints the key once.
/// Logs go to stderr.
///
/// Each option is also an environment variable and a line of the file garth.toml in the data folder:
/// --max-body is GARTH_MAX_BODY and max_body. `--help` lists all limits; `garth config` prints the values in
/// force.
///
/// With --json, prints one object when it accepts connections: url, data, account, key (null unless new).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth serve --listen 127.0.0.1:0 --json")]
pub(crate) struct Serve {
    #[command(flatten)]
    flags: ServeFlags,
}

/// Services that a configuration names.
pub(crate) struct Services {
    pub(crate) sink: Option<Arc<dyn Sink>>,
    pub(crate) model: Option<ServedModel>,
    pub(crate) embedder: Option<ServedEmbedder>,
    pub(crate) metrics: MetricsAccess,
}

impl Services {
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

impl Serve {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("serve")?;
        let config = Config::load(&self.flags.given, &app.folder()?)?;
        let settings = config.settings()?;
        logs::start(&settings.log, settings.log_format, settings.access_log)?;
        app.open_within(&settings.storage);
        let Services { sink, model, embedder, metrics: access } =
            Services::open(&config, &settings, &app.env)?;
        // The sockets first: a start that fails because a port is taken must not use up the key, which is
        // shown once.
        let (listeners, urls) = bind_all(&settings.listen, config.is_default("listen"), settings.backlog)?;
        let home = app.home_of_account().await?;
        let account = app.global.account.clone();
        let key = first_key(&*home, &account).await?;
        let signals = Signals::listen()?;
        show(app, &*home, &urls, &account, key.as_deref())?;
        let metrics = Metrics::default();
        let options = garth_server::Options::default().access_log(settings.access_log).model(model.clone());
        let options = options.embedder(embedder).limits(settings.limits.clone());
        let options = options.metrics(metrics.clone(), access);
        let (stop, stopping) = watch::channel(false);
        let collecting = Collecting { history: settings.collect_history };
        let courier = Courier::new(Arc::clone(&home), sink).limits(&settings.limits).repairing();
        let courier = courier.collecting(collecting).resetting(model).metrics(&metrics);
        let courier = tokio::spawn(courier.run(stopping));
        let served = garth_server::serve(home, listeners, options, signals.told_to_stop()).await;
        // After the server, because its last requests may commit events.
        stop.send_replace(true);
        // It does not panic. If it did, its leases would end after a minute.
        let _ = courier.await;
        served.map_err(Failure::host(Path::new("serve")))
    }
}

/// Signals that stop a server.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        let interrupt = signal(SignalKind::interrupt()).map_err(Failure::stdio)?;
        let terminate = signal(SignalKind::terminate()).map_err(Failure::stdio)?;
        Ok(Self { interrupt, terminate })
    }

    /// Waits for a signal. Returns the exit code of a process that it ends.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        }
    }

    /// Completes with the first signal. A second one ends the process at once: commits are whole or not
    /// there, whenever it ends.
    async fn told_to_stop(mut self) {
        self.next().await;
        tracing::info!("stopping; requests in flight are finished, and a second signal stops at once");
        tokio::spawn(async move {
            let code = self.next().await;
            terminal::tell("stopped at once by a second signal; requests in flight were cut off");
            std::process::exit(code);
        });
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

/// Opens the sockets. Returns them with their addresses as URLs. By default, an address that the machine does
/// not have, such as `::1`, is skipped.
fn bind_all(listen: &[String], is_default: bool, backlog: u32) -> Result<(Vec<TcpListener>, Vec<String>)> {
    let (mut listeners, mut urls) = (Vec::new(), Vec::new());
    for (number, address) in listen.iter().enumerate() {
        match bind(address, backlog) {
            Ok((listener, url)) => {
                listeners.push(listener);
                urls.push(url);
            }
            Err(error) if is_default && number > 0 && is_no_address(&error) => {
                tracing::info!("{address}: this machine does not have this address");
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(Failure::Usage(format!("{address}: not HOST:PORT")));
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let error = io::Error::new(error.kind(), format!("{error}; choose another with --listen"));
                return Err(Failure::host(Path::new(address))(error));
            }
            Err(error) => return Err(Failure::host(Path::new(address))(error)),
        }
    }
    Ok((listeners, urls))
}

fn bind(address: &str, backlog: u32) -> io::Result<(TcpListener, String)> {
    let mut failed = io::Error::from(io::ErrorKind::InvalidInput);
    for address in address.to_socket_addrs()? {
        match listen(address, backlog)
            .and_then(|listener| Ok((format!("http://{}", listener.local_addr()?), listener)))
        {
            Ok((url, listener)) => return Ok((listener, url)),
            // Another address of the host may work.
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn listen(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart can then use the port while old connections end.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(backlog)
}

/// Returns true if the machine does not have the address (no IPv6), as opposed to an address in use.
fn is_no_address(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
        || error.raw_os_error() == Some(97) // EAFNOSUPPORT, for which there is no kind
}

/// Creates a key for an account that never had one.
async fn first_key(home: &dyn Home, account: &str) -> Result<Option<String>> {
    let one = KeysPage::with_revoked().limit(1);
    let keys = home.keys(&KeyOwner::named(account), &one).await;
    if !keys.map_err(|error| no_account_or(account, error))?.items.is_empty() {
        return Ok(None);
    }
    let mut new = NewKey::new(Some(account), &[Scope::Admin]);
    "created by the first start".clone_into(&mut new.label);
    let (_, secret) = home.issue_key(new).await?;
    Ok(Some(secret.reveal().to_owned()))
}

fn show(app: &mut App, home: &dyn Home, urls: &[String], account: &str, key: Option<&str>) -> Result {
    let url = urls.first().map_or("", String::as_str);
    let data = home.place();
    let json = json!({"url": url, "data": data, "account": account, "key": key});
    let shown_key = key.map_or_else(
        || "as before (`garth key create` creates another)".to_owned(),
        |key| format!("{key}\n           shown only once: keep it"),
    );
    let bearer = key.unwrap_or("$GARTH_KEY");
    let body = r#"{"path":"/user/tone","value":"direct"}"#;
    let text = format!(
        "address    {}\ndata       {data}\naccount    {account}\nAPI key    {shown_key}\n\nTry it:\n  \
         curl {url}/v1/put -H 'Authorization: Bearer {bearer}' -d '{body}'",
        urls.join("  "),
    );
    app.out.item(
        &json,
        // In double quotes, so that the shell expands the variable.
        text.replace("'Authorization: Bearer $GARTH_KEY'", "\"Authorization: Bearer $GARTH_KEY\""),
    )?;
    app.out.flush()
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn many_clients_can_connect_at_once() {
        let (listener, _) = bind("127.0.0.1:0", 1024).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(500));
        // Nobody accepts. These are more than the 128 connections of the standard library's backlog.
        let connected: io::Result<Vec<TcpStream>> = (0..400).map(connect).collect();
        assert_eq!(connected.unwrap().len(), 400);
    }
}
