//! `garth serve`: the HTTP server, by default for this machine only.

mod check;
mod first_key;
mod services;
mod signals;
mod sockets;

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use garth_engine::Home;
use garth_server::outbox::Courier;
use garth_server::{Collecting, Hosts, Metrics, Options, Origins};
use serde_json::json;
use tokio::sync::watch;

use self::check::check;
use self::first_key::first_key;
pub(crate) use self::services::Services;
use self::signals::Signals;
use self::sockets::bind_all;
use crate::app::App;
use crate::config::{Config, ServeFlags, Settings};
use crate::fail::{Failure, Result};
use crate::logs;

/// Start the HTTP server
///
/// The first start creates the account `default` and an API key with scope admin, and prints the key once.
/// Logs go to stderr.
///
/// Each option is also an environment variable and a line of the file garth.toml in the data folder:
/// --max-body is GARTH_MAX_BODY and max_body. `--help` lists all limits; `garth config` prints the values in
/// force.
///
/// With --postgres, --postgres-file or their variables, the accounts are in a PostgreSQL database, which any
/// number of servers share. The first start creates the tables; the role must own the database then.
///
/// With --check, checks the options, the files with secrets, the addresses and the data folder or database,
/// prints what the server would do, and ends: with exit code 0, or with 2 if anything is wrong. It changes
/// nothing.
///
/// With --json, prints one object when it accepts connections: url, data (a folder, or a URL without
/// secrets), account, key (null unless new). With --check: addresses, in_use, data, state (missing, current
/// or older), account, creates_key, hosts (null for any), origins, limits_calls, sink, model, embedder.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  garth serve --listen 127.0.0.1:0 --json\n  garth serve --check\n  \
                        garth serve --postgres-file /etc/garth/database-url")]
pub(crate) struct Serve {
    /// Check the configuration, print what the server would do, and exit
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    flags: ServeFlags,
}

impl Serve {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("serve")?;
        if self.check {
            return check(app, &self.flags.given).await;
        }
        let config = Config::load(&self.flags.given, app.location()?.folder())?;
        let settings = config.settings()?;
        logs::start(&settings.log, settings.log_format, settings.access_log)?;
        app.open_within(&settings.storage);
        let Services { sink, model, embedder, metrics: access } =
            Services::open(&config, &settings, &app.env)?;
        // The sockets first: a start that fails because a port is taken must not use up the key, which is
        // shown once.
        let (listeners, urls) = bind_all(&settings.listen, config.is_default("listen"), settings.backlog)?;
        let home = app.home_of_account().await?;
        let background = app.background()?;
        let account = app.global.account.clone();
        let key = first_key(&*home, &account).await?;
        let signals = Signals::listen()?;
        show(app, &*home, &urls, &account, key.as_deref())?;
        let metrics = Metrics::default();
        let options = options(&settings)?.model(model.clone()).embedder(embedder);
        let options = options.metrics(metrics.clone(), access);
        let (stop, stopping) = watch::channel(false);
        let collecting = Collecting { history: settings.collect_history };
        let courier = Courier::new(Arc::clone(&home), sink).limits(&settings.limits).repairing();
        let courier = courier.collecting(collecting).resetting(model).metrics(&metrics);
        let background = background.map(|background| {
            tokio::spawn(background.collecting(settings.storage.collecting).run(stopping.clone()))
        });
        let courier = tokio::spawn(courier.run(stopping));
        let served = garth_server::serve(home, listeners, options, signals.told_to_stop()).await;
        // After the server, because its last requests may commit events.
        stop.send_replace(true);
        // Neither panics. If one did, its leases would end after a minute.
        let _ = courier.await;
        if let Some(background) = background {
            let _ = background.await;
        }
        served.map_err(Failure::host(Path::new("serve")))
    }
}

/// Returns the options of the server, without its services.
fn options(settings: &Settings) -> Result<Options> {
    let hosts = match settings.hosts.is_empty() {
        true => None,
        false => Some(Hosts::parse(&settings.hosts)?),
    };
    let options = Options::default().access_log(settings.access_log).limits(settings.limits.clone());
    let options = options.limit_calls(settings.limit_calls).hosts(hosts);
    Ok(options.origins(Origins::parse(&settings.origins)?))
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
