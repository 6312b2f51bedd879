//! `garth set`, `chmod` and `chown`: change attributes.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;
use garth_agent::files::parse_mode;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Entry, Kind, Op, SetAttrs, Timestamp};

use crate::app::{App, Plan};
use crate::args::{CommitArgs, TREE_PATH, parse_owner};
use crate::fail::Result;
use crate::walk::Walker;
use crate::when::Lifetime;

/// Change attributes of files and directories, in one commit
///
/// The content stays. If nothing changes, there is no commit. With --json, prints one object
/// per changed path: path, version, created, seq, time.
#[derive(Args, Debug)]
#[command(
    override_usage = "garth set <OPTIONS> <PATH>...",
    after_help = "Example:\n  garth set --add-tag done --ttl 30d /notes/today.md"
)]
pub(crate) struct Set {
    /// Files and directories; symbolic links are followed
    #[arg(value_hint = TREE_PATH, required = true, value_name = "PATH")]
    paths: Vec<String>,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    commit: CommitArgs,
}

/// Changes of attributes.
#[derive(Args, Debug, Default)]
#[group(required = true, multiple = true)]
struct Changes {
    /// Permissions, octal
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    mode: Option<u32>,
    /// Owner and group, as numbers; UID alone leaves the group
    #[arg(long, value_name = "UID[:GID]", value_parser = parse_owner)]
    owner: Option<Owner>,
    /// Tag to set; replaces all tags (repeatable)
    #[arg(long = "tag", value_name = "TAG", conflicts_with_all = ["add_tags", "remove_tags", "no_tags"])]
    tags: Vec<String>,
    /// Tag to add (repeatable)
    #[arg(long = "add-tag", value_name = "TAG")]
    add_tags: Vec<String>,
    /// Tag to remove (repeatable)
    #[arg(long = "remove-tag", value_name = "TAG")]
    remove_tags: Vec<String>,
    /// Remove all tags
    #[arg(long)]
    no_tags: bool,
    /// Importance, a number
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    importance: Option<f64>,
    /// Include in search: true, false, or `default` for text files
    #[arg(long, value_name = "true|false|default", value_parser = parse_searchable)]
    searchable: Option<Searchable>,
    /// MIME type; `none` removes it
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Custom metadata to set (repeatable)
    #[arg(long = "meta", value_name = "KEY=VALUE", value_parser = parse_pair)]
    metadata: Vec<(String, String)>,
    /// Custom metadata to remove (repeatable)
    #[arg(long = "unset-meta", value_name = "KEY")]
    unset_metadata: Vec<String>,
    /// Expire after this time: seconds, or numbers with s, m, h, d or w; `none` removes the expiry
    #[arg(long, value_name = "DURATION|none")]
    ttl: Option<Lifetime>,
}

/// Owner and group.
pub(crate) type Owner = (u32, Option<u32>);

/// Value of `--searchable`; `None` for the default.
#[derive(Clone, Copy, Debug)]
struct Searchable(Option<bool>);

fn parse_searchable(text: &str) -> Result<Searchable, String> {
    match text {
        "true" => Ok(Searchable(Some(true))),
        "false" => Ok(Searchable(Some(false))),
        "default" => Ok(Searchable(None)),
        _ => Err("write true, false or default".into()),
    }
}

pub(super) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".into()),
    }
}

impl Changes {
    /// Returns the attributes to set for `entry`.
    fn of(&self, entry: &Entry, now: Timestamp) -> SetAttrs {
        let set = self.metadata.iter().map(|(key, value)| (key.clone(), Some(value.clone())));
        let metadata: BTreeMap<_, _> =
            // A key that is both set and removed is set.
            self.unset_metadata.iter().map(|key| (key.clone(), None)).chain(set).collect();
        SetAttrs {
            mode: self.mode,
            uid: self.owner.map(|(uid, _)| uid),
            gid: self.owner.and_then(|(_, gid)| gid),
            tags: self.tags_of(entry),
            importance: self.importance,
            searchable: self.searchable.map(|Searchable(value)| value),
            content_type: self.content_type.clone().map(|text| Some(text).filter(|text| text != "none")),
            expires_at: self.ttl.map(|ttl| ttl.end(now)),
            metadata,
            ..SetAttrs::default()
        }
    }

