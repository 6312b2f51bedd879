//! Skills: instructions for an agent, a directory with a `SKILL.md` each. The agent's own come first and hide
//! those of the account with the same directory name; the hosts of the agent's tools decide which of them are
//! eligible.

mod files;
mod install;
pub(super) mod listing;
pub(super) mod lookup;
mod missing;
mod replace;

pub use self::files::{MAX_SKILL_FILE, SkillFile};
pub use self::install::{InstallFile, Installed, MAX_SKILL_FILES};
pub use self::listing::{LeftOut, ListedSkill, Listing, Origin, Reason};
