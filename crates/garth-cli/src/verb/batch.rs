//! `garth batch`: several operations in one commit, read as JSON Lines.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use garth_agent::files::{BatchLine, BatchLines, ContentForm, LineContent, LineError, MAX_BATCH_LINE};
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, Body, Op, Precondition, VersionId};
use garth_engine::{ErrorKind, TreePath};

use crate::app::{App, Plan, resolve_path};
use crate::args::{CommitArgs, TREE_PATH};
use crate::body::{STEP, stage, step};
use crate::fail::{Failure, Result};

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

impl Batch {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        // One time for all operations and attempts, so that a repeated attempt sets the same expiry.
        let now = app.env.now();
        let lines = match &self.from {
            Some(file) => {
                let opened = File::open(file).map_err(Failure::host(file))?;
                read_lines(app, BufReader::new(opened), file).await?
            }
            None => read_lines(app, std::io::stdin().lock(), Path::new("-")).await?,
        };
        if lines.is_empty() && self.if_version.is_empty() {
            return Ok(());
        }
        let only_checks = lines.iter().all(BatchLine::is_check);
        // Only a batch that may create an entry may create the data folder.
        let makes = lines.iter().any(BatchLine::creates);
        let tree = app.tree_for(makes).await?;
        let done = app.commit(&tree, &self.commit, async || {
            let mut plan = Plan::default();
            for (path, version) in &self.if_version {
                let path = resolve_path(&*tree.fs, path, Follow::Yes).await?;
                plan.preconditions.push((At::Path(path), Precondition::Version(*version)));
            }
            for line in &lines {
                // Resolved again for each attempt of the commit.
                let (op, path) = line.op(&*tree.fs, now).await?;
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
async fn read_lines(app: &App, mut from: impl BufRead, name: &Path) -> Result<Vec<BatchLine>> {
    let (mut lines, mut inline) = (Vec::new(), 0);
    let mut parser = BatchLines::new(ContentForm::Named("file"));
    loop {
        let mut text = Vec::new();
        // Two more bytes, one of them the line feed, show that the line is too long.
        let most = MAX_BATCH_LINE as u64 + 2;
        let read = (&mut from).take(most).read_until(b'\n', &mut text).map_err(Failure::host(name))?;
        if read == 0 {
            return Ok(lines);
        }
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        let refuse = |LineError { line, reason, .. }| {
            Failure::Usage(format!("{}: line {line}: {reason}", name.display()))
        };
        let Some(line) = parser.parse(text).map_err(refuse)? else { continue };
        lines.push(with_body(app, line, &mut inline).await?);
    }
}

/// Returns a line with the body of its content. The tree is opened, and perhaps created, only for content
/// that must be staged: a later line may still be invalid.
async fn with_body(app: &App, line: BatchLine, inline: &mut u64) -> Result<BatchLine> {
    let bytes = match line.content() {
        Some(LineContent::Body(Body::Bytes(bytes))) => bytes.clone(),
        Some(LineContent::Body(Body::Staged(_))) | None => return Ok(line),
        Some(LineContent::Named(file)) => {
            let file = PathBuf::from(file);
            let mut opened = File::open(&file).map_err(Failure::host(&file))?;
            let first = step(&mut opened, &file)?;
            if first.len() == STEP {
                let body = staged(app, line.path(), first, &mut opened, &file).await?;
                return Ok(line.with_body(body));
            }
            first
        }
    };
    *inline += bytes.len() as u64;
    if *inline <= MAX_INLINE {
        return Ok(line.with_body(Body::Bytes(bytes)));
    }
    let body = staged(app, line.path(), bytes, &mut std::io::empty(), Path::new("-")).await?;
    Ok(line.with_body(body))
}

async fn staged(app: &App, path: &str, first: Bytes, from: &mut dyn Read, name: &Path) -> Result<Body> {
    let fs = app.tree_or_new().await?.fs;
    let at = At::Path(resolve_path(&*fs, path, Follow::Yes).await?);
    stage(&*fs, &at, first, from, name).await
}