    fn tags_of(&self, entry: &Entry) -> Option<Vec<String>> {
        if self.no_tags || !self.tags.is_empty() {
            return Some(self.tags.clone());
        }
        if self.add_tags.is_empty() && self.remove_tags.is_empty() {
            return None;
        }
        let mut tags = entry.attributes.tags.clone();
        tags.retain(|tag| !self.remove_tags.contains(tag));
        for tag in &self.add_tags {
            if !tags.contains(tag) {
                tags.push(tag.clone());
            }
        }
        Some(tags)
    }
}

impl Set {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let now = app.env.now();
        set_each(app, (&self.paths, false), &self.commit, |entry| self.changes.of(entry, now)).await
    }
}

/// Change permissions, as `set --mode`
///
/// With --json, prints one object per path that changed: path, version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth chmod 600 /secrets/token")]
pub(crate) struct Chmod {
    /// Permissions, octal
    #[arg(value_name = "MODE", value_parser = parse_mode)]
    mode: u32,
    /// Files and directories; symbolic links are followed
    #[arg(value_hint = TREE_PATH, required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Change directories recursively, except symbolic links
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Chmod {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let attrs = SetAttrs::new().mode(self.mode);
        set_each(app, (&self.paths, self.recursive), &self.commit, |_| attrs.clone()).await
    }
}

/// Change owner and group, as `set --owner`
///
/// With --json, prints one object per path that changed: path, version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth chown 1000:1000 /projects")]
pub(crate) struct Chown {
    /// Owner, and group if given
    #[arg(value_name = "UID[:GID]", value_parser = parse_owner)]
    owner: Owner,
    /// Files and directories; symbolic links are followed
    #[arg(value_hint = TREE_PATH, required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Change directories recursively, except symbolic links
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Chown {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let (uid, gid) = self.owner;
        let attrs = SetAttrs { uid: Some(uid), gid, ..SetAttrs::default() };
        set_each(app, (&self.paths, self.recursive), &self.commit, |_| attrs.clone()).await
    }
}

/// Changes each path, except those that would not change, in one commit. With `true`, also everything below
/// it.
async fn set_each(
    app: &mut App,
    (paths, recursive): (&[String], bool),
    commit: &CommitArgs,
    attrs: impl Fn(&Entry) -> SetAttrs,
) -> Result {
    let tree = app.tree().await?;
    app.commit(&tree, commit, async || {
        let mut plan = Plan::default();
        for path in paths {
            let mut walker = Walker::new(Arc::clone(&tree.fs), path, Follow::Yes, true).await?;
            while let Some((path, entry)) = walker.next().await? {
                let attrs = attrs(&entry);
                // As by `chmod -R`, links below the path are left alone. The path itself was followed.
                if entry.kind != Kind::Symlink && differs(&entry, &attrs)? {
                    plan.push(Op::set_attrs(path.clone(), attrs), path);
                }
                // The path itself is the first item.
                if !recursive {
                    break;
                }
            }
        }
        Ok(plan)
    })
    .await
}

/// Returns true if setting `attrs` changes the entry.
fn differs(entry: &Entry, attrs: &SetAttrs) -> garth_engine::Result<bool> {
    let mut attributes = entry.attributes.clone();
    attrs.apply(&mut attributes)?;
    Ok(attributes != entry.attributes
        || attrs.mode.is_some_and(|mode| mode != entry.mode)
        || attrs.uid.is_some_and(|uid| uid != entry.uid)
        || attrs.gid.is_some_and(|gid| gid != entry.gid)
        || attrs.expires_at.is_some_and(|at| at != entry.expires_at))
}
