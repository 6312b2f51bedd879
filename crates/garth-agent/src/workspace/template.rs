//! Initial files of a workspace. Files whose content would have to be invented, such as memories, are not
//! created.

mod texts;

use serde::{Deserialize, Serialize};

use super::handle::Workspace;
use crate::boxed;
use crate::identity::AccessPolicy;
use crate::ids::random_uuid;
use crate::once::{Outcome, PENDING};
use crate::retry::retry;
use crate::settings::{SETTINGS, Settings};
use crate::small_file::pretty;
use crate::time_zone::Zone;
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::{Batch, Commit, Op, Precondition, Seq};
use garth_engine::path::TreePath;

/// File of the ceremony with which an agent begins.
const BOOTSTRAP: &str = "BOOTSTRAP.md";

/// Files that the ceremony fills in: an agent that has all of them has completed it, or needs none.
const COMMISSIONED: [&str; 3] = ["SOUL.md", "IDENTITY.md", "USER.md"];

/// Other files, by name and text.
const FILES: [(&str, &str); 6] = [
    ("SOUL.md", texts::SOUL),
    ("IDENTITY.md", texts::IDENTITY),
    ("USER.md", texts::USER),
    ("AGENTS.md", texts::AGENTS),
    ("TOOLS.md", texts::TOOLS),
    ("HEARTBEAT.md", texts::HEARTBEAT),
];

/// Returns the text with which [`Workspace::init`] creates the file at a path of the account; `None` for a
/// path where it creates none, and for settings.
pub(crate) fn initial_text(path: &TreePath) -> Option<&'static str> {
    let names: Vec<&str> = path.segments().collect();
    let ["agents", _, name] = names[..] else { return None };
    let mut files = FILES.into_iter().chain([(BOOTSTRAP, texts::BOOTSTRAP)]);
    files.find(|(known, _)| *known == name).map(|(_, text)| text)
}

/// Options of an initialization.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Init {
    /// Time zone of the settings.
    #[doc(hidden)]
    pub time_zone: Zone,
    /// True if a new agent shall go through the ceremony.
    #[doc(hidden)]
    pub bootstrap: bool,
    /// Owner in the settings: see [`AccessPolicy::owner`](crate::AccessPolicy::owner).
    #[doc(hidden)]
    pub owner: Option<String>,
}

impl Default for Init {
    fn default() -> Self {
        Self { time_zone: Zone::default(), bootstrap: true, owner: None }
    }
}

impl Init {
    /// Sets the time zone.
    #[must_use]
    pub fn time_zone(self, time_zone: Zone) -> Self {
        Self { time_zone, ..self }
    }

    /// Sets the owner.
    #[must_use]
    pub fn owner(self, owner: impl Into<String>) -> Self {
        Self { owner: Some(owner.into()), ..self }
    }

    /// Leaves out the ceremony.
    #[must_use]
    pub fn without_bootstrap(self) -> Self {
        Self { bootstrap: false, ..self }
    }
}

/// Returns an id for a new agent, a UUID.
///
/// # Errors
/// If the system has no random bytes.
#[doc(hidden)]
pub fn new_agent_id(env: &Env) -> Result<String> {
    random_uuid(env)
}

/// Result of an initialization.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Initialized {
    /// Created files.
    pub made: Vec<TreePath>,
    /// Existing files, which stay as they are.
    pub kept: Vec<TreePath>,
    /// Commit; `None` if nothing was created.
    pub seq: Option<Seq>,
}

impl Outcome for Initialized {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: self.seq.map(|_| commit.seq), ..self }
    }
}

impl Workspace<'_> {
    /// Creates the missing files of a workspace, in one commit by the author alone: only people may write
    /// settings, so an agent as author fails. The ceremony is only created for an agent that has neither
    /// settings nor all files that the ceremony fills in.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid owner; `AlreadyExists` if existing settings have another owner; from
    /// the filesystem.
    #[boxed]
    pub async fn init(&self, options: &Init) -> Result<Initialized> {
        self.once.run(retry(|| self.init_once(options))).await
    }

    async fn init_once(&self, options: &Init) -> Result<Initialized> {
        // Before it is part of a text, whose errors name the file.
        AccessPolicy { owner: options.owner.clone(), ..AccessPolicy::default() }.check()?;
        let settings = pretty(&Settings {
            time_zone: Some(options.time_zone.name().to_owned()),
            owner: options.owner.clone(),
            ..Settings::default()
        })?;
        Settings::parse(settings.as_bytes())?;
        let known = self.settings().await?.owner;
        let is_there = self.fs.exists(&self.file(SETTINGS)?).await?;
        if is_there && options.owner.is_some() && known != options.owner {
            let message = "settings.json exists and has another owner; edit `owner` there";
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let files = FILES.into_iter().chain([(SETTINGS, settings.as_str()), (BOOTSTRAP, texts::BOOTSTRAP)]);
        let (mut made, mut kept) = (Vec::new(), Vec::new());
        for (name, text) in files {
            let path = self.file(name)?;
            if self.fs.exists(&path).await? {
                kept.push((name, path));
            } else {
                made.push((name, path, text));
            }
        }
        let has = |wanted: &str| kept.iter().any(|(name, _)| *name == wanted);
        if !options.bootstrap || has(SETTINGS) || COMMISSIONED.into_iter().all(has) {
            made.retain(|(name, ..)| *name != BOOTSTRAP);
        }
        let mut done =
            Initialized { kept: kept.into_iter().map(|(_, path)| path).collect(), ..Initialized::default() };
        let message = format!("lay out the workspace of {}", self.agent);
        let batch = Batch::default().author(self.author.clone()).message(message);
        if made.is_empty() {
            return self.once.unchanged(self.fs, batch, done).await;
        }
        let write = |batch: Batch, path: &TreePath, text: &str| {
            let write = Op::write(path, text.to_owned()).with_parents();
            // A file that another process has created since the check must not be overwritten.
            batch.op(write).require(path, Precondition::Absent)
        };
        let batch = made.iter().fold(batch, |batch, (_, path, text)| write(batch, path, text));
        done.seq = Some(PENDING);
        done.made = made.into_iter().map(|(_, path, _)| path).collect();
        self.once.commit(self.fs, batch, done).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::heartbeat::says_anything;

    #[test]
    fn template_heartbeat_is_empty() {
        for (name, text) in FILES {
            assert_eq!(says_anything(text), name != "HEARTBEAT.md", "{name}");
            assert!(text.starts_with("# ") && text.ends_with('\n') && text.len() < 1500, "{name}");
            // The prompt says where files are: a path in a file would be right in one tree only.
            assert!(!text.contains(".md") && !text.contains(".json"), "{name}");
        }
    }

    #[test]
    fn ceremony_text_is_complete() {
        let asked = ["name", "for", "tone", "time zone", "remember"];
        let written = ["your soul", "your identity", "about your human", "your operating instructions"];
        for said in asked.into_iter().chain(written) {
            assert!(texts::BOOTSTRAP.contains(said), "{said}");
        }
        assert!(texts::BOOTSTRAP.contains("Delete this file") && !texts::BOOTSTRAP.contains(".md"));
        // The text that the ceremony replaces must occur.
        for text in [texts::IDENTITY, texts::USER] {
            assert!(text.contains("not chosen yet") || text.contains("not told yet"));
        }
    }
}
