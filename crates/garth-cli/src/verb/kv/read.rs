//! `garth kv get`, `list`, `keys`, `log`.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use clap::Args;
use futures::lock::Mutex;
use garth_agent::kv::{
    CurrentValue, KeyKind, Kv, KvResult, MAX_GETS, MAX_HISTORY, MAX_LISTED, PageRequest, Semantics,
};
use garth_engine::model::Timestamp;
use garth_engine::{ErrorKind, FileSystem};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::errors::{AtKey, failure, no_key};
use crate::app::App;
use crate::args::Past;
use crate::escape::escaped;
use crate::fail::Result;

/// Print values
///
/// Several values are printed one per line, after the key and a tab, all from one point in time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth kv get /user/tone")]
pub(super) struct Get {
    /// Keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    /// Print version, times, expiry, tags and other attributes, too
    #[arg(short = 'v', long)]
    all: bool,
    #[command(flatten)]
    past: Past,
}

impl Get {
    pub(super) async fn run(self, app: &mut App) -> Result {
        let now = self.past.at.is_none().then(|| app.env.now());
        let fs = app.view(&self.past).await?;
        let agent = app.global.agent.clone();
        let several = self.keys.len() > 1;
        let values = Mutex::new(Values { fs, agent, keys: &self.keys, ready: VecDeque::new(), now });
        app.each(&self.keys, async |app, key| {
            let found = values.lock().await.next(key).await?.ok_or_else(|| no_key(key))?;
            let line = one_line(key, &found.value)?;
            let json = ShownValue::of(&found, &line, self.all);
            match (self.all, several) {
                (true, _) => app.out.item(&json, in_full(&found)),
                (false, true) => app.out.item(&json, format_args!("{}\t{line}", escaped(&found.path))),
                (false, false) => app.out.item(&json, found.value.get()),
            }
        })
        .await
    }
}

/// Values of several keys in their order, all read at one time.
struct Values<'a> {
    fs: Arc<dyn FileSystem>,
    agent: String,
    /// Keys that were not read yet.
    keys: &'a [String],
    ready: VecDeque<KvResult<Option<CurrentValue>>>,
    /// Time for expiry; `None` with `--at`, where the past decides.
    now: Option<Timestamp>,
}

impl Values<'_> {
    /// Returns the value of `key`, which must be the next key.
    async fn next(&mut self, key: &str) -> Result<Option<CurrentValue>> {
        if self.ready.is_empty() {
            let keys: Vec<&str> = self.keys.iter().take(MAX_GETS).map(String::as_str).collect();
            let kv = Kv::new(&*self.fs, &self.agent).at_key(key)?;
            let many = kv.get_many(&keys).await.at_key(key)?;
            self.keys = &self.keys[many.values.len()..];
            self.ready = many.values.into();
            if !self.keys.is_empty() {
                // This state also contains values that have expired since, so expiry is checked below.
                self.fs = self.fs.as_of(&many.seq.into()).await?;
            }
        }
        let found = self.ready.pop_front().unwrap_or(Ok(None)).at_key(key)?;
        let expired =
            |found: &CurrentValue| found.expires_at.zip(self.now).is_some_and(|(end, now)| end <= now);
        Ok(found.filter(|found| !expired(found)))
    }
}

/// Value with its attributes.
#[derive(Serialize)]
struct ShownValue<'a> {
    path: &'a str,
    value: &'a RawValue,
    version_id: String,
    created_at: String,
    expires_at: Option<String>,
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    importance: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    searchable: Option<bool>,
}

impl<'a> ShownValue<'a> {
    fn of(found: &'a CurrentValue, value: &'a RawValue, all: bool) -> Self {
        Self {
            path: &found.path,
            value,
            version_id: found.version.to_string(),
            created_at: found.created_at.to_rfc3339(),
            expires_at: found.expires_at.map(Timestamp::to_rfc3339),
            tags: &found.tags,
            importance: all.then_some(found.importance),
            searchable: all.then_some(found.searchable),
        }
    }
}

fn in_full(found: &CurrentValue) -> String {
    let expires = found.expires_at.map_or_else(|| "never".to_owned(), Timestamp::to_rfc3339);
    format!(
        "key         {}\nversion     {}\ncreated     {}\nexpires     {expires}\ntags        {}\nimportance  {}\n\
         searchable  {}\nvalue       {}",
        escaped(&found.path),
        found.version,
        found.created_at.to_rfc3339(),
        escaped(&found.tags.join(", ")),
        found.importance,
        if found.searchable { "yes" } else { "no" },
        found.value.get(),
    )
}

/// List the keys directly below a key
///
/// A key that has only keys below it ends with `/`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth kv list /user")]
pub(super) struct List {
    /// Parent key
    #[arg(default_value = "/", value_name = "KEY")]
    prefix: String,
    /// Maximum number of keys [default: all]
    #[arg(short = 'n', long, value_name = "COUNT")]
    limit: Option<NonZeroUsize>,
    #[command(flatten)]
    past: Past,
}

