//! `garth config`: the options of a server, with the source of each value.

use clap::Args;
use serde_json::{Value as Json, json};

use crate::app::App;
use crate::config::{Config as Loaded, Resolved, ServeFlags, Value};
use crate::escape::escaped;
use crate::fail::Result;
use crate::verb::serve::Services;

/// Print each option of `garth serve` with its value and the source of the value
///
/// Accepts the flags of `garth serve`, and checks them, the environment and the file garth.toml in the same
/// way; also that URLs are valid and that files with secrets exist. Secrets are printed as (set).
///
/// With --json, prints one object per option: option, value (null if it is not set), source (flag,
/// environment, file or default), origin (the flag, the variable or FILE:LINE; null for a default).
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  garth config\n  garth config --config /etc/garth.toml --json")]
pub(crate) struct Config {
    #[command(flatten)]
    flags: ServeFlags,
}

impl Config {
    pub(crate) fn run(self, app: &mut App) -> Result {
        app.no_tree("config")?;
        let config = Loaded::load(&self.flags.given, app.location()?.folder())?;
        Services::open(&config, &config.settings()?, &app.env)?;
        let shown: Vec<String> = config.options().iter().map(shown).collect();
        let keys = config.options().iter().map(|option| option.setting.key.len()).max().unwrap_or_default();
        let values = shown.iter().map(|value| value.chars().count()).max().unwrap_or_default();
        for (option, value) in config.options().iter().zip(&shown) {
            let (key, origin) = (option.setting.key, option.origin.to_string());
            let origin = escaped(&origin);
            app.out.item(&object(option), format!("{key:<keys$}  {value:<values$}  {origin}"))?;
        }
        Ok(())
    }
}

fn shown(option: &Resolved) -> String {
    let value = option.value.as_ref().map(|value| option.setting.kind.show(value));
    value.map_or_else(|| "-".to_owned(), |value| escaped(&value).into_owned())
}

fn object(option: &Resolved) -> Json {
    let Resolved { setting, value, origin } = option;
    let value = value.as_ref().map_or(Json::Null, |value| match value {
        Value::Flag(flag) => json!(flag),
        Value::Number(number) if !setting.kind.is_time() => json!(number),
        Value::Texts(texts) => json!(texts),
        Value::Number(_) | Value::Text(_) => json!(setting.kind.show(value)),
    });
    let named = (origin.word() != "default").then(|| origin.to_string());
    json!({"option": setting.key, "value": value, "source": origin.word(), "origin": named})
}
