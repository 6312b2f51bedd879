//! `garth batch`: several operations in one commit, read as JSON Lines.

mod fields;
mod line;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, Body, Create, MAX_OPS, Op, Precondition, Remove, RenameMode, VersionId};
use garth_engine::{ErrorKind, FileSystem, TreePath};

use self::line::{Content, Line};
use crate::app::{App, Plan, resolve_path};
use crate::args::{CommitArgs, TREE_PATH};
use crate::body::{STEP, stage, step};
use crate::fail::{Failure, Result};

/// Longest line in bytes. Longer content is read from a file.
const MAX_LINE: u64 = 64 << 20;

/// Bytes of content that go with the commit; further content is staged. Half of the limit of a commit.
const MAX_INLINE: u64 = 8 << 20;

/// Apply several operations in one commit: all of them, or none
///
/// Reads JSON Lines: one operation per line, in the order in which they apply; empty lines are
/// skipped. Links on the way to a path are followed as they are before the batch.
/// `docs/specs/batch.md` describes every field.
///
///   {"op":"write","path":P, "text":T | "base64":B | "file":HOST_FILE, "create":"if_missing"|"never"|"new",
///    "parents":BOOL, "attrs":{...}}
///   {"op":"append","path":P, "text":T | "base64":B | "file":HOST_FILE, "create":..., "parents":BOOL}
///   {"op":"mkdir","path":P, "parents":BOOL, "attrs":{...}}
///   {"op":"rm","path":P, "recursive":BOOL, "force":BOOL}
///   {"op":"mv","from":P,"to":P, "replace":BOOL, "parents":BOOL}
///   {"op":"cp","from":P,"to":P, "recursive":BOOL, "replace":BOOL, "parents":BOOL}
///   {"op":"ln","from":P,"to":P, "parents":BOOL}
///   {"op":"symlink","path":P,"target":TEXT, "parents":BOOL}
///   {"op":"set","path":P,"attrs":{...}}
///   {"op":"check","path":P,"that":"absent" | "exists" | {"version":V} | {"etag":V} | {"etag_in":[V, ...]} |
///    {"sha256":HEX} | {"not":...}}
///
/// attrs: mode ("644"), uid, gid, mtime (RFC 3339), content_type, tags, importance, searchable, metadata, ttl
/// ("7d"); null clears content_type, searchable, ttl and keys of metadata.
///
/// If all operations are checks, or there is none, nothing is committed. With --json, prints one object per
/// operation but `check`: path, version, created, seq, time; for `rm` version is null, and removed is true
/// if the path existed.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  echo '{\"op\":\"write\",\"path\":\"/a\",\"text\":\"hello\"}' | garth batch -m 'first'"
)]
pub(crate) struct Batch {
    /// File of this machine with the operations [default: standard input]
    #[arg(value_name = "FILE")]
    from: Option<PathBuf>,
    /// Fail unless this is the last version of PATH (repeatable)
    #[arg(value_hint = TREE_PATH, long, value_name = "PATH=VERSION", value_parser = parse_condition)]
    if_version: Vec<(String, VersionId)>,
    #[command(flatten)]
    commit: CommitArgs,
}

fn parse_condition(text: &str) -> Result<(String, VersionId), String> {
    let wrong = || "write PATH=VERSION, such as /a=ver_7-3".to_owned();
    let (path, version) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok((path.to_owned(), version.parse().map_err(|_| wrong())?))
}

/// Operation with its content. Paths are resolved for each attempt of the commit.
struct Step {
    line: Line,
    body: Option<Body>,
}

impl Batch {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        // One time for all operations and attempts, so that a repeated attempt sets the same expiry.
        let now = app.env.now();
        let steps = match &self.from {
            Some(file) => {
                let opened = File::open(file).map_err(Failure::host(file))?;
                read_steps(app, BufReader::new(opened), file).await?
            }
            None => read_steps(app, std::io::stdin().lock(), Path::new("-")).await?,
        };
        if steps.is_empty() && self.if_version.is_empty() {
            return Ok(());
        }
        let only_checks = steps.iter().all(|step| matches!(step.line, Line::Check { .. }));
        // Only a batch that may create an entry may create the data folder.
        let makes = steps.iter().any(|step| step.line.makes());
        let tree = app.tree_for(makes).await?;
        let done = app.commit(&tree, &self.commit, async || {
            let mut plan = Plan::default();
            for (path, version) in &self.if_version {
                let path = resolve_path(&*tree.fs, path, Follow::Yes).await?;
                plan.preconditions.push((At::Path(path), Precondition::Version(*version)));
            }
            for step in &steps {
                let (op, path) = step.op(&*tree.fs, now).await?;
                match op {
                    // A check changes nothing, so nothing is printed for it.
                    Op::Check { .. } => plan.ops.push(op),
                    _ => plan.push(op, path),
                }
            }
            // An operation that always fails: the checks are judged at one time, and nothing is committed.
            if only_checks {
                plan.ops.push(Op::mkdir(TreePath::root()));
            }
            Ok(plan)
        });
        match done.await {
            // The failure of the last operation means that all checks have passed.
            Err(Failure::Tree(error)) if only_checks && error.is(ErrorKind::AlreadyExists) => Ok(()),
            done => done,
        }
    }
}

