//! Reads and writes files of skills. A file is read from the agent's skill, or from the account's skill if
//! the agent's does not have it. Writes always go to the agent's skill.

use bytes::Bytes;

use super::listing::Origin;
use super::replace::replace_once;
use crate::boxed;
use crate::once::PENDING;
use crate::retry::retry;
use crate::small_file::{File, as_read, read_all};
use crate::workspace::handle::Workspace;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{Op, Precondition, Seq, SetAttrs, VersionId};
use garth_engine::path::TreePath;

/// Limit on the bytes of a skill's file that is read or edited here, 4 MiB.
pub const MAX_SKILL_FILE: usize = 4 << 20;

/// File of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillFile {
    /// Owner of the file: the agent or the account.
    pub origin: Origin,
    /// Path, as the workspace shows it.
    pub path: TreePath,
    /// Version of its content.
    pub etag: VersionId,
    /// Content.
    pub bytes: Bytes,
}

impl Workspace<'_> {
    /// Reads a file of a skill, given as `{skill}/{path}`: the agent's file, or the account's if the agent
    /// has none.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` for a path with `..`; `TooLarge` for more than [`MAX_SKILL_FILE`]; from
    /// the filesystem.
    #[boxed]
    pub async fn read_skill(&self, path: &str) -> Result<SkillFile> {
        let (paths, [own, global]) = self.skill_files(path).await?;
        let origins = [Origin::Agent, Origin::Global];
        for ((origin, path), file) in origins.into_iter().zip(paths).zip([own, global]) {
            let Some(File { etag, bytes, .. }) = file else { continue };
            let message = format!("has more than {MAX_SKILL_FILE} bytes; read it as a file");
            let bytes = bytes.ok_or_else(|| Error::at(ErrorKind::TooLarge, &path, message))?;
            return Ok(SkillFile { origin, path: self.paths.shown(&path), etag, bytes: bytes.into() });
        }
        Err(missing(path))
    }

    /// Writes a file of the agent's skill, replacing its content.
    ///
    /// # Errors
    /// As [`Workspace::read_skill`]; from the filesystem.
    pub async fn write_skill(&self, path: &str, bytes: impl Into<Bytes>) -> Result<(TreePath, Seq)> {
        let (own, bytes) = (self.own_path(path)?, bytes.into());
        if bytes.len() > MAX_SKILL_FILE {
            return Err(Error::at(ErrorKind::TooLarge, &own, format!("at most {MAX_SKILL_FILE} bytes")));
        }
        self.check_skills_writable(Origin::Agent)?;
        let write = Op::write(own.clone(), bytes).with_parents();
        let batch = self.batch(vec![write], &format!("write skill {path}"));
        let (own, seq) = self.once.run(self.once.commit(self.fs, batch, (own, PENDING))).await?;
        Ok((self.paths.shown(&own), seq))
    }

    /// Replaces a text that occurs exactly once in a file of a skill. `old` also matches if the file has
    /// other line ends or another Unicode normalization: LF matches CRLF, and composed letters match
    /// decomposed ones. The rest of the file keeps its form. If only the account has the file, the same
    /// commit writes the result to the agent's skill.
    ///
    /// # Errors
    /// `NotFound` if the file does not exist or does not contain the text; `InvalidArgument` if it contains
    /// the text more than once, or is not UTF-8; from the filesystem.
    #[boxed]
    pub async fn edit_skill(&self, path: &str, old: &str, new: &str) -> Result<(TreePath, Seq)> {
        self.check_skills_writable(Origin::Agent)?;
        let (own, seq) = self.once.run(retry(|| self.edit_skill_once(path, old, new))).await?;
        Ok((self.paths.shown(&own), seq))
    }

    async fn edit_skill_once(&self, path: &str, old: &str, new: &str) -> Result<(TreePath, Seq)> {
        let ([own_path, global_path], [own, global]) = self.skill_files(path).await?;
        let found = own.as_ref().or(global.as_ref()).ok_or_else(|| missing(path))?;
        let no_text =
            || Error::invalid(format!("{path}: is no UTF-8 text of at most {MAX_SKILL_FILE} bytes"));
        let text = found.text().ok_or_else(no_text)?;
        if old.is_empty() {
            return Err(Error::invalid("say which text to replace"));
        }
        let replaced = replace_once(text, old, new).map_err(|count| match count {
            0 => {
                let message = format!("{path}: the text to be replaced was not found; nothing was changed");
                Error::new(ErrorKind::NotFound, message)
            }
            _ => Error::invalid(format!(
                "{path}: the text to be replaced occurs {count} times; give more of it"
            )),
        })?;
        let mut write = Op::write(own_path.clone(), replaced).with_parents();
        if own.is_none() && found.is_executable() {
            // A copy of an executable file must stay executable.
            write = write.with_attrs(SetAttrs::new().mode(found.mode));
        }
        let mut batch = self.batch(vec![write], &format!("edit skill {path}"));
        batch = batch.require(own_path.clone(), as_read(own.as_ref()));
        if let (None, Some(global)) = (&own, &global) {
            batch = batch.require(global_path, Precondition::Etag(global.etag));
        }
        self.once.commit(self.fs, batch, (own_path, PENDING)).await
    }

    async fn skill_files(&self, path: &str) -> Result<([TreePath; 2], [Option<File>; 2])> {
        let (directory, name) = split(path)?;
        let own = self.skill_path(Origin::Agent, directory, name)?;
        let paths = [own, self.skill_path(Origin::Global, directory, name)?];
        let files = read_all(self.fs, &paths, MAX_SKILL_FILE).await?;
        let mut files = files.into_iter();
        let both = [files.next().flatten(), files.next().flatten()];
        Ok((paths, both))
    }

    fn own_path(&self, path: &str) -> Result<TreePath> {
        let (directory, name) = split(path)?;
        self.skill_path(Origin::Agent, directory, name)
    }
}

/// Returns the skill and the path in it.
fn split(path: &str) -> Result<(&str, &str)> {
    let path = path.strip_prefix("skills/").unwrap_or(path);
    let form = || Error::invalid(format!("{path}: write SKILL/FILE, such as pdf/SKILL.md"));
    path.split_once('/').ok_or_else(form)
}

fn missing(path: &str) -> Error {
    let message = format!("{path}: neither the agent's skill nor the account's has this file");
    Error::new(ErrorKind::NotFound, message)
}
