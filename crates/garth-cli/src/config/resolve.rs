//! Resolution of options: the value of the flag, of the variable, of the file, or the default, in this order,
//! with its origin.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use garth_agent::nearest::edits;

use super::file::{self, Contents, Entry, GLOBAL};
use super::flags::FlagValues;
use super::kind::Value;
use super::setting::{Apply, Group, Setting};
use super::settings::Settings;
use super::table::TABLE;
use crate::fail::{Failure, Result};

/// Variable that names the file.
const CONFIG: &str = "GARTH_CONFIG";

/// Secrets, each with the option that names its file.
const SECRETS: [(&str, &str); 4] = [
    ("metrics_token", "metrics_token_file"),
    ("sink_secret", "sink_secret_file"),
    ("model_key", "model_key_file"),
    ("embedder_key", "embedder_key_file"),
];

/// Options with their values.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    options: Vec<Resolved>,
}

/// Option with its value.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) setting: &'static Setting,
    /// `None` if it is not set and has no default.
    pub(crate) value: Option<Value>,
    pub(crate) origin: Origin,
}

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(String),
    Variable(String),
    File(PathBuf, usize),
    Default,
}

/// Mistake in a configuration.
#[derive(Debug)]
pub(crate) struct Mistake {
    /// Group of the option; `None` for an unknown name.
    pub(crate) group: Option<Group>,
    pub(crate) failure: Failure,
}

/// Returns a variable of the environment. An empty one counts as not set.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

impl Config {
    /// Reads the configuration of the data folder, whether that exists or not; without one, only a file that
    /// is named. Fails with its first mistake.
    pub(crate) fn load(given: &FlagValues, data: Option<&Path>) -> Result<Self> {
        without_mistakes(Self::read(given, data)?)
    }

    /// As [`Config::load`], with all mistakes. Options with a mistake have their defaults. Fails if the file
    /// cannot be read, or is not TOML.
    pub(crate) fn read(given: &FlagValues, data: Option<&Path>) -> Result<(Self, Vec<Mistake>)> {
        let (file, Contents { entries, wrong }) = contents(given, data)?;
        let mut mistakes: Vec<Mistake> = wrong
            .into_iter()
            .map(|wrong| Mistake {
                group: wrong.setting.map(|setting| setting.group),
                failure: Failure::Usage(format!("{}:{}: {}", file.display(), wrong.line, wrong.message)),
            })
            .collect();
        let (config, others) = Self::resolve(given, variable, &file, entries);
        mistakes.extend(others);
        let set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
        mistakes.extend(misspelled(set.filter_map(|(name, _)| name.into_string().ok())));
        Ok((config, mistakes))
    }

    fn resolve(
        given: &FlagValues,
        variable: impl Fn(&str) -> Option<OsString>,
        file: &Path,
        mut entries: Vec<Entry>,
    ) -> (Self, Vec<Mistake>) {
        let (mut options, mut mistakes) = (Vec::new(), Vec::new());
        for setting in &*TABLE {
            let entry = entries.iter().position(|entry| entry.setting.key == setting.key);
            let entry = entry.map(|at| entries.swap_remove(at));
            let (origin, parsed) = if let Some(text) = given.value(setting.key) {
                (Origin::Flag(setting.flag.clone()), setting.kind.parse(text).map(Some))
            } else if let Some(text) = variable(&setting.variable) {
                let parsed = setting.kind.parse(&text.to_string_lossy());
                (Origin::Variable(setting.variable.clone()), parsed.map(Some))
            } else if let Some(entry) = entry {
                (Origin::File(file.to_owned(), entry.line), Ok(Some(entry.value)))
            } else {
                (Origin::Default, Ok(default_of(setting)))
            };
            let (value, origin) = match parsed {
                Ok(value) => (value, origin),
                Err(why) => {
                    let failure = Failure::Usage(format!("{origin}: {why}"));
                    mistakes.push(Mistake { group: Some(setting.group), failure });
                    (default_of(setting), Origin::Default)
                }
            };
            options.push(Resolved { setting, value, origin });
        }
        let mut config = Self { options };
        for (secret, file) in SECRETS {
            if let Err(failure) = config.choose_secret(secret, file) {
                let group = config.option(secret).map(|option| option.setting.group);
                mistakes.push(Mistake { group, failure });
            }
        }
        (config, mistakes)
    }