impl List {
    pub(super) async fn run(self, app: &mut App) -> Result {
        let fs = app.view(&self.past).await?;
        let prefix = self.prefix.as_str();
        let kv = Kv::new(&*fs, &app.global.agent).at_key(prefix)?;
        let mut pages = Pages::new(self.limit, MAX_LISTED);
        while let Some(page) = pages.request() {
            let page = kv.list(prefix, page).await.at_key(prefix)?;
            let is_top = prefix.bytes().all(|byte| byte == b'/');
            // The top may have no keys, but another prefix must exist.
            if page.items.is_empty() && !is_top && kv.get(prefix).await.at_key(prefix)?.is_none() {
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
            pages.passed(page.items.len(), page.next);
        }
        Ok(())
    }
}

/// List the keys with a value that match a pattern, at any depth
///
/// `*` and `**` match any characters, also `/`; `?` matches one. With --json, prints one object per key:
/// path.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth kv keys '/user/*'")]
pub(super) struct Keys {
    /// Pattern
    #[arg(default_value = "/**")]
    pattern: String,
    /// Match `*` and `?` within a segment only; `**` crosses `/`
    #[arg(long)]
    segment: bool,
    /// Maximum number of keys [default: all]
    #[arg(short = 'n', long, value_name = "COUNT")]
    limit: Option<NonZeroUsize>,
    #[command(flatten)]
    past: Past,
}

impl Keys {
    pub(super) async fn run(self, app: &mut App) -> Result {
        let fs = app.view(&self.past).await?;
        let pattern = self.pattern.as_str();
        let kv = Kv::new(&*fs, &app.global.agent).at_key(pattern)?;
        let semantics = if self.segment { Semantics::Segment } else { Semantics::Whole };
        let mut pages = Pages::new(self.limit, MAX_LISTED);
        while let Some(page) = pages.request() {
            let page = kv.glob(pattern, semantics, page).await.at_key(pattern)?;
            for path in &page.items {
                app.out.item(&json!({"path": path}), escaped(path))?;
            }
            pages.passed(page.items.len(), page.next);
        }
        Ok(())
    }
}

/// Show the versions of a value, newest first
///
/// A version whose content retention has ended is `unreadable`; with --json, it has `"gone": true`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth kv log /user/tone")]
pub(super) struct Log {
    /// Key
    key: String,
    /// Maximum number of versions
    #[arg(short = 'n', long, default_value = "20", value_name = "COUNT")]
    limit: NonZeroUsize,
    #[command(flatten)]
    past: Past,
}

/// Version of a value. The version that ended it has the value `{}`, and one whose content is no longer
/// stored has `null`.
#[derive(Serialize)]
struct ShownVersion<'a> {
    version_id: String,
    created_at: String,
    value: &'a RawValue,
    expires_at: Option<String>,
    deleted_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gone: Option<bool>,
}

impl Log {
    pub(super) async fn run(self, app: &mut App) -> Result {
        let fs = app.view(&self.past).await?;
        let key = self.key.as_str();
        let kv = Kv::new(&*fs, &app.global.agent).at_key(key)?;
        let nothing: &RawValue = serde_json::from_str("{}").unwrap_or(RawValue::NULL);
        let mut pages = Pages::new(Some(self.limit), MAX_HISTORY);
        while let Some(page) = pages.request() {
            let is_first = page.cursor.is_none();
            let page = kv.history(key, page).await.at_key(key)?;
            if page.items.is_empty() && is_first {
                return Err(no_key(key));
            }
            for version in &page.items {
                let time = version.created_at.to_rfc3339();
                let value = version.value.as_deref().map(|value| one_line(key, value)).transpose()?;
                let (ended, state) =
                    if version.gone { (RawValue::NULL, "unreadable") } else { (nothing, "deleted") };
                let json = ShownVersion {
                    version_id: version.version.to_string(),
                    created_at: time.clone(),
                    value: value.as_deref().unwrap_or(ended),
                    expires_at: version.expires_at.map(Timestamp::to_rfc3339),
                    deleted_at: (value.is_none() && !version.gone).then(|| time.clone()),
                    gone: version.gone.then_some(true),
                };
                let text = value.as_deref().map_or(state, RawValue::get);
                app.out.item(&json, format_args!("{}  {time}  {text}", json.version_id))?;
            }
            pages.passed(page.items.len(), page.next);
        }
        Ok(())
    }
}

/// Reader of pages, up to a number of items.
struct Pages {
    left: usize,
    /// Limit on the items of one page.
    max: usize,
    cursor: Option<String>,
    is_last: bool,
}

impl Pages {
    fn new(limit: Option<NonZeroUsize>, max: usize) -> Self {
        Self { left: limit.map_or(usize::MAX, NonZeroUsize::get), max, cursor: None, is_last: false }
    }

    fn request(&self) -> Option<PageRequest<'_>> {
        let page = PageRequest { limit: self.left.min(self.max), cursor: self.cursor.as_deref() };
        (!self.is_last && self.left > 0).then_some(page)
    }

    fn passed(&mut self, items: usize, next: Option<String>) {
        self.left -= items;
        self.is_last = next.is_none();
        self.cursor = next;
    }
}

/// Returns a value on one line, digit for digit. In JSON, line breaks occur only between tokens, where they
/// have no meaning.
fn one_line(key: &str, value: &RawValue) -> Result<Box<RawValue>> {
    let line = value.get().replace(['\n', '\r'], "");
    RawValue::from_string(line).map_err(|_| failure(ErrorKind::Corrupt, key, "the stored value is not JSON"))
}
