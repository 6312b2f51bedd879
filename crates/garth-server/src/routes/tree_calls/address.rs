//! Address of a node, as a group of fields that calls share.

use std::borrow::Cow;

use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{At, Entry, Ino, json_flaw};
use garth_engine::{Error, ErrorKind, FileSystem, Name, TreePath};
use serde_json::json;
use serde_json::value::RawValue;

use super::top;
use crate::errors::Refusal;
use crate::fields::{Field, FieldGroup, Fields, MAX_INTEGER, flag, integer, json, path_field, string_of};
use crate::routes::call::Call;

/// Address of a node: its path, its inode, or a name in a directory that is given by its inode.
#[derive(Debug)]
pub(crate) struct Address {
    at: At,
    /// True if no field names the node.
    is_default: bool,
    /// True if symbolic links in a path are followed, also at its end.
    follow: bool,
}

impl<'a> FieldGroup<'a> for Address {
    const OWN: &'static [Field] = &[
        Field::of::<Option<Cow<'_, str>>>(
            "path",
            string_of("path"),
            None,
            " Path. Default: `/`, or the prefix of the key, unless `node` or `child` is given.",
        ),
        Field::of::<Option<u64>>(
            "node",
            integer(1, MAX_INTEGER),
            None,
            " Inode of the node, in place of `path`. Default: none.",
        ),
        Field::of::<Option<&RawValue>>(
            "child",
            json(),
            None,
            " Array of the inode of a directory and a name in it, in place of `path`. Default: none.",
        ),
        Field::of::<bool>(
            "follow",
            flag(),
            Some(|| json!(true)),
            " `true` follows symbolic links in `path`, also at its end.",
        ),
    ];
    const FIELDS: &'static [&'static [Field]] = &[Self::OWN];
    const SUMMARY: &'static str = "";

    fn read(fields: &Fields<'a>) -> Result<Self, Refusal> {
        let path = fields.read::<Option<Cow<'a, str>>>("path", &string_of("path"), None)?;
        let node = fields.read::<Option<u64>>("node", &integer(1, MAX_INTEGER), None)?;
        let child = fields.read::<Option<&'a RawValue>>("child", &json(), None)?;
        let follow = fields.read("follow", &flag(), Some(true))?;
        let is_default = path.is_none() && node.is_none() && child.is_none();
        Ok(Self { at: at(path.as_deref(), node, child.map(RawValue::get))?, is_default, follow })
    }
}

/// Returns the address that one of three fields names; the root if there is none. `child` is JSON.
pub(super) fn at(path: Option<&str>, node: Option<u64>, child: Option<&str>) -> Result<At, Refusal> {
    match (path, node, child) {
        (path, None, None) => Ok(At::Path(path_field("path", path.unwrap_or("/"))?)),
        (None, Some(node), None) => Ok(At::Node(Ino(node))),
        (None, None, Some(child)) => {
            let message = r#""child" must be an array of an inode and a name, such as [7,"a.md"]"#;
            let read = |child: &str| serde_json::from_str::<(Ino, Name)>(child);
            let (dir, name) = read(child).map_err(|error| {
                let flaw = json_flaw("child", child, &error, &|child: &str| read(child).err());
                Refusal::validation(format!("{message}: {flaw}"))
            })?;
            Ok(At::Child(dir, name))
        }
        _ => Err(Refusal::validation(r#"give only one of "path", "node" and "child""#)),
    }
}

impl Address {
    /// Returns the address of a call. If it names no node, it is the path at which the tree begins.
    pub(super) fn of(self, call: &Call<'_>) -> Self {
        match top(call).filter(|_| self.is_default) {
            Some(top) => Self { at: At::from(top), ..self },
            None => self,
        }
    }

    /// Runs a read at the address. It runs again if a link in the path is replaced meanwhile.
    pub(super) async fn run<T, R>(
        &self,
        fs: &dyn FileSystem,
        mut read: impl FnMut(At) -> R,
    ) -> Result<T, Refusal>
    where
        R: Future<Output = garth_engine::Result<T>>,
    {
        match &self.at {
            At::Path(path) if self.follow => {
                let at = |path| read(At::Path(path));
                Ok(resolve::retry(fs, path.as_str(), Follow::Yes, at).await?)
            }
            at => read(at.clone()).await.map_err(|error| self.refusal(error)),
        }
    }

    /// Returns the node, and its path without links if it is addressed by a path.
    pub(super) async fn stat(&self, fs: &dyn FileSystem) -> Result<(Option<TreePath>, Entry), Refusal> {
        match &self.at {
            At::Path(path) if self.follow => {
                let (path, entry) = resolve::stat(fs, path.as_str(), Follow::Yes).await?;
                Ok((Some(path), entry))
            }
            at => {
                let path = match at {
                    At::Path(path) => Some(path.clone()),
                    At::Node(_) | At::Child(..) => None,
                };
                Ok((path, fs.stat(at).await.map_err(|error| self.refusal(error))?))
            }
        }
    }

    /// Returns the refusal of a failed read. It names the field with an inode: nothing else shows which node
    /// is missing.
    fn refusal(&self, error: Error) -> Refusal {
        let field = match &self.at {
            At::Path(_) => None,
            At::Node(_) => Some("node"),
            At::Child(..) => Some("child"),
        };
        let field = field.filter(|_| error.is(ErrorKind::NotFound) && error.path().is_none());
        let refusal = Refusal::from(error);
        match field {
            Some(field) => refusal.of_field(field),
            None => refusal,
        }
    }
}