    /// Keeps either a secret or the name of its file, by the order of their sources.
    fn choose_secret(&mut self, secret: &str, file: &str) -> Result {
        if self.option(secret).is_none_or(|secret| secret.value.is_none()) {
            return Ok(());
        }
        let dropped = match self.option(file).map(|file| (&file.origin, &file.value)) {
            // A flag precedes the variable that holds the secret.
            Some((Origin::Flag(_), Some(_))) => secret,
            Some((Origin::Variable(name), Some(_))) => {
                let own = self.option(secret).map_or_else(String::new, |secret| secret.origin.to_string());
                return Err(Failure::Usage(format!("{own} and {name} are both set; set only one of them")));
            }
            Some(_) | None => file,
        };
        for option in self.options.iter_mut().filter(|option| option.setting.key == dropped) {
            (option.value, option.origin) = (None, Origin::Default);
        }
        Ok(())
    }

    fn option(&self, key: &str) -> Option<&Resolved> {
        self.options.iter().find(|option| option.setting.key == key)
    }

    /// Returns all options, in the order of the reference page.
    pub(crate) fn options(&self) -> &[Resolved] {
        &self.options
    }

    /// Returns the name of an option where it was set, for errors: `--sink`, `GARTH_SINK`, `FILE:LINE: sink`.
    pub(crate) fn named(&self, key: &str) -> String {
        match self.option(key).map(|option| &option.origin) {
            None | Some(Origin::Default) => key.to_owned(),
            Some(origin @ Origin::File(..)) => format!("{origin}: {key}"),
            Some(origin) => origin.to_string(),
        }
    }

    /// Returns the value of an option as it is printed, without secrets; `None` if it has none.
    pub(crate) fn shown(&self, key: &str) -> Option<String> {
        let option = self.option(key)?;
        option.value.as_ref().map(|value| option.setting.kind.show(value))
    }

    /// Returns true if the option was not set.
    pub(crate) fn is_default(&self, key: &str) -> bool {
        self.option(key).is_none_or(|option| option.origin == Origin::Default)
    }

    /// Returns the values of all options.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let mut settings = Settings::default();
        for Resolved { setting, value, .. } in &self.options {
            let Some(value) = value else { continue };
            match setting.apply {
                Apply::Own(apply) => apply(&mut settings, value.clone()),
                Apply::Limit => settings.limits.set(setting.key, value.number())?,
            }
        }
        Ok(settings)
    }
}

/// Returns the file of a configuration, and what it sets.
fn contents(given: &FlagValues, data: Option<&Path>) -> Result<(PathBuf, Contents)> {
    let named = given.config.clone().or_else(|| variable(CONFIG).map(PathBuf::from));
    let Some(file) = named.clone().or_else(|| data.map(|data| data.join(file::NAME))) else {
        return Ok((PathBuf::new(), Contents::default()));
    };
    // Absolute, because file names in it are relative to its folder.
    let file = std::path::absolute(&file).map_err(Failure::host(&file))?;
    match (file::read(&file), named) {
        (Err(Failure::Host(_, error)), None) if error.kind() == io::ErrorKind::NotADirectory => {
            let message = "not a directory; set --data or GARTH_DATA to a folder";
            let folder = data.unwrap_or(&file);
            Err(Failure::host(folder)(io::Error::new(error.kind(), message)))
        }
        // A file that was named must exist. The one in the data folder may be missing.
        (Ok(None), Some(_)) => Err(Failure::host(&file)(io::ErrorKind::NotFound.into())),
        (contents, _) => Ok((file, contents?.unwrap_or_default())),
    }
}

/// Returns the default of an option, which is always valid.
fn default_of(setting: &Setting) -> Option<Value> {
    setting.default.as_deref().and_then(|default| setting.kind.parse(default).ok())
}

/// Returns a configuration without mistakes, or its first one.
fn without_mistakes((config, mistakes): (Config, Vec<Mistake>)) -> Result<Config> {
    match mistakes.into_iter().next() {
        Some(mistake) => Err(mistake.failure),
        None => Ok(config),
    }
}

/// Returns the variables that misspell one of garth. Others that begin with `GARTH_` may belong to other
/// programs: Kubernetes sets `GARTH_PORT` for a service that is named garth.
fn misspelled(names: impl Iterator<Item = String>) -> Vec<Mistake> {
    let mut messages: Vec<String> = names
        .filter_map(|name| {
            let meant = meant(&name)?;
            Some(format!("{name}: there is no such option; did you mean {meant}?"))
        })
        .collect();
    // The environment has no order.
    messages.sort_unstable();
    let mistake = |message| Mistake { group: None, failure: Failure::Usage(message) };
    messages.into_iter().map(mistake).collect()
}

