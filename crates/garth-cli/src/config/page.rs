//! The reference page `docs/configuration.md`, generated from the table.

use std::fmt::Write as _;

use super::kind::Kind;
use super::setting::{Group, Setting};
use super::table::TABLE;

const HEAD: &str = r#"# Configuration

Options of `garth serve`. Each can be set by a flag, an environment variable or a line of the file `garth.toml`. A flag
overrides the variable, the variable overrides the file, and the file overrides the default. Commands that deliver
events (`garth outbox run`), use a language model (`garth context compact`, `garth session archive`, `garth daily
jobs`) or an embedding service (`garth recall`, `garth eval --with-embedder`) read the options of the sink, the model
and the service from the same places.

```toml
# garth.toml
listen = ["0.0.0.0:8787"]
access_log = true
log_format = "json"
sink = "https://example.com/events"
sink_secret_file = "sink-secret"   # next to this file
max_body = "2MiB"
body_time = "1m"
```

All names follow one rule: the option `max_body` is the flag `--max-body` and the variable `GARTH_MAX_BODY`. The
variables of the metrics alone have names without `GARTH_`, which their rows show.

- The file is `garth.toml` in the data folder, unless `--config FILE` or `GARTH_CONFIG` names another, which must exist.
  Relative file names in it start at its folder. It is read once, at the start.
- An unknown name fails with the nearest known name, and a value out of bounds with the bounds. The error names the
  file, the line and the option. `garth serve --check` reports all mistakes, other commands the first.
- A variable that misspells one of garth fails, too: `GARTH_MAX_BDY`. At most every fourth letter after `GARTH_`
  differs. Others are ignored, because they may belong to other programs: `GARTH_PORT` is one of Kubernetes.
- A file with a secret must be readable, also if its service has no endpoint yet.
- The file has no tables: `[server]` is an unknown name. The headings below only group the options.
- A size is a number of bytes, or a text with a unit: `"64KiB"` or `"64k"`, `"2MiB"` or `"2M"`; 1k is 1,024 bytes. A
  time is a text with a unit: `"500ms"`, `"30s"`, `"5m"`, `"1h"`. Tokens are a number, or a text with k (1,000) or M:
  `"500k"`. Items of a list are separated by commas in a variable; the flag is repeated.
- A boolean flag is written `--access-log` or `--access-log=false`.
- Secrets are given in variables or in files whose names are options. `garth.toml` must not contain them, no flag takes
  them, and they are never printed. A secret and its file follow the order above; setting both as variables is an error.
  A secret is one line of text: a line end after it is not part of it, other control characters are refused. Its file
  has at most 4,096 bytes.
- The file cannot set the data folder, the account, the agent and the user: use `--data`, `--account`, `--agent`,
  `--user`, or `GARTH_DATA`, `GARTH_ACCOUNT`, `GARTH_AGENT`, `GARTH_USER`. Nor can it name a [PostgreSQL
  database](specs/operators.md#postgresql) in place of the data folder: use `--postgres-file`, `--postgres`,
  `GARTH_POSTGRES_FILE` or `GARTH_POSTGRES`. Then only a file that `--config` or `GARTH_CONFIG` names is read.
- `garth backup` does not copy the file.

`garth config` prints each option with its value and the source of the value; three of its lines:

```text
$ GARTH_LOG=warn garth config --max-body 2MiB
listen    127.0.0.1:8787, [::1]:8787  default
log       warn                        GARTH_LOG
max_body  2MiB                        --max-body
```

It accepts the flags of `garth serve` and checks them, the environment and the file in the same way. `--json` prints one
object per option.
"#;

/// Returns the page as Markdown.
fn page() -> String {
    let mut page = HEAD.to_owned();
    for group in Group::ALL {
        let _ = write!(page, "\n## {}\n\n", group.heading());
        if group.is_limits() {
            page.push_str("| option | bounds | default | meaning |\n|---|---|---|---|\n");
        } else {
            page.push_str("| option | type | default | meaning |\n|---|---|---|---|\n");
        }
        for setting in TABLE.iter().filter(|setting| setting.group == group) {
            row(&mut page, setting);
        }
    }
    page
}

fn row(page: &mut String, setting: &Setting) {
    let Setting { key, kind, meaning, .. } = setting;
    let bounds = kind.bounds().map(|(min, max)| format!("{min} to {max}"));
    let kind = match kind {
        Kind::Flag => "`true` or `false`".to_owned(),
        Kind::Tokens => "tokens".to_owned(),
        Kind::Count { min, .. } => bounds.unwrap_or_else(|| format!("number from {min} on")),
        Kind::Bytes { .. } | Kind::Time { .. } => bounds.unwrap_or_default(),
        Kind::Words(words) => format!("`{}`", words.join("`, `")),
        Kind::Text(_) | Kind::LogFilter => "text".to_owned(),
        Kind::Addresses | Kind::Hosts | Kind::Origins => format!("list of `{}`", kind.placeholder()),
        Kind::File => "file name".to_owned(),
        Kind::Url | Kind::HookUrl => "URL".to_owned(),
        Kind::Secret => format!("secret, only as `{}`", setting.variable),
    };
    let default =
        setting.default.as_ref().map_or_else(|| "none".to_owned(), |default| format!("`{default}`"));
    let _ = writeln!(page, "| `{key}` | {kind} | {default} | {meaning} |");
}

/// Writes the page with `GARTH_WRITE_REFERENCE=1 cargo nextest run -p garth-cli
/// configuration_page_matches_table`.
#[test]
fn configuration_page_matches_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    if std::env::var_os("GARTH_WRITE_REFERENCE").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    let command = "GARTH_WRITE_REFERENCE=1 cargo nextest run -p garth-cli configuration_page_matches_table";
    assert!(written == page(), "docs/configuration.md is out of date; write it with\n{command}");
}
