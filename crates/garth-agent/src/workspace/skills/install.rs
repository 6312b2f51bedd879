//! Installs skills, and publishes them as context nodes.

use bytes::Bytes;

use super::files::MAX_SKILL_FILE;
use super::listing::Origin;
use super::lookup::SKILL;
use crate::boxed;
use crate::node::{Nodes, Put, Uri, Written};
use crate::retry::retry;
use crate::small_file::{as_read, read_all};
use crate::workspace::handle::Workspace;
use crate::workspace::skill_md::front_matter::SkillText;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{Batch, Op, Seq};
use garth_engine::path::TreePath;

/// Most files of a skill that is installed.
pub const MAX_SKILL_FILES: usize = 1000;
/// Most bytes of them together, 16 MiB: they are one commit.
const MAX_BYTES: usize = 16 << 20;

/// What an installation did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Installed {
    /// The directory of the skill.
    pub path: TreePath,
    /// Files that were written.
    pub written: Vec<String>,
    /// How many were there already, with the same bytes.
    pub same: usize,
    /// The commit; none if all was there.
    pub seq: Option<Seq>,
    /// What is wrong in its `SKILL.md`, and does not keep it from being there.
    pub flaws: Vec<String>,
}

impl Workspace<'_> {
    /// Writes the files of a skill, each a path in it and its bytes, as the agent's own or for all agents of
    /// the account, in one commit. What is there with the same bytes is not written; what else is there
    /// stays.
    ///
    /// # Errors
    /// `InvalidArgument` without a `SKILL.md`, and for paths that lead out of it; `TooLarge`; `RuleViolation`
    /// for a skill of all in a session; from the filesystem.
    #[boxed]
    pub async fn install_skill(
        &self,
        directory: &str,
        origin: Origin,
        files: &[(String, Bytes)],
    ) -> Result<Installed> {
        let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
        if files.len() > MAX_SKILL_FILES || bytes > MAX_BYTES {
            let message =
                format!("a skill has at most {MAX_SKILL_FILES} files, and {MAX_BYTES} bytes in them");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let text = files.iter().find(|(name, _)| name == SKILL);
        let Some((_, text)) = text else {
            return Err(Error::invalid(format!("{directory}: has no {SKILL}, so it is no skill")));
        };
        let text = std::str::from_utf8(text).map_err(|_| Error::invalid(format!("{SKILL} is UTF-8 text")))?;
        let flaws = SkillText::parse(text).all_flaws().cloned().collect();
        retry(|| self.install_once(directory, origin, files)).await.map(|done| Installed { flaws, ..done })
    }

    async fn install_once(
        &self,
        directory: &str,
        origin: Origin,
        files: &[(String, Bytes)],
    ) -> Result<Installed> {
        let paths = files.iter().map(|(name, _)| self.skill_path(origin, directory, name));
        let paths = paths.collect::<Result<Vec<_>>>()?;
        let there = read_all(self.fs, &paths, MAX_SKILL_FILE).await?;
        let (mut ops, mut written, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
        for (((name, bytes), path), there) in files.iter().zip(paths).zip(there) {
            let is_same = there.as_ref().and_then(|there| there.bytes.as_deref()) == Some(&bytes[..]);
            if !is_same {
                ops.push(Op::write(path.clone(), bytes.clone()).with_parents());
                conditions.push((path, as_read(there.as_ref())));
                written.push(name.clone());
            }
        }
        let path = TreePath::from_row(self.skill_home(origin)?.key(), directory);
        let same = files.len() - written.len();
        let seq =
            if ops.is_empty() { None } else { Some(self.install_batch(directory, ops, conditions).await?) };
        Ok(Installed { path, written, same, seq, flaws: Vec::new() })
    }

    async fn install_batch(
        &self,
        directory: &str,
        ops: Vec<Op>,
        conditions: Vec<(TreePath, garth_engine::model::Precondition)>,
    ) -> Result<Seq> {
        let batch: Batch = self.batch(ops, &format!("install skill {directory}"));
        let batch = conditions.into_iter().fold(batch, |batch, (path, that)| batch.require(path, that));
        Ok(self.fs.commit(batch).await?.seq)
    }

    /// Publishes a skill of the agent's own as a context node: its `SKILL.md` is the text, `content.md` a
    /// link to it.
    ///
    /// # Errors
    /// `NotFound` for a skill that the agent has not; as [`Nodes::put`].
    #[boxed]
    pub async fn publish_skill(&self, account: &str, directory: &str) -> Result<Written> {
        let path = self.skill_path(Origin::Agent, directory, SKILL)?;
        let file = read_all(self.fs, std::slice::from_ref(&path), MAX_SKILL_FILE).await?.pop().flatten();
        let missing = || {
            let message = format!("{directory}: the agent has no such skill of its own; install it first");
            Error::new(ErrorKind::NotFound, message)
        };
        let file = file.ok_or_else(missing)?;
        let no_text = || Error::at(ErrorKind::InvalidArgument, &path, "is no UTF-8 text");
        let text = file.text().ok_or_else(no_text)?;
        let dir = TreePath::from_row(self.skill_home(Origin::Agent)?.key(), directory);
        let no_uri = || Error::invalid(format!("{directory}: makes no URI"));
        let uri = Uri::of_dir(account, &dir).ok_or_else(no_uri)?;
        let nodes = Nodes::new(self.fs, account, self.env.clone()).author(self.batch(Vec::new(), "").author);
        nodes.put(&uri, &Put::new(text)).await
    }
}
