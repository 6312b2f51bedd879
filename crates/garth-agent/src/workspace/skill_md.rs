//! What the `SKILL.md` of a skill says: its front matter, and what it requires of hosts. Pure.

mod blocks;
pub(super) mod front_matter;
pub(super) mod requires;
