//! `garth kv`: the key-value API of the agents.

use std::io::Read as _;
use std::num::NonZeroUsize;

use clap::{Args, Subcommand};
use garth::agent::kv::{self, KeyKind, MAX_HISTORY, MAX_LISTED, MAX_VALUE, PageRequest, Put, Written};
use garth::model::Timestamp;
use garth::{Error, ErrorKind};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::app::App;
use crate::args::Past;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::when::parse_ttl;

/// Values by key, of one agent (--agent); the files under /agents/AGENT/kv
///
/// A key is a path such as /user/tone; a value is any JSON, kept digit for digit. With --json the objects are
/// those of the HTTP interface: put and delete give version_id and created_at; get path, value, version_id,
/// created_at, expires_at, tags; list one object a key (path, type); history one a version (version_id,
/// created_at, value, expires_at, deleted_at).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth kv put /user/tone '\"direct\"'")]
pub(crate) struct Kv {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Keep a value
    #[command(after_help = "Example:\n  garth kv put /user/tone '{\"tone\":\"direct\"}' --tag user --ttl 7d")]
    Put(PutArgs),
    /// Print a value
    #[command(after_help = "Example:\n  garth kv get /user/tone")]
    Get {
        /// The key
        path: String,
        #[command(flatten)]
        past: Past,
    },
    /// List the keys directly below a key; `/` ends those with keys below them only
    #[command(after_help = "Example:\n  garth kv list /user")]
    List {
        /// The key above
        #[arg(default_value = "/")]
        prefix: String,
        /// Print at most this many [default: all]
        #[arg(short = 'n', long, value_name = "COUNT")]
        limit: Option<NonZeroUsize>,
        #[command(flatten)]
        past: Past,
    },
    /// End a value; fine if there is none
    #[command(after_help = "Example:\n  garth kv delete /user/tone")]
    Delete {
        /// The key
        path: String,
    },
    /// Show the versions of a value, newest first
    #[command(after_help = "Example:\n  garth kv history /user/tone")]
    History {
        /// The key
        path: String,
        /// Print at most this many
        #[arg(short = 'n', long, default_value = "20", value_name = "COUNT")]
        limit: NonZeroUsize,
        #[command(flatten)]
        past: Past,
    },
}

#[derive(Args, Debug)]
struct PutArgs {
    /// The key
    path: String,
    /// The value as JSON; standard input without it
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,
    /// Label it (may be repeated)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Weigh it
    #[arg(long, default_value_t = 0.0, value_name = "NUMBER", allow_negative_numbers = true)]
    importance: f64,
    /// Let it end to be there after this long: seconds, or a number with s, m, h, d or w
    #[arg(long, value_name = "SPAN", value_parser = parse_ttl)]
    ttl: Option<i64>,
    /// Whether search sees it
    #[arg(long, value_name = "BOOL", default_value_t = false, action = clap::ArgAction::Set)]
    searchable: bool,
}

impl Kv {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self.action {
            Action::Put(put) => put.run(app).await,
            Action::Get { path, past } => get(app, &path, &past).await,
            Action::List { prefix, limit, past } => list(app, &prefix, limit, &past).await,
            Action::Delete { path } => {
                let fs = app.tree()?.fs;
                let kv = kv::Kv::new(&*fs, &app.global.agent, None).map_err(Failure::kv(&path))?;
                let written = kv.delete(&path, None).await.map_err(Failure::kv(&path))?;
                show_written(app, written, &path, "deleted")
            }
            Action::History { path, limit, past } => history(app, &path, limit, &past).await,
        }
    }
}

impl PutArgs {
    async fn run(self, app: &mut App) -> Result {
        let path = &self.path;
        let text = match self.value {
            Some(text) => text,
            None => {
                let mut text = String::new();
                // One byte more than fits tells what is too long without reading it all.
                let mut stdin = std::io::stdin().lock().take(MAX_VALUE as u64 + 1);
                stdin.read_to_string(&mut text).map_err(Failure::stdio)?;
                text
            }
        };
        if text.len() > MAX_VALUE {
            let message = format!("{path}: a value has at most {MAX_VALUE} bytes");
            return Err(Error::new(ErrorKind::TooLarge, message).into());
        }
        let value: &RawValue = serde_json::from_str(&text).map_err(|error| {
            Failure::Usage(format!(
                "{path}: the value is not JSON ({error}); write text in quotes: '\"text\"'"
            ))
        })?;
        let fs = app.tree_or_new()?.fs;
        let kv = kv::Kv::new(&*fs, &app.global.agent, None).map_err(Failure::kv(path))?;
        let put = Put {
            path,
            value,
            tags: self.tags,
            importance: self.importance,
            searchable: self.searchable,
            expires_at: self.ttl.map(|seconds| app.env.now().plus_seconds(seconds)),
        };
        let written = kv.put(&put, None).await.map_err(Failure::kv(path))?;
        show_written(app, written, path, "ok")
    }
}