/// Reads all lines. Content that does not fit into the commit is staged.
async fn read_steps(app: &App, mut from: impl BufRead, name: &Path) -> Result<Vec<Step>> {
    let (mut steps, mut inline, mut number) = (Vec::new(), 0, 0_u64);
    loop {
        let mut text = Vec::new();
        let read =
            // One more byte shows that the line is too long.
            (&mut from).take(MAX_LINE + 1).read_until(b'\n', &mut text).map_err(Failure::host(name))?;
        if read == 0 {
            return Ok(steps);
        }
        number += 1;
        let refuse = |why: String| Failure::Usage(format!("{}: line {number}: {why}", name.display()));
        if read as u64 > MAX_LINE {
            return Err(refuse(format!("longer than {MAX_LINE} bytes; give the content as a file")));
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        if steps.len() == MAX_OPS {
            return Err(refuse(format!("a commit may have at most {MAX_OPS} operations")));
        }
        let (line, content) = Line::parse(&text).map_err(refuse)?;
        let body = match content {
            Some((path, content)) => Some(body_of(app, &path, content, &mut inline).await?),
            None => None,
        };
        steps.push(Step { line, body });
    }
}

/// Returns a body for `path`. The tree is opened, and perhaps created, only for content that must be staged:
/// a later line may still be invalid.
async fn body_of(app: &App, path: &str, content: Content, inline: &mut u64) -> Result<Body> {
    let bytes = match content {
        Content::Bytes(bytes) => Bytes::from(bytes),
        Content::File(file) => {
            let mut opened = File::open(&file).map_err(Failure::host(&file))?;
            let first = step(&mut opened, &file)?;
            if first.len() == STEP {
                return staged(app, path, first, &mut opened, &file).await;
            }
            first
        }
    };
    *inline += bytes.len() as u64;
    if *inline <= MAX_INLINE {
        return Ok(Body::Bytes(bytes));
    }
    staged(app, path, bytes, &mut std::io::empty(), Path::new("-")).await
}

async fn staged(app: &App, path: &str, first: Bytes, from: &mut dyn Read, name: &Path) -> Result<Body> {
    let fs = app.tree_or_new().await?.fs;
    let at = At::Path(resolve_path(&*fs, path, Follow::Yes).await?);
    stage(&*fs, &at, first, from, name).await
}

impl Step {
    /// Returns the operation, and the path to print.
    async fn op(
        &self,
        fs: &dyn FileSystem,
        now: garth_engine::model::Timestamp,
    ) -> garth_engine::Result<(Op, TreePath)> {
        let find = async |path: &str, follow| resolve_path(fs, path, follow).await;
        let body = || self.body.clone().unwrap_or_else(|| Body::from(Vec::new()));
        Ok(match &self.line {
            Line::Write { path, create, parents, attrs, .. } => {
                let create = *create;
                // A link with the name of a new file is a conflict.
                let follow = if create == Create::New { Follow::No } else { Follow::Yes };
                let path = find(path, follow).await?;
                let (at, attrs) = (At::Path(path.clone()), attrs.resolve(now));
                (Op::Write { at, body: body(), create, parents: *parents, attrs }, path)
            }
            Line::Append { path, create, parents, .. } => {
                let path = find(path, Follow::Yes).await?;
                let (at, create) = (At::Path(path.clone()), *create);
                (Op::Append { at, body: body(), create, parents: *parents, cuts: Vec::new() }, path)
            }
            Line::Mkdir { path, parents, attrs } => {
                let path = find(path, if *parents { Follow::Yes } else { Follow::No }).await?;
                let (at, attrs) = (At::Path(path.clone()), attrs.resolve(now));
                (Op::Mkdir { at, parents: *parents, attrs }, path)
            }
            Line::Rm { path, recursive, force } => {
                let path = find(path, Follow::No).await?;
                let what = if *recursive { Remove::Tree } else { Remove::File };
                (Op::Remove { at: At::Path(path.clone()), what, missing_ok: *force }, path)
            }
            Line::Mv { from, to, replace, parents } => {
                let (from, to) = (find(from, Follow::No).await?, find(to, Follow::No).await?);
                let mode = if *replace { RenameMode::Replace } else { RenameMode::NoReplace };
                let at = At::Path(to.clone());
                (Op::Rename { from: At::Path(from), to: at, mode, parents: *parents }, to)
            }
            Line::Cp { from, to, recursive, replace, parents } => {
                let (from, to) = (find(from, Follow::No).await?, find(to, Follow::Yes).await?);
                let op = Op::Copy {
                    from: At::Path(from),
                    as_of: None,
                    to: At::Path(to.clone()),
                    recursive: *recursive,
                    replace: *replace,
                    parents: *parents,
                };
                (op, to)
            }
            Line::Ln { from, to, parents } => {
                let (from, to) = (find(from, Follow::No).await?, find(to, Follow::No).await?);
                (Op::Link { from: At::Path(from), to: At::Path(to.clone()), parents: *parents }, to)
            }
            Line::Symlink { path, target, parents } => {
                let path = find(path, Follow::No).await?;
                let (at, target) = (At::Path(path.clone()), target.clone());
                (Op::Symlink { at, target, parents: *parents, attrs: Default::default() }, path)
            }
            Line::Set { path, attrs } => {
                let path = find(path, Follow::Yes).await?;
                (Op::set_attrs(path.clone(), attrs.resolve(now)), path)
            }
            Line::Check { path, that } => {
                let path = find(path, Follow::Yes).await?;
                (Op::check(path.clone(), that.clone()), path)
            }
        })
    }
}
