//! `garth serve --check`: checks all that a start reads, and prints what the server would do.

use garth_engine::ErrorKind;
use garth_engine::datadir::FolderState;
use serde_json::json;

use super::first_key::has_key;
use super::services::Services;
use super::sockets::{Address, check_all};
use crate::app::App;
use crate::config::{Config, FlagValues, Group, Settings};
use crate::data_folder;
use crate::escape::{escaped, escaped_account};
use crate::fail::{Failure, Failures, Result};
use crate::location::Location;

/// Data folder and account, as a start would find them.
struct Data {
    state: FolderState,
    /// True if the start would create a key; `None` if only the start finds out.
    creates_key: Option<bool>,
}

/// Checks the configuration and prints what the server would do. Reports all mistakes that do not depend on
/// each other, with the exit code of usage errors.
pub(super) async fn check(app: &mut App, flags: &FlagValues) -> Result {
    let location = app.location().map_err(as_usage)?;
    let (config, mistakes) = Config::read(flags, location.folder()).map_err(as_usage)?;
    let settings = config.settings().map_err(as_usage)?;
    app.open_within(&settings.storage);
    let as_json = app.global.json;
    let mut failures = Failures::default();
    let wrong: Vec<Group> = mistakes.iter().filter_map(|mistake| mistake.group).collect();
    for mistake in mistakes {
        failures.add(Err(as_usage(mistake.failure)), as_json)?;
    }
    for (group, checked) in Services::check(&config, &settings, &app.env) {
        // An option of the service that has a mistake may be missing here.
        if !wrong.contains(&group) {
            kept(&mut failures, checked, as_json)?;
        }
    }
    let addresses = check_all(&settings.listen, config.is_default("listen"));
    let addresses = kept(&mut failures, addresses, as_json)?;
    let data = data(app, &location).await;
    let data = kept(&mut failures, data, as_json)?;
    failures.done()?;
    match (addresses, data) {
        (Some(addresses), Some(data)) => print(app, (&config, &settings), &addresses, (&location, &data)),
        // It was reported.
        _ => Ok(()),
    }
}

/// Returns a failure as one of the configuration.
fn as_usage(failure: Failure) -> Failure {
    match failure {
        Failure::Pipe | Failure::Reported(_) => failure,
        other => Failure::Usage(other.to_string()),
    }
}

/// Returns the value of a check that succeeded, and reports one that failed.
fn kept<T>(failures: &mut Failures, checked: Result<T>, as_json: bool) -> Result<Option<T>> {
    match checked {
        Ok(value) => Ok(Some(value)),
        Err(failure) => {
            failures.add(Err(as_usage(failure)), as_json)?;
            Ok(None)
        }
    }
}

/// Looks at the data folder or database. Trees are not opened: that would lock out a server of an older
/// garth.
async fn data(app: &App, location: &Location) -> Result<Data> {
    let account = &app.global.account;
    let state = match location {
        Location::Folder(folder) => {
            data_folder::builder().inspect(folder).map_err(Failure::data_dir(folder))?
        }
        Location::Database(_) => match app.home().await {
            Ok(_) => FolderState::Current,
            Err(Failure::Database(_, error)) if error.is(ErrorKind::NotFound) => FolderState::Missing,
            Err(failure) => return Err(failure),
        },
    };
    let creates_key = match state {
        FolderState::Missing if account == data_folder::DEFAULT_ACCOUNT => Some(true),
        // Opening it would migrate it.
        FolderState::Older => None,
        // With another account, a missing folder is refused.
        FolderState::Missing | FolderState::Current => Some(!has_key(&*app.home().await?, account).await?),
    };
    Ok(Data { state, creates_key })
}

fn print(
    app: &mut App,
    (config, settings): (&Config, &Settings),
    addresses: &[Address],
    (location, data): (&Location, &Data),
) -> Result {
    let is_local = addresses.iter().all(|one| one.address.ip().to_canonical().is_loopback());
    let limits_calls = settings.limit_calls.unwrap_or(!is_local);
    let hosts = match settings.hosts.as_slice() {
        [] if is_local => Some(Vec::new()),
        hosts if hosts.is_empty() || hosts.iter().any(|host| host == "*") => None,
        hosts => Some(hosts.to_vec()),
    };
    let (place, account) = (location.shown(), app.global.account.clone());
    let url = |one: &Address| format!("http://{}", one.address);
    let urls: Vec<String> = addresses.iter().map(url).collect();
    let in_use: Vec<String> = addresses.iter().filter(|one| one.in_use).map(url).collect();
    let (state, future) = match data.state {
        FolderState::Missing => ("missing", ", created by the start"),
        FolderState::Current => ("current", ""),
        FolderState::Older => ("older", ", of an older garth: the start migrates it"),
    };
    let limits = if limits_calls { "calls are limited" } else { "calls are not limited" };
    let shown = |key: &str| config.shown(key).unwrap_or_else(|| "none".to_owned());
    let json = json!({
        "addresses": urls, "in_use": in_use, "data": place, "state": state,
        "account": account, "creates_key": data.creates_key, "hosts": hosts, "origins": settings.origins,
        "limits_calls": limits_calls, "sink": settings.sink.is_some(), "model": settings.model,
        "embedder": settings.embedder,
    });
    let lines = [
        ("address", urls.join("  ")),
        ("in use", if in_use.is_empty() { "none".to_owned() } else { in_use.join("  ") }),
        ("data", format!("{place}{future}")),
        ("account", escaped_account(&account).into_owned()),
        ("API key", key_text(data.creates_key).to_owned()),
        ("hosts", hosts.map_or_else(|| "any".to_owned(), |hosts| hosts_text(&hosts))),
        ("origins", shown("origins")),
        ("limits", limits.to_owned()),
        ("sink", shown("sink")),
        ("model", shown("model")),
        ("embedder", shown("embedder")),
    ];
    let text = lines.map(|(name, value)| format!("{name:<10} {}", escaped(&value)));
    app.out.item(&json, text.join("\n"))?;
    app.out.note(match in_use.is_empty() {
        true => "the configuration is valid",
        false => "the configuration is valid; a start fails while another program uses its address",
    })
}

fn key_text(creates_key: Option<bool>) -> &'static str {
    match creates_key {
        Some(true) => "created by the start",
        Some(false) => "as before",
        None => "created by the start if the account has none",
    }
}

fn hosts_text(hosts: &[String]) -> String {
    let loopback = ["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
    [hosts, loopback.as_slice()].concat().join(", ")
}
