//! Installs skills, and publishes them as memories.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::files::MAX_SKILL_FILE;
use super::listing::{Origin, SKILL};
use crate::boxed;
use crate::memory::{Memories, Put, Uri, Written};
use crate::once::{Outcome, PENDING};
use crate::retry::retry;
use crate::small_file::{EXECUTABLE, File, as_read, read_all};
use crate::workspace::handle::Workspace;
use crate::workspace::skill_md::front_matter::SkillText;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{Commit, Op, Precondition, Seq, SetAttrs};
use garth_engine::path::TreePath;

/// Limit on the files of an installed skill.
pub const MAX_SKILL_FILES: usize = 1000;
/// Limit on the bytes of these files together, 16 MiB: they are one commit.
const MAX_BYTES: usize = 16 << 20;

/// File of a skill to install.
///
/// ```
/// use garth_agent::workspace::InstallFile;
///
/// let text = InstallFile::new("SKILL.md", "Use run.sh.\n");
/// let script = InstallFile::new("run.sh", "exec pdftotext \"$1\"\n").executable(true);
/// # assert!(text != script);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallFile {
    pub(super) name: String,
    pub(super) bytes: Bytes,
    pub(super) executable: Option<bool>,
}

impl InstallFile {
    /// Creates a file from its path in the skill and its bytes.
    pub fn new(name: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self { name: name.into(), bytes: bytes.into(), executable: None }
    }

    /// Sets whether the file is executable. By default a stored file keeps its permission, and a new file is
    /// not executable.
    #[must_use]
    pub fn executable(self, executable: bool) -> Self {
        Self { executable: Some(executable), ..self }
    }

    /// Returns the path in the skill.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the permission bits to set; `None` if the stored file has them.
    fn mode_to_set(&self, there: Option<&File>) -> Option<u32> {
        let executable = self.executable?;
        let is_executable = there.is_some_and(File::is_executable);
        let mode = there.map_or(0o644, |there| there.mode);
        (executable != is_executable).then_some(if executable {
            mode | EXECUTABLE
        } else {
            mode & !EXECUTABLE
        })
    }
}

/// Result of an installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Installed {
    /// Directory of the skill.
    pub path: TreePath,
    /// Files that were written.
    pub written: Vec<String>,
    /// Number of files that existed with the same bytes.
    pub same: usize,
    /// The commit; `None` if all files were unchanged.
    pub seq: Option<Seq>,
    /// Faults of its `SKILL.md`. The skill is installed all the same.
    pub flaws: Vec<String>,
}

impl Outcome for Installed {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: self.seq.map(|_| commit.seq), ..self }
    }
}

