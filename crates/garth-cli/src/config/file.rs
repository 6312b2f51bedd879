//! The file `garth.toml`, with lines `name = value`. Errors name the line.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use garth_agent::nearest::nearest;
use toml::de::{DeTable, DeValue};

use super::kind::{Kind, Value};
use super::setting::Setting;
use super::table::{TABLE, find};
use crate::fail::{Failure, Result};

/// Name of the file in the data folder.
pub(crate) const NAME: &str = "garth.toml";

/// Longest file in bytes, as a protection against a wrong file name.
const MAX_FILE: u64 = 1 << 20;

/// Global options, which the file cannot set: they decide which file is read, or belong to one command.
pub(super) const GLOBAL: [&str; 7] =
    ["data", "postgres", "postgres_file", "config", "account", "agent", "user"];

/// Option that the file sets.
pub(crate) struct Entry {
    pub(crate) setting: &'static Setting,
    pub(crate) value: Value,
    pub(crate) line: usize,
}

/// Line with an unknown name, or with a value that its option does not take.
pub(crate) struct WrongLine {
    pub(crate) line: usize,
    /// `None` for an unknown name.
    pub(crate) setting: Option<&'static Setting>,
    pub(crate) message: String,
}

/// Options that a file sets, and its wrong lines, both in the order of the file.
#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) entries: Vec<Entry>,
    pub(crate) wrong: Vec<WrongLine>,
}

/// Reads a file; `None` if it does not exist. Fails if it cannot be read, or is not TOML.
pub(crate) fn read(path: &Path) -> Result<Option<Contents>> {
    let opened = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Failure::host(path))?,
    };
    let mut text = String::new();
    // One more byte shows that the file is too long.
    opened.take(MAX_FILE + 1).read_to_string(&mut text).map_err(Failure::host(path))?;
    if text.len() as u64 > MAX_FILE {
        let message = format!("{}: a configuration may have at most {MAX_FILE} bytes", path.display());
        return Err(Failure::Usage(message));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let contents = parse(&text, folder);
    let contents = contents
        .map_err(|(line, message)| Failure::Usage(format!("{}:{line}: {message}", path.display())))?;
    Ok(Some(contents))
}

/// Parses the options of a text. Fails if it is not TOML, with the line. File names are relative to `folder`.
fn parse(text: &str, folder: &Path) -> Result<Contents, (usize, String)> {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let table = DeTable::parse(text).map_err(|error| {
        // An error without a position concerns the end.
        let at = error.span().map_or(text.len(), |span| span.start);
        let why = error.message();
        let message =
            format!("not TOML ({why}); write each option once, as name = value, with texts in quotes");
        (line(at), message)
    })?;
    let mut contents = Contents::default();
    for (name, value) in table.get_ref() {
        let line = line(name.span().start);
        let (setting, message) = match known(name.get_ref()) {
            Err(message) => (None, message),
            Ok(setting) => match value_of(setting.kind, value.get_ref(), folder) {
                Ok(value) => {
                    contents.entries.push(Entry { setting, value, line });
                    continue;
                }
                Err(message) => (Some(setting), format!("{}: {message}", setting.key)),
            },
        };
        contents.wrong.push(WrongLine { line, setting, message });
    }
    // The parser has sorted them by name; messages should follow the file.
    contents.entries.sort_by_key(|entry| entry.line);
    contents.wrong.sort_by_key(|wrong| wrong.line);
    Ok(contents)
}

fn known(name: &str) -> Result<&'static Setting, String> {
    if let Some(setting) = find(name) {
        return match setting.is_secret() {
            true => Err(format!(
                "{name}: secrets are not allowed here; set {} to it, or {name}_file to a file that contains it",
                setting.variable
            )),
            false => Ok(setting),
        };
    }
    if GLOBAL.contains(&name) {
        let flag = name.replace('_', "-");
        return Err(format!("{name}: set it by --{flag} or in the environment, not here"));
    }
    // Flags have dashes in place of underscores.
    let spelled = name.replace('-', "_");
    let names = TABLE.iter().filter(|setting| !setting.is_secret()).map(|setting| setting.key);
    let hint =
        nearest(&spelled, names).map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"));
    Err(format!("there is no option {name:?}{hint}"))
}

