//! Skills: what an agent can be taught to do, a directory with a `SKILL.md` each. The agent's own come first
//! and hide those of the account whose directory has the same name; which of them apply depends on the hosts
//! that its tools run on.

mod files;
mod install;
pub(super) mod listing;
pub(super) mod lookup;
mod missing;
mod replace;

pub use self::files::{MAX_SKILL_FILE, SkillFile};
pub use self::install::{InstallFile, Installed, MAX_SKILL_FILES};
pub use self::listing::{LeftOut, ListedSkill, Listing, Origin, Reason};
