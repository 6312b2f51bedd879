//! What the `SKILL.md` of a skill says: its front matter, and what it requires of hosts. Pure.

mod astray;
mod blocks;
pub(super) mod front_matter;
mod json_text;
mod metadata;
mod parts;
pub(super) mod requires;
mod spilled;
mod yaml;
