//! `garth kv put`, `mset`, `incr`, `expire`, `rm`.

use std::io::Read as _;

use clap::Args;
use garth_agent::kv::{self, Condition, Kv, MAX_VALUE, Written};
use garth_engine::ErrorKind;
use garth_engine::model::{Timestamp, VersionId};
use serde_json::json;
use serde_json::value::RawValue;

use super::errors::{AtKey, failure, no_key};
use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result, json_error};
use crate::when::Lifetime;

/// Store a value as a new version of a key
///
/// Tags, importance, expiry and searchability are kept unless an option sets them. A new key has no tags,
/// importance 0, no expiry, and is not searchable.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth kv put /user/tone '{\"tone\":\"direct\"}' --tag user --ttl 7d")]
pub(super) struct Put {
    /// Key
    key: String,
    /// Value as JSON; - or nothing reads standard input
    #[arg(allow_negative_numbers = true)]
    value: Option<String>,
    /// Set a tag; replaces all tags of the key (repeatable); at most 64 of 64 characters
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Set the importance, 0 to 1
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    importance: Option<f64>,
    /// Expire after this time: seconds, or numbers with s, m, h, d or w; `none` removes the expiry
    #[arg(long, value_name = "DURATION|none")]
    ttl: Option<Lifetime>,
    /// Include in search: true or false
    #[arg(long, value_name = "BOOL")]
    searchable: Option<bool>,
    /// Fail if the key has a value
    #[arg(long, visible_alias = "nx", conflicts_with = "if_version")]
    if_absent: bool,
    /// Fail unless this is the current version of the value
    #[arg(long, value_name = "VERSION")]
    if_version: Option<VersionId>,
}

impl Put {
    pub(super) async fn run(self, app: &mut App) -> Result {
        let key = self.key.as_str();
        let text = match self.value {
            Some(text) if text != "-" => text,
            _ => stdin(key)?,
        };
        // Parsed first: an invalid value must not leave a new data folder behind.
        let value = parse(key, &text)?;
        let condition = match self.if_version {
            _ if self.if_absent => Condition::Absent,
            Some(version) => Condition::Version(version),
            None => Condition::Any,
        };
        let put = kv::Put {
            tags: (!self.tags.is_empty()).then_some(self.tags),
            importance: self.importance,
            searchable: self.searchable,
            expires_at: self.ttl.map(|ttl| ttl.end(app.env.now())),
            condition,
            ..kv::Put::new(key, value)
        };
        let fs = app.tree_or_new().await?.fs;
        let kv = Kv::new(&*fs, &app.global.agent).at_key(key)?;
        let written = kv.put(&put, None).await.at_key(key)?;
        show(app, written, key)
    }
}

/// Store several values in one commit
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth kv mset /user/name '\"Ada\"' /user/age 36")]
pub(super) struct Mset {
    /// Keys and values as JSON, alternating
    #[arg(required = true, num_args = 2.., value_name = "KEY VALUE", allow_negative_numbers = true)]
    pairs: Vec<String>,
}

impl Mset {
    pub(super) async fn run(self, app: &mut App) -> Result {
        let (pairs, []) = self.pairs.as_chunks::<2>() else {
            return Err(Failure::Usage("each key needs a value: KEY VALUE [KEY VALUE]...".into()));
        };
        let puts = pairs.iter().map(|[key, text]| Ok(kv::Put::new(key, parse(key, text)?)));
        let puts = puts.collect::<Result<Vec<_>>>()?;
        let fs = app.tree_or_new().await?.fs;
        let kv = Kv::new(&*fs, &app.global.agent).map_err(Failure::kv_any)?;
        let written = kv.put_all(&puts, None).await.map_err(Failure::kv_any)?;
        written.into_iter().zip(pairs).try_for_each(|(written, [key, _])| show(app, written, key))
    }
}

/// Add to an integer, and print the sum
///
/// A key without a value counts as 0. Concurrent increments are all applied. With --json, prints the object
/// of put, and value.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth kv incr /visits 10")]
pub(super) struct Incr {
    /// Key
    key: String,
    /// Number to add; may be negative
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    by: i64,
}