/// Returns the variable that a name misspells: one of which at most every fourth letter differs.
fn meant(name: &str) -> Option<String> {
    let key = name.strip_prefix("GARTH_")?.to_lowercase();
    let globals = GLOBAL.iter().map(|key| (*key, format!("GARTH_{}", key.to_uppercase())));
    let options = TABLE.iter().map(|setting| (setting.key, setting.variable.clone()));
    let mut nearest: Option<(usize, String)> = None;
    for (known, variable) in options.chain(globals) {
        if variable == name {
            return None;
        }
        let edits = edits(&key, known);
        if nearest.as_ref().is_none_or(|(least, _)| edits < *least) {
            nearest = Some((edits, variable));
        }
    }
    let (edits, variable) = nearest?;
    (edits <= (key.len() / 4).max(1)).then_some(variable)
}

impl Origin {
    /// Returns the kind of source.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Flag(_) => "flag",
            Self::Variable(_) => "environment",
            Self::File(..) => "file",
            Self::Default => "default",
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "--{flag}"),
            Self::Variable(name) => f.write_str(name),
            Self::File(file, line) => write!(f, "{}:{line}", file.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kind;
    use super::super::table::find;
    use super::*;

    const FILE: &str = "/data/garth.toml";

    /// Resolves flags, variables and lines of a file.
    fn resolved(
        flags: &[(&str, &str)],
        variables: &[(&str, &str)],
        lines: &[(&str, &str)],
    ) -> Result<Config> {
        let given = FlagValues::of(flags);
        let entry = |(at, (key, text)): (usize, &(&str, &str))| {
            let setting = find(key).unwrap();
            Entry { setting, value: setting.kind.parse(text).unwrap(), line: at + 1 }
        };
        let variable = |name: &str| {
            let value = variables.iter().find(|(known, _)| *known == name);
            value.map(|(_, value)| OsString::from(value))
        };
        let entries = lines.iter().enumerate().map(entry).collect();
        without_mistakes(Config::resolve(&given, variable, Path::new(FILE), entries))
    }

    fn shown(config: &Config, key: &str) -> (Option<String>, String) {
        let option = config.option(key).unwrap();
        let value = option.value.as_ref().map(|value| option.setting.kind.show(value));
        (value, option.origin.to_string())
    }

    fn refused(outcome: Result<Config>) -> String {
        match outcome.unwrap_err() {
            Failure::Usage(message) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flag_precedes_variable_precedes_file_precedes_default() {
        let (flag, variable, line) = (("max_body", "5MiB"), ("GARTH_MAX_BODY", "4MiB"), ("max_body", "3MiB"));
        for (config, value, origin) in [
            (resolved(&[flag], &[variable], &[line]), "5MiB", "--max-body"),
            (resolved(&[], &[variable], &[line]), "4MiB", "GARTH_MAX_BODY"),
            (resolved(&[], &[], &[("log", "warn"), line]), "3MiB", "/data/garth.toml:2"),
            (resolved(&[], &[], &[]), "1MiB", "default"),
        ] {
            let config = config.unwrap();
            assert_eq!(shown(&config, "max_body"), (Some(value.to_owned()), origin.to_owned()));
            assert_eq!(config.is_default("max_body"), origin == "default");
            let megabytes: u64 = value.trim_end_matches("MiB").parse().unwrap();
            assert_eq!(config.settings().unwrap().limits.get("max_body"), Some(megabytes << 20));
        }
    }

    #[test]
    fn every_option_reaches_its_setting() {
        let settings =
            |given: &[(&str, &str)]| format!("{:?}", resolved(given, &[], &[]).unwrap().settings().unwrap());
        let before = settings(&[]);
        for setting in TABLE.iter() {
            let text = match setting.kind {
                Kind::Flag if settings(&[(setting.key, "true")]) == before => "false".to_owned(),
                Kind::Flag => "true".to_owned(),
                Kind::Tokens => "500k".to_owned(),
                Kind::Count { max, .. } => max.min(1 << 40).saturating_sub(1).to_string(),
                Kind::Bytes { max, .. } => (max - 1).to_string(),
                Kind::Time { max, .. } => format!("{}ms", max - 1),
                Kind::Words(words) => words[1].to_owned(),
                Kind::LogFilter => "debug".to_owned(),
                Kind::Addresses => "127.0.0.1:1".to_owned(),
                Kind::Hosts => "garth.example.com".to_owned(),
                Kind::Origins => "https://app.example.com".to_owned(),
                Kind::Text(_) | Kind::File | Kind::Url | Kind::HookUrl | Kind::Secret => {
                    "https://a/x".to_owned()
                }
            };
            assert_ne!(before, settings(&[(setting.key, &text)]), "{} = {text}", setting.key);
        }
    }

    #[test]
    fn errors_name_flag_or_variable() {
        let flag = refused(resolved(&[("max_body", "1")], &[], &[]));
        assert_eq!(flag, "--max-body: 1 is out of bounds; write 16KiB to 16MiB");
        let variable = refused(resolved(&[], &[("GARTH_SINK_TIMEOUT", "10")], &[]));
        assert!(variable.starts_with("GARTH_SINK_TIMEOUT: `10` is not a time"), "{variable}");
    }

    #[test]
    fn misspelled_variables_are_reported_with_the_right_one() {
        for (name, right) in [
            ("GARTH_MAX_BDY", Some("GARTH_MAX_BODY")),
            ("GARTH_LISTN", Some("GARTH_LISTEN")),
            ("GARTH_METRICS_TOKEN", Some("METRICS_TOKEN")),
            ("GARTH_USR", Some("GARTH_USER")),
            ("GARTH_MAX_BODY", None),
            ("GARTH_DATA", None),
            ("MAX_BDY", None),
        ] {
            assert_eq!(meant(name).as_deref(), right, "{name}");
        }
        let found = misspelled(["GARTH_LISTN", "GARTH_ENV", "GARTH_HOST"].map(str::to_owned).into_iter());
        let found: Vec<String> = found.iter().map(|mistake| mistake.failure.to_string()).collect();
        assert_eq!(found[0], "GARTH_HOST: there is no such option; did you mean GARTH_HOSTS?");
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn variables_of_other_programs_are_ignored() {
        // Those of Kubernetes, of scripts that send requests, and of the tests of garth.
        for name in [
            "PORT",
            "PORT_8787_TCP_ADDR",
            "SERVICE_HOST",
            "SERVICE_PORT",
            "KEY",
            "URL",
            "OPERATOR_KEY",
            "BIN",
            "FAULT",
            "WRITE_REFERENCE",
            "CUTS",
            "KILLS",
            "CRASHES",
            "CHECK",
            "MODEL_SEED",
            "MODEL_OPS",
            "XTASK_IS_RUSTDOC",
        ] {
            assert_eq!(meant(&format!("GARTH_{name}")), None, "{name}");
        }
    }

    #[test]
    fn mistakes_name_the_group_of_their_option() {
        let given = FlagValues::of(&[("max_body", "1"), ("log", "loud")]);
        let (config, mistakes) = Config::resolve(&given, |_| None, Path::new(FILE), Vec::new());
        let groups: Vec<Option<Group>> = mistakes.iter().map(|mistake| mistake.group).collect();
        assert_eq!(groups, [Some(Group::Log), Some(Group::Requests)]);
        assert_eq!(shown(&config, "max_body"), (Some("1MiB".to_owned()), "default".to_owned()));
    }

    #[test]
    fn secret_and_its_file_follow_the_same_order() {
        let (secret, file) = (("GARTH_SINK_SECRET", "T0K3N"), ("sink_secret_file", "/f"));
        let by_flag = resolved(&[file], &[secret], &[]).unwrap();
        assert_eq!(shown(&by_flag, "sink_secret").0, None);
        assert_eq!(shown(&by_flag, "sink_secret_file").0, Some("/f".to_owned()));
        let by_file = resolved(&[], &[secret], &[file]).unwrap();
        assert_eq!(
            shown(&by_file, "sink_secret"),
            (Some("(set)".to_owned()), "GARTH_SINK_SECRET".to_owned())
        );
        assert_eq!(shown(&by_file, "sink_secret_file").0, None);
        let both = refused(resolved(&[], &[secret, ("GARTH_SINK_SECRET_FILE", "/f")], &[]));
        assert!(both.contains("GARTH_SINK_SECRET and GARTH_SINK_SECRET_FILE"), "{both}");
        assert!(!both.contains("T0K3N"), "{both}");
    }
}
