//! `garth write` and `garth append`: write text or standard input to a file.

use clap::Args;
use garth_agent::tree::write_free;
use garth_engine::TreePath;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, Batch, Create, Kind, Op, Precondition, SetAttrs, Timestamp, VersionId};

use crate::app::{App, Plan, resolve_path, stat_optional};
use crate::args::{CommitArgs, TREE_PATH};
use crate::body::text_body;
use crate::fail::{Result, suggest_parents};
use crate::when::Lifetime;

/// Write text or standard input to a file
///
/// Replaces the content of the file, or creates the file. TEXT gets a line feed at its end if it has none;
/// standard input is written as it is. With --json, prints one object: path, version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth write -p /notes/today.md 'call Ada' --tag todo\n  \
        garth write /notes/today.md < today.md")]
pub(crate) struct Write {
    /// File; a symbolic link is followed
    #[arg(value_hint = TREE_PATH)]
    path: String,
    /// Text to write; - or nothing reads standard input
    text: Option<String>,
    /// Create missing parents
    #[arg(short, long)]
    parents: bool,
    /// Fail if the path exists
    #[arg(long, conflicts_with = "if_version")]
    if_absent: bool,
    /// If the path exists, write to a free name: `notes (2).md` for `notes.md`
    #[arg(long, conflicts_with_all = ["if_absent", "if_version"])]
    free_name: bool,
    /// Fail unless this is the file's current version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<VersionId>,
    #[command(flatten)]
    attributes: Attributes,
    #[command(flatten)]
    commit: CommitArgs,
}

/// Attributes to set with the content.
#[derive(Args, Debug)]
struct Attributes {
    /// Set a tag; replaces all tags of the file (repeatable)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Set the importance of the file
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    importance: Option<f64>,
    /// Expire after this time: seconds, or numbers with s, m, h, d or w; `none` removes the expiry
    #[arg(long, value_name = "DURATION|none")]
    ttl: Option<Lifetime>,
    /// Include the file in search [default: true for text files]
    #[arg(long, value_name = "BOOL")]
    searchable: Option<bool>,
    /// Set the MIME type
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
}

impl Attributes {
    fn at(&self, now: Timestamp) -> SetAttrs {
        SetAttrs {
            tags: (!self.tags.is_empty()).then(|| self.tags.clone()),
            importance: self.importance,
            searchable: self.searchable.map(Some),
            content_type: self.content_type.clone().map(Some),
            expires_at: self.ttl.map(|ttl| ttl.end(now)),
            ..SetAttrs::default()
        }
    }
}

impl Write {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let tree = app.tree_or_new().await?;
        // An existing link counts as an existing path, so it is not followed.
        let (create, follow) = if self.if_absent || self.free_name {
            (Create::New, Follow::No)
        } else {
            (Create::IfMissing, Follow::Yes)
        };
        let body = text_body(&*tree.fs, &self.path, follow, self.text.as_deref()).await?;
        let attrs = self.attributes.at(app.env.now());
        if self.free_name {
            let path = resolve_path(&*tree.fs, &self.path, follow).await?;
            let batch = |path: &TreePath| {
                let (at, body, attrs) = (At::Path(path.clone()), body.clone(), attrs.clone());
                let write = Op::Write { at, body, create, parents: self.parents, attrs };
                let batch = Batch::new([write]).author(tree.author.clone());
                batch.message(self.commit.message.clone().unwrap_or_default())
            };
            // As `AuthoredTree::commit` does for other writes.
            tree.make_for(&batch(&path).ops).await?;
            let (path, commit) =
                write_free(&*tree.fs, &path, batch).await.map_err(|e| suggest_parents(e.into()))?;
            return app.out.committed(&commit, 0, &path);
        }
        app.commit(&tree, &self.commit, async || {
            let path = resolve_path(&*tree.fs, &self.path, follow).await?;
            let (at, body, attrs) = (At::Path(path.clone()), body.clone(), attrs.clone());
            let mut plan = Plan::default();
            if let Some(version) = self.if_version {
                plan.preconditions.push((at.clone(), Precondition::Version(version)));
            }
            plan.push(Op::Write { at, body, create, parents: self.parents, attrs }, path);
            Ok(plan)
        })
        .await
        .map_err(suggest_parents)
    }
}

/// Append text or standard input to a file
///
/// Creates the file if it is missing. TEXT gets a line feed at its end if it has none; standard input is
/// appended as it is. Appending an empty text to an existing file makes no commit. With --json, prints one
/// object: path, version, created, seq, time.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth append /notes/todo.md '- call Ada'\n  \
        garth append /log.jsonl < events.jsonl")]
pub(crate) struct Append {
    /// File; a symbolic link is followed
    #[arg(value_hint = TREE_PATH)]
    path: String,
    /// Text to append; - or nothing reads standard input
    text: Option<String>,
    /// Create missing parents
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Append {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let tree = app.tree_or_new().await?;
        let body = text_body(&*tree.fs, &self.path, Follow::Yes, self.text.as_deref()).await?;
        app.commit(&tree, &self.commit, async || {
            let (path, there) = stat_optional(&*tree.fs, &self.path, Follow::Yes).await?;
            let mut plan = Plan::default();
            // An empty text creates a missing file, but changes no other.
            if body.size() == 0 && there.is_some_and(|there| there.kind == Kind::File) {
                return Ok(plan);
            }
            let at = At::Path(path.clone());
            let append = Op::append(at, body.clone());
            plan.push(if self.parents { append.with_parents() } else { append }, path);
            Ok(plan)
        })
        .await
        .map_err(suggest_parents)
    }
}