fn show_written(app: &mut App, written: Written, path: &str, word: &str) -> Result {
    let (version, time) = (written.version.to_string(), written.created_at.to_rfc3339());
    let mut json = json!({"ok": true, "path": path, "version_id": version, "created_at": time});
    if word == "deleted" {
        json["deleted"] = true.into();
    }
    app.out.item(&json, format_args!("{version}  {}", escaped(path)))
}

/// A value with what is kept beside it.
#[derive(Serialize)]
struct Shown<'a> {
    path: &'a str,
    value: &'a RawValue,
    version_id: String,
    created_at: String,
    expires_at: Option<String>,
    tags: &'a [String],
}

async fn get(app: &mut App, path: &str, past: &Past) -> Result {
    let fs = app.view(past).await?;
    let kv = kv::Kv::new(&*fs, &app.global.agent, None).map_err(Failure::kv(path))?;
    let found = kv.get(path).await.map_err(Failure::kv(path))?.ok_or_else(|| no_key(path))?;
    let line = one_line(&found.value)?;
    let json = Shown {
        path: &found.path,
        value: &line,
        version_id: found.version.to_string(),
        created_at: found.created_at.to_rfc3339(),
        expires_at: found.expires_at.map(Timestamp::to_rfc3339),
        tags: &found.tags,
    };
    app.out.item(&json, found.value.get())
}

async fn list(app: &mut App, prefix: &str, limit: Option<NonZeroUsize>, past: &Past) -> Result {
    let fs = app.view(past).await?;
    let kv = kv::Kv::new(&*fs, &app.global.agent, None).map_err(Failure::kv(prefix))?;
    let mut left = limit.map_or(usize::MAX, NonZeroUsize::get);
    let mut cursor = None;
    loop {
        let page = PageRequest { limit: left.min(MAX_LISTED), cursor: cursor.as_deref() };
        let page = kv.list(prefix, page).await.map_err(Failure::kv(prefix))?;
        let is_top = prefix.bytes().all(|byte| byte == b'/');
        if page.items.is_empty() && !is_top && kv.get(prefix).await.map_err(Failure::kv(prefix))?.is_none() {
            return Err(no_key(prefix));
        }
        for item in &page.items {
            let (kind, end) = match item.kind {
                KeyKind::Value => ("file", ""),
                KeyKind::Directory => ("dir", "/"),
            };
            let json = json!({"path": item.path, "type": kind});
            app.out.item(&json, format_args!("{}{end}", escaped(&item.path)))?;
        }
        left -= page.items.len();
        cursor = page.next;
        if cursor.is_none() || left == 0 {
            return Ok(());
        }
    }
}

/// A version of a value; one that ended it has the value `{}`.
#[derive(Serialize)]
struct ShownPast<'a> {
    version_id: String,
    created_at: String,
    value: &'a RawValue,
    expires_at: Option<String>,
    deleted_at: Option<String>,
}

async fn history(app: &mut App, path: &str, limit: NonZeroUsize, past: &Past) -> Result {
    let fs = app.view(past).await?;
    let kv = kv::Kv::new(&*fs, &app.global.agent, None).map_err(Failure::kv(path))?;
    let nothing: &RawValue = serde_json::from_str("{}").unwrap_or(RawValue::NULL);
    let mut left = limit.get();
    let mut cursor: Option<String> = None;
    loop {
        let page = PageRequest { limit: left.min(MAX_HISTORY), cursor: cursor.as_deref() };
        let page = kv.history(path, page).await.map_err(Failure::kv(path))?;
        if page.items.is_empty() && cursor.is_none() {
            return Err(no_key(path));
        }
        for version in &page.items {
            let time = version.created_at.to_rfc3339();
            let value = version.value.as_deref().map(one_line).transpose()?;
            let json = ShownPast {
                version_id: version.version.to_string(),
                created_at: time.clone(),
                value: value.as_deref().unwrap_or(nothing),
                expires_at: version.expires_at.map(Timestamp::to_rfc3339),
                deleted_at: value.is_none().then(|| time.clone()),
            };
            let text = value.as_deref().map_or("deleted", RawValue::get);
            app.out.item(&json, format_args!("{}  {time}  {text}", json.version_id))?;
        }
        left -= page.items.len();
        cursor = page.next;
        if cursor.is_none() || left == 0 {
            return Ok(());
        }
    }
}

/// A value on one line, digit for digit: in JSON, line breaks stand only between tokens, where they mean nothing.
fn one_line(value: &RawValue) -> Result<Box<RawValue>> {
    let line = value.get().replace(['\n', '\r'], "");
    let corrupt = |_| Error::new(ErrorKind::Corrupt, "the stored value is not JSON").into();
    RawValue::from_string(line).map_err(corrupt)
}

fn no_key(path: &str) -> Failure {
    Failure::kv(path)(Error::new(ErrorKind::NotFound, "no such key").into())
}
