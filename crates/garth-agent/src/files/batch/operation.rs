//! Operation of a batch without its content, with the field names of [`garth_engine::model::Op`].

use garth_engine::error::Result as TreeResult;
use garth_engine::fs::FileSystem;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{At, Body, Create, Op, Precondition, Remove, RenameMode, SetAttrs, Timestamp};
use garth_engine::path::TreePath;

use super::attributes::LineAttributes;
use super::fields::{Fields, Result, read};
use crate::files::error_context::with_path;

/// Operation without its content. Paths are as they were written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operation {
    Write { path: String, create: Create, parents: bool, attrs: LineAttributes },
    Append { path: String, create: Create, parents: bool },
    Mkdir { path: String, parents: bool, attrs: LineAttributes },
    Rm { path: String, recursive: bool, force: bool },
    Mv { from: String, to: String, replace: bool, parents: bool },
    Cp { from: String, to: String, recursive: bool, replace: bool, parents: bool },
    Ln { from: String, to: String, parents: bool },
    Symlink { path: String, target: String, parents: bool },
    Set { path: String, attrs: LineAttributes },
    Check { path: String, that: Precondition },
}

impl Operation {
    /// Returns the path that the operation changes or checks.
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Write { path, .. }
            | Self::Append { path, .. }
            | Self::Mkdir { path, .. }
            | Self::Rm { path, .. }
            | Self::Symlink { path, .. }
            | Self::Set { path, .. }
            | Self::Check { path, .. } => path,
            Self::Mv { to, .. } | Self::Cp { to, .. } | Self::Ln { to, .. } => to,
        }
    }

    /// Returns about the bytes of memory that its attributes take.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Write { attrs, .. } | Self::Mkdir { attrs, .. } | Self::Set { attrs, .. } => attrs.weight(),
            Self::Append { .. }
            | Self::Rm { .. }
            | Self::Mv { .. }
            | Self::Cp { .. }
            | Self::Ln { .. }
            | Self::Symlink { .. }
            | Self::Check { .. } => 0,
        }
    }

    /// Returns true if the operation creates a path, but no directories above it.
    pub(super) fn lacks_parents(&self) -> bool {
        match self {
            Self::Write { create, parents, .. } | Self::Append { create, parents, .. } => {
                *create != Create::Never && !parents
            }
            Self::Mkdir { parents, .. }
            | Self::Mv { parents, .. }
            | Self::Cp { parents, .. }
            | Self::Ln { parents, .. }
            | Self::Symlink { parents, .. } => !parents,
            Self::Rm { .. } | Self::Set { .. } | Self::Check { .. } => false,
        }
    }

    /// Returns true if the operation can be the first one in a tree. Others need an existing path.
    pub(super) fn creates(&self) -> bool {
        match self {
            Self::Write { create, .. } | Self::Append { create, .. } => *create != Create::Never,
            Self::Mkdir { .. } => true,
            _ => false,
        }
    }

    /// Takes the fields of the operation named `op`.
    pub(super) fn of(op: &str, from: &mut Fields) -> Result<Self> {
        Ok(match op {
            "write" => Self::Write {
                path: from.required_text("path")?,
                create: create(from)?,
                parents: from.flag("parents", false)?,
                attrs: LineAttributes::take(from)?.unwrap_or_default(),
            },
            "append" => Self::Append {
                path: from.required_text("path")?,
                create: create(from)?,
                parents: from.flag("parents", false)?,
            },
            "mkdir" => Self::Mkdir {
                path: from.required_text("path")?,
                parents: from.flag("parents", false)?,
                attrs: LineAttributes::take(from)?.unwrap_or_default(),
            },
            "rm" => Self::Rm {
                path: from.required_text("path")?,
                recursive: from.flag("recursive", false)?,
                force: from.flag("force", false)?,
            },
            "mv" => Self::Mv {
                from: from.required_text("from")?,
                to: from.required_text("to")?,
                replace: from.flag("replace", true)?,
                parents: from.flag("parents", false)?,
            },
            "cp" => Self::Cp {
                from: from.required_text("from")?,
                to: from.required_text("to")?,
                recursive: from.flag("recursive", false)?,
                replace: from.flag("replace", true)?,
                parents: from.flag("parents", false)?,
            },
            "ln" => Self::Ln {
                from: from.required_text("from")?,
                to: from.required_text("to")?,
                parents: from.flag("parents", false)?,
            },
            "symlink" => Self::Symlink {
                path: from.required_text("path")?,
                target: from.required_text("target")?,
                parents: from.flag("parents", false)?,
            },
            "set" => {
                let (path, attrs) = (from.required_text("path")?, LineAttributes::take(from)?);
                Self::Set { path, attrs: from.required("attrs", attrs)? }
            }
            "check" => Self::Check { path: from.required_text("path")?, that: condition(from)? },
            _ => {
                let known = "write, append, mkdir, rm, mv, cp, ln, symlink, set or check";
                return Err(format!("\"op\" must be {known}"));
            }
        })
    }

    /// Returns the operation on paths of the tree, and the path that it changes. Links are followed as they
    /// are now. `body` is the content of a write or an append. A time to live counts from `now`.
    pub(super) async fn resolved(
        &self,
        fs: &dyn FileSystem,
        body: Body,
        now: Timestamp,
    ) -> TreeResult<(Op, TreePath)> {
        Ok(match self {
            Self::Write { path, create, parents, attrs } => {
                let create = *create;
                // A link with the name of a new file is a conflict.
                let follow = if create == Create::New { Follow::No } else { Follow::Yes };
                let path = find(fs, path, follow).await?;
                let (at, attrs) = (At::Path(path.clone()), attrs.resolve(now));
                (Op::Write { at, body, create, parents: *parents, attrs }, path)
            }
            Self::Append { path, create, parents } => {
                let path = find(fs, path, Follow::Yes).await?;
                let (at, create) = (At::Path(path.clone()), *create);
                (Op::Append { at, body, create, parents: *parents, cuts: Vec::new() }, path)
            }
            Self::Mkdir { path, parents, attrs } => {
                let path = find(fs, path, if *parents { Follow::Yes } else { Follow::No }).await?;
                let (at, attrs) = (At::Path(path.clone()), attrs.resolve(now));
                (Op::Mkdir { at, parents: *parents, attrs }, path)
            }
            Self::Rm { path, recursive, force } => {
                let path = find(fs, path, Follow::No).await?;
                let what = if *recursive { Remove::Tree } else { Remove::File };
                (Op::Remove { at: At::Path(path.clone()), what, missing_ok: *force }, path)
            }
            Self::Mv { from, to, replace, parents } => {
                let (from, to) = (find(fs, from, Follow::No).await?, find(fs, to, Follow::No).await?);
                let mode = if *replace { RenameMode::Replace } else { RenameMode::NoReplace };
                let at = At::Path(to.clone());
                (Op::Rename { from: At::Path(from), to: at, mode, parents: *parents }, to)
            }
            Self::Cp { from, to, recursive, replace, parents } => {
                let (from, to) = (find(fs, from, Follow::No).await?, find(fs, to, Follow::Yes).await?);
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
            Self::Ln { from, to, parents } => {
                let (from, to) = (find(fs, from, Follow::No).await?, find(fs, to, Follow::No).await?);
                (Op::Link { from: At::Path(from), to: At::Path(to.clone()), parents: *parents }, to)
            }
            Self::Symlink { path, target, parents } => {
                let path = find(fs, path, Follow::No).await?;
                let (at, target, attrs) = (At::Path(path.clone()), target.clone(), SetAttrs::default());
                (Op::Symlink { at, target, parents: *parents, attrs }, path)
            }
            Self::Set { path, attrs } => {
                let path = find(fs, path, Follow::Yes).await?;
                (Op::set_attrs(path.clone(), attrs.resolve(now)), path)
            }
            Self::Check { path, that } => {
                let path = find(fs, path, Follow::Yes).await?;
                (Op::check(path.clone(), that.clone()), path)
            }
        })
    }
}

/// Resolves a path as it was written.
pub(super) async fn find(fs: &dyn FileSystem, path: &str, follow: Follow) -> TreeResult<TreePath> {
    resolve::resolve(fs, path, follow).await.map_err(with_path(path))
}

/// Takes the mode of creation of a write or an append.
fn create(from: &mut Fields) -> Result<Create> {
    match from.text("create")?.as_deref() {
        None | Some("if_missing") => Ok(Create::IfMissing),
        Some("never") => Ok(Create::Never),
        Some("new") => Ok(Create::New),
        Some(_) => Err(r#""create" must be "if_missing", "never" or "new""#.into()),
    }
}

/// Takes the precondition of a check.
fn condition(from: &mut Fields) -> Result<Precondition> {
    let that = from.take("that");
    let that = from.required("that", that)?;
    read("that", &that)
}
