//! Skills: what an agent can be taught to do, a directory with a `SKILL.md` each. The agent's own come first
//! and hide those of the account whose directory has the same name; which of them apply depends on the hosts
//! that its tools run on.

mod files;
mod front;
mod install;
mod listing;
mod place;
mod requires;

pub use self::files::{MAX_SKILL_FILE, SkillFile};
pub use self::front::SkillText;
pub use self::install::{Installed, MAX_SKILL_FILES};
pub use self::listing::{LeftOut, ListedSkill, Listing, Origin, Reason};
pub(super) use self::place::in_directory;
pub use self::requires::{Host, Install, InstallKind, Requires, RequiresSetting, SkillSetting};
