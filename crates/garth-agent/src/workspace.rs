//! Workspace of an agent: the files of its prompt, its skills and daily memory, the archives of its sessions
//! and their media. `docs/specs/workspace.md` describes them.

mod archive;
mod compact;
mod daily;
mod extract_memories;
mod handle;
mod heartbeat;
mod jobs;
pub mod layout;
mod paths;
mod prompt;
mod prompt_cache;
mod reading;
mod remove;
mod reset;
mod reset_media;
mod reset_schedule;
mod skill_md;
mod skills;
mod template;
mod text_file;
mod transcript;

pub use self::archive::Unpacked;
pub(crate) use self::archive::{archive_attrs, archived_session};
pub use self::compact::{Trim, Trimmed};
pub use self::daily::{DailyFile, DailySection, DailyWrite, MAX_DAYS};
pub use self::extract_memories::Asking;
pub use self::handle::Workspace;
pub use self::heartbeat::says_anything;
pub use self::jobs::{Extraction, Jobs, next_job, run_jobs};
pub use self::paths::PathsOf;
pub use self::prompt::texts;
pub use self::prompt::{
    Changed, Difference, Inputs, Part, Prompt, PromptManifest, PromptOptions, Replayed, Stable,
};
pub use self::prompt_cache::PromptCache;
pub use self::remove::RemovedSession;
pub use self::reset::{Reset, ResetOutcome};
pub use self::reset_schedule::{Current, due_resets};
pub use self::skill_md::front_matter::SkillText;
pub use self::skill_md::requires::{Host, Install, InstallKind, Requires};
pub use self::skills::{
    InstallFile, Installed, LeftOut, ListedSkill, Listing, MAX_SKILL_FILE, MAX_SKILL_FILES, Origin, Reason,
    SkillFile,
};
pub(crate) use self::template::initial_text;
pub use self::template::{Init, Initialized, new_agent_id};
pub use self::text_file::MAX_FILE;
pub use self::transcript::{Archive, MAX_ARCHIVES};
pub use crate::settings::{
    CompactionSettings, DailyMemory, MediaPolicy, Order, PromptSettings, RequiresSetting, ResetPolicy,
    ResetSettings, SETTINGS, Settings, SkillSetting,
};
pub use crate::time_zone::{Day, Zone};