impl Workspace<'_> {
    /// Writes the files of a skill, for the agent or for all agents of the account, in one commit. Skips
    /// files whose bytes and executable bit are the same. Other files of the directory stay.
    ///
    /// # Errors
    /// `InvalidArgument` without a `SKILL.md`, and for paths that lead out of it; `TooLarge`; `AccessDenied`
    /// where skills are only read; from the filesystem.
    #[boxed]
    pub async fn install_skill(
        &self,
        directory: &str,
        origin: Origin,
        files: &[InstallFile],
    ) -> Result<Installed> {
        let bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
        if files.len() > MAX_SKILL_FILES || bytes > MAX_BYTES {
            let message =
                format!("a skill has at most {MAX_SKILL_FILES} files, and {MAX_BYTES} bytes in them");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let Some(text) = files.iter().find(|file| file.name == SKILL) else {
            return Err(Error::invalid(format!("{directory}: has no {SKILL}, so it is no skill")));
        };
        let text =
            std::str::from_utf8(&text.bytes).map_err(|_| Error::invalid(format!("{SKILL} is UTF-8 text")))?;
        let flaws: Vec<String> = SkillText::parse(text).all_flaws().cloned().collect();
        self.check_skills_writable(origin)?;
        let done = self.once.run(retry(|| self.install_once(directory, origin, files, &flaws))).await?;
        Ok(Installed { path: self.paths.shown(&done.path), ..done })
    }

    async fn install_once(
        &self,
        directory: &str,
        origin: Origin,
        files: &[InstallFile],
        flaws: &[String],
    ) -> Result<Installed> {
        let paths = files.iter().map(|file| self.skill_path(origin, directory, &file.name));
        let paths = paths.collect::<Result<Vec<_>>>()?;
        let there = read_all(self.fs, &paths, MAX_SKILL_FILE).await?;
        let (mut ops, mut written, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
        for ((file, path), there) in files.iter().zip(paths).zip(there) {
            let is_same = there.as_ref().and_then(|there| there.bytes.as_deref()) == Some(&file.bytes[..]);
            let mode = file.mode_to_set(there.as_ref());
            if !is_same || mode.is_some() {
                let write = Op::write(path.clone(), file.bytes.clone()).with_parents();
                ops.push(match mode {
                    Some(mode) => write.with_attrs(SetAttrs::new().mode(mode)),
                    None => write,
                });
                conditions.push((path, as_read(there.as_ref())));
                written.push(file.name.clone());
            }
        }
        let path = TreePath::from_row(self.skill_home(origin)?.key(), directory);
        let same = files.len() - written.len();
        let installed = Installed { path, written, same, seq: None, flaws: flaws.to_vec() };
        let batch = self.batch(ops, &format!("install skill {directory}"));
        if batch.ops.is_empty() {
            return self.once.unchanged(self.fs, batch, installed).await;
        }
        let batch = conditions.into_iter().fold(batch, |batch, (path, that)| batch.require(path, that));
        self.once.commit(self.fs, batch, Installed { seq: Some(PENDING), ..installed }).await
    }

    /// Removes a skill of the agent or of the account. Its history stays. If the skill was published as a
    /// memory, deletes the memory.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` for an invalid name; `AccessDenied` where skills are only read; from
    /// the filesystem.
    #[boxed]
    pub async fn remove_skill(
        &self,
        account: &str,
        directory: &str,
        origin: Origin,
    ) -> Result<(TreePath, Seq)> {
        self.check_skills_writable(origin)?;
        let dir = TreePath::from_row(self.skill_home(origin)?.key(), directory);
        let seq = self.once.run(self.remove_skill_once(account, directory, origin, &dir)).await?;
        Ok((self.paths.shown(&dir), seq))
    }

    async fn remove_skill_once(
        &self,
        account: &str,
        directory: &str,
        origin: Origin,
        dir: &TreePath,
    ) -> Result<Seq> {
        let file = self.skill_path(origin, directory, SKILL)?;
        if let Some(uri) = Uri::of_dir(account, dir).filter(|_| origin == Origin::Agent) {
            let memories = Memories::new(self.fs, account).env(self.env.clone()).once(self.once.clone());
            match memories.author(self.batch(Vec::new(), "").author).delete(&uri).await {
                // It was never published.
                Err(error) if error.is(ErrorKind::NotFound) => {}
                deleted => return deleted,
            }
        }
        let batch = self.batch(vec![Op::remove_tree(dir.clone())], &format!("remove skill {directory}"));
        match self.once.commit(self.fs, batch.require(file, Precondition::Exists), PENDING).await {
            Err(error) if error.is_absent() || error.is(ErrorKind::Conflict) => {
                let whose = if origin == Origin::Agent { "the agent" } else { "all agents" };
                let message = format!("{directory}: no such skill of {whose}; nothing was removed");
                Err(Error::new(ErrorKind::NotFound, message))
            }
            removed => removed,
        }
    }

    /// Publishes a skill of the agent as a memory. Its `SKILL.md` is the text, and `content.md` a link to it.
    ///
    /// # Errors
    /// `NotFound` for a skill that the agent has not; `AccessDenied` where skills are only read; as
    /// [`Memories::put`].
    #[boxed]
    pub async fn publish_skill(&self, account: &str, directory: &str) -> Result<Written> {
        self.check_skills_writable(Origin::Agent)?;
        let dir = TreePath::from_row(self.skill_home(Origin::Agent)?.key(), directory);
        let no_uri = || Error::invalid(format!("{directory}: makes no URI"));
        let uri = Uri::of_dir(account, &dir).ok_or_else(no_uri)?;
        let memories =
            Memories::new(self.fs, account).env(self.env.clone()).author(self.batch(Vec::new(), "").author);
        // The skill may be deleted by the time of a repeat, which is answered from its record and needs no
        // text.
        let put = match self.once.is_repeat() {
            true => Put::default(),
            false => Put::new(self.skill_text(directory).await?),
        };
        memories.once(self.once.clone()).put(&uri, &put).await
    }

    /// Returns the text of a skill of the agent.
    async fn skill_text(&self, directory: &str) -> Result<String> {
        let path = self.skill_path(Origin::Agent, directory, SKILL)?;
        let file = read_all(self.fs, std::slice::from_ref(&path), MAX_SKILL_FILE).await?.pop().flatten();
        let missing = || {
            let message = format!("{directory}: the agent has no such skill of its own; install it first");
            Error::new(ErrorKind::NotFound, message)
        };
        let file = file.ok_or_else(missing)?;
        let no_text = || Error::at(ErrorKind::InvalidArgument, &path, "is no UTF-8 text");
        Ok(file.text().ok_or_else(no_text)?.to_owned())
    }
}