impl Incr {
    pub(super) async fn run(self, app: &mut App) -> Result {
        let key = self.key.as_str();
        let fs = app.tree_or_new().await?.fs;
        let kv = Kv::new(&*fs, &app.global.agent).at_key(key)?;
        let (sum, written) = kv.increment(key, self.by).await.at_key(key)?;
        let mut json = written_json(written, key);
        json["value"] = sum.into();
        app.out.item(&json, sum)
    }
}

/// Set the expiry of a key, or remove it
///
/// With --json, prints the object of put, and expires_at.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth kv expire /user/tone 7d\n  garth kv expire /user/tone none")]
pub(super) struct Expire {
    /// Key
    key: String,
    /// Time to live: seconds, or numbers with s, m, h, d or w; `none` removes the expiry
    #[arg(value_name = "DURATION|none")]
    ttl: Lifetime,
}

impl Expire {
    pub(super) async fn run(self, app: &mut App) -> Result {
        let key = self.key.as_str();
        let end = self.ttl.end(app.env.now());
        let fs = app.tree().await?.fs;
        let kv = Kv::new(&*fs, &app.global.agent).at_key(key)?;
        let (end, written) = kv.expire(key, end).await.at_key(key)?.ok_or_else(|| no_key(key))?;
        let end = end.map(Timestamp::to_rfc3339);
        let mut json = written_json(written, key);
        json["expires_at"] = end.clone().into();
        let shown = end.as_deref().unwrap_or("never");
        app.out.item(&json, format_args!("{}  {}  expires {shown}", written.version, escaped(key)))
    }
}

/// Remove values; their history stays
///
/// A key without a value is not an error, and makes no commit. With --json, prints the object of put, and
/// deleted: true, or false with null for version_id and created_at if there was no value.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth kv rm /user/tone")]
pub(super) struct Rm {
    /// Keys, each removed in a commit of its own
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
}

impl Rm {
    pub(super) async fn run(self, app: &mut App) -> Result {
        let fs = app.tree().await?.fs;
        let agent = app.global.agent.clone();
        app.each(&self.keys, async |app, key| {
            let kv = Kv::new(&*fs, &agent).at_key(key)?;
            // A value that cannot be read is removed, too.
            if let Ok(None) = kv.get(key).await {
                let json = json!({
                    "ok": true, "path": key, "version_id": null, "created_at": null, "deleted": false,
                });
                return app.out.item(&json, format_args!("no value  {}", escaped(key)));
            }
            let written = kv.delete(key, None).await.at_key(key)?;
            let mut json = written_json(written, key);
            json["deleted"] = true.into();
            app.out.item(&json, format_args!("removed  {}", escaped(key)))
        })
        .await
    }
}

fn written_json(written: Written, key: &str) -> serde_json::Value {
    let (version, time) = (written.version.to_string(), written.created_at.to_rfc3339());
    json!({"ok": true, "path": key, "version_id": version, "created_at": time})
}

fn show(app: &mut App, written: Written, key: &str) -> Result {
    app.out.item(&written_json(written, key), format_args!("{}  {}", written.version, escaped(key)))
}

fn stdin(key: &str) -> Result<String> {
    let mut bytes = Vec::new();
    // One more byte shows that the value is too long, without reading all of it.
    let mut stdin = std::io::stdin().lock().take(MAX_VALUE as u64 + 1);
    stdin.read_to_end(&mut bytes).map_err(Failure::stdio)?;
    // Before the check for UTF-8: the input may be cut within a character.
    check_length(key, bytes.len())?;
    let not_text =
        |_| failure(ErrorKind::InvalidArgument, key, "the value is not UTF-8, which JSON requires");
    String::from_utf8(bytes).map_err(not_text)
}

fn check_length(key: &str, length: usize) -> Result {
    if length <= MAX_VALUE {
        return Ok(());
    }
    Err(failure(ErrorKind::TooLarge, key, format!("a value may have at most {MAX_VALUE} bytes")))
}

fn parse<'a>(key: &str, text: &'a str) -> Result<&'a RawValue> {
    check_length(key, text.len())?;
    serde_json::from_str(text).map_err(|error| {
        let why = json_error(&error);
        let message = format!("the value is not JSON ({why}); write text in quotes: '\"text\"'");
        failure(ErrorKind::InvalidArgument, key, message)
    })
}
