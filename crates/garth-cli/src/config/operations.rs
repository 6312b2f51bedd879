//! Options by which an operator watches a server. Some have the names of environment variables that other
//! services use, too.

use std::path::PathBuf;

use super::kind::{Kind, Value};
use super::setting::{Apply, Group, Setting};
use super::settings::Settings;

/// Returns the options.
pub(super) fn operations() -> Vec<Setting> {
    let own = |key, kind, default: Option<&str>, meaning, apply: fn(&mut Settings, Value)| {
        Setting::new(Group::Server, key, kind, default.map(str::to_owned), meaning, Apply::Own(apply))
    };
    let of_variable = |setting: Setting, variable: &str| Setting { variable: variable.to_owned(), ..setting };
    let env = own(
        "env",
        Kind::Words(&["development", "production"]),
        Some("development"),
        "Environment. In `production`, metrics are off unless they are enabled, and need a token.",
        |settings, value| settings.is_production = value.text() == "production",
    );
    let enable = own(
        "enable_metrics",
        Kind::Flag,
        None,
        "Serves `GET /metrics`. Its variable is `ENABLE_METRICS`. Without a value, metrics are served in development \
         alone.",
        |settings, value| settings.enable_metrics = Some(value.flag()),
    );
    let file = own(
        "metrics_token_file",
        Kind::File,
        None,
        "File with the token that `GET /metrics` requires in production, 16 bytes or more. Its variable is \
         `METRICS_TOKEN_FILE`.",
        |settings, value| settings.metrics_token_file = Some(PathBuf::from(value.text())),
    );
    let token = own(
        "metrics_token",
        Kind::Secret,
        None,
        "The token itself, instead of a file.",
        |settings, value| {
            settings.metrics_token = Some(value.text());
        },
    );
    vec![
        env,
        of_variable(enable, "ENABLE_METRICS"),
        of_variable(file, "METRICS_TOKEN_FILE"),
        of_variable(token, "METRICS_TOKEN"),
    ]
}