fn value_of(kind: Kind, value: &DeValue<'_>, folder: &Path) -> Result<Value, String> {
    match (kind, value) {
        (Kind::Flag, DeValue::Boolean(flag)) => Ok(Value::Flag(*flag)),
        (Kind::Flag, _) => Err("write true or false, without quotes".to_owned()),
        (Kind::Time { .. }, DeValue::Integer(_)) => {
            Err("write a time with its unit, in quotes: \"30s\"".to_owned())
        }
        (Kind::Count { .. } | Kind::Tokens | Kind::Bytes { .. }, DeValue::Integer(number)) => {
            let parsed = u64::from_str_radix(number.as_str(), number.radix());
            kind.number(parsed.map_err(|_| format!("{number} is not an integer from 0 on"))?)
        }
        (Kind::Count { .. }, _) => Err("write an integer, without quotes".to_owned()),
        (_, DeValue::Array(items)) if kind.is_list() => {
            let texts = items.iter().map(|item| item.get_ref().as_str());
            match texts.collect::<Option<Vec<&str>>>() {
                Some(texts) => kind.parse(&texts.join(",")),
                None => Err(format!("write a list of texts: [\"{}\"]", kind.placeholder())),
            }
        }
        (Kind::File, DeValue::String(text)) => {
            let Value::Text(file) = kind.parse(text)? else {
                return Err("write the name of a file".to_owned());
            };
            let file: PathBuf = folder.join(file);
            Ok(Value::Text(file.to_string_lossy().into_owned()))
        }
        (_, DeValue::String(text)) => kind.parse(text),
        _ => Err("write a text, in quotes".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(&'static str, String, usize)> {
        let Contents { entries, wrong } = parse(text, Path::new("/etc/garth")).unwrap();
        assert!(wrong.is_empty(), "{text}");
        let entry = |entry: Entry| (entry.setting.key, entry.setting.kind.show(&entry.value), entry.line);
        entries.into_iter().map(entry).collect()
    }

    /// Returns the mistakes of a text, with their lines.
    fn all_refused(text: &str) -> Vec<(usize, String)> {
        match parse(text, Path::new("/")) {
            Err(error) => vec![error],
            Ok(contents) => contents.wrong.into_iter().map(|wrong| (wrong.line, wrong.message)).collect(),
        }
    }

    fn refused(text: &str) -> (usize, String) {
        let refused = all_refused(text);
        assert_eq!(refused.len(), 1, "{text}: {refused:?}");
        refused.into_iter().next().unwrap()
    }

    #[test]
    fn reads_values_of_all_types() {
        let text = "# for us\nlisten = [\"0.0.0.0:80\", \"[::]:80\"]\naccess_log = true\n\nmax_body = \"2MiB\"\n\
                    answer_room = 67_108_864\nbody_time = \"1m\"\ndeliveries = 0x20\nmodel_daily_tokens = \"500k\"\nlog_format = \"json\"\n\
                    sink_secret_file = \"secret\"\nmodel_key_file = \"/run/key\"\n";
        let expected = [
            ("listen", "0.0.0.0:80, [::]:80", 2),
            ("access_log", "true", 3),
            ("max_body", "2MiB", 5),
            ("answer_room", "64MiB", 6),
            ("body_time", "1m", 7),
            ("deliveries", "32", 8),
            ("model_daily_tokens", "500000", 9),
            ("log_format", "json", 10),
            ("sink_secret_file", "/etc/garth/secret", 11),
            ("model_key_file", "/run/key", 12),
        ];
        assert_eq!(parsed(text), expected.map(|(key, value, line)| (key, value.to_owned(), line)));
        assert_eq!(parsed(""), []);
    }

    #[test]
    fn errors_name_line_and_key() {
        for (text, line, message) in [
            ("\nmax_body = \"1GiB\"", 2, "max_body: 1GiB is out of bounds; write 16KiB to 16MiB"),
            ("max_body = -1", 1, "max_body: -1 is not an integer from 0 on"),
            ("\n\nbody_time = 30", 3, "body_time: write a time with its unit, in quotes: \"30s\""),
            ("body_time = \"30\"", 1, "body_time: `30` is not a time; write"),
            ("deliveries = \"32\"", 1, "deliveries: write an integer, without quotes"),
            ("access_log = \"yes\"", 1, "access_log: write true or false, without quotes"),
            ("listen = [1]", 1, "listen: write a list of texts"),
            ("listen = []", 1, "listen: write at least one HOST:PORT"),
            ("listen = [\"9000\"]", 1, "listen: `9000` is not HOST:PORT"),
            ("listen = [\"localhost:80\", \":80\"]", 1, "listen: `:80` is not HOST:PORT"),
            ("listen = [\"::1:80000\"]", 1, "is not HOST:PORT"),
            ("log_format = \"xml\"", 1, "log_format: `xml` is not one of text, json"),
            ("log = \"warn,garth_server=loud\"", 1, "log: `loud` is not a level"),
            ("sink = 1", 1, "sink: write a text, in quotes"),
            ("log = \"\"", 1, "log: the text is empty"),
            ("log = \"info\"\nlog = \"warn\"", 2, "duplicate key"),
            ("log == \"info\"", 1, "; write each option once, as name = value, with texts in quotes"),
            ("log = ", 1, "not TOML"),
        ] {
            let (at, said) = refused(text);
            assert!(at == line && said.contains(message), "{text}: {at}: {said}");
        }
    }

    #[test]
    fn all_wrong_lines_are_reported_in_their_order() {
        let refused =
            all_refused("max_body = \"1GiB\"\nlog = \"warn\"\nlistn = 1\nenv = \"prod\"\n\n[server]\n");
        let lines: Vec<usize> = refused.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 3, 4, 6], "{refused:?}");
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        for (name, message) in [
            ("max_bodi", "there is no option \"max_bodi\"; did you mean max_body?"),
            ("max-body", "there is no option \"max-body\"; did you mean max_body?"),
            ("zzz", "there is no option \"zzz\""),
            ("account", "account: set it by --account or in the environment, not here"),
            ("postgres_file", "postgres_file: set it by --postgres-file or in the environment, not here"),
        ] {
            assert_eq!(refused(&format!("log = \"info\"\n{name} = 1")), (2, message.to_owned()));
        }
        let (line, message) = refused("[limits]\nmax_body = 1");
        assert!(line == 1 && message.contains("there is no option \"limits\""), "{line}: {message}");
    }

    #[test]
    fn secrets_are_refused_and_not_repeated() {
        let (line, message) = refused("model_key = \"T0K3N\"");
        assert_eq!(line, 1);
        assert!(message.contains("GARTH_MODEL_KEY") && message.contains("model_key_file"), "{message}");
        assert!(!message.contains("T0K3N"), "{message}");
    }
}
