//! `SKILL.md` of a skill: its front matter, and the host requirements in it. Pure.

mod astray;
mod blocks;
pub(super) mod front_matter;
mod hermes;
mod json_text;
mod metadata;
mod parts;
pub(super) mod requires;
mod spilled;
mod yaml;
