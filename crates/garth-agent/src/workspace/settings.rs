//! `settings.json` of an agent: what its people set. An agent reads it and does not write it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::time_zone::Zone;
use garth_engine::error::{Error, ErrorKind, Result};

/// The name of the file.
pub const SETTINGS: &str = "settings.json";

/// Largest file of settings, 1 MiB.
pub(super) const MAX_SETTINGS: usize = 1 << 20;

/// What is set; what is not has its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// The IANA name of the time zone by which its days change: `UTC` without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// How its prompt is put together.
    pub prompt: PromptSettings,
    /// Whose daily memory a session sees.
    pub daily_memory: DailyMemory,
    /// What is said of skills, by the name of each or of its directory.
    pub skills: BTreeMap<String, SkillSetting>,
    /// When sessions are compacted.
    pub compaction: CompactionSettings,
    /// When sessions begin anew.
    pub reset: ResetSettings,
}

/// See [`Settings::prompt`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PromptSettings {
    /// What comes first, in place of garth's own text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// In which order.
    pub order: Order,
    /// Whether a session keeps the prompt that it began with, until it is compacted or reset: what changed
    /// since is told at the end.
    pub pinned: bool,
}

/// The order of a prompt's sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Daily memory between long-term memory and tool notes.
    #[default]
    Normal,
    /// What changes often comes last, so that a model's cache holds for the rest.
    Cache,
}

/// See [`Settings::daily_memory`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DailyMemory {
    /// A session of the class `main` sees all of it, what others wrote as evidence; any other what its own
    /// class wrote.
    #[default]
    Class,
    /// Every session sees all of it, as it is.
    All,
}

/// See [`Settings::compaction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CompactionSettings {
    /// How many tokens of the context window stay free: a session whose last prompt left less is compacted.
    pub reserve: u64,
    /// How many tokens of the newest messages stay in packs, and the last turn in any case.
    pub keep: u64,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self { reserve: 20_000, keep: 20_000 }
    }
}

/// See [`Settings::reset`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ResetSettings {
    /// When.
    pub policy: ResetPolicy,
    /// By `daily`, at which hour of the agent's time zone, 0 to 23.
    pub hour: i8,
    /// By `idle`, after how many minutes without a change.
    pub minutes: u64,
    /// What happens to media that the archive refers to.
    pub media: MediaPolicy,
}

impl Default for ResetSettings {
    fn default() -> Self {
        Self { policy: ResetPolicy::Manual, hour: 4, minutes: 60, media: MediaPolicy::Keep }
    }
}

/// When a session begins anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResetPolicy {
    /// When somebody says so.
    #[default]
    Manual,
    /// Once an hour of the day has come since it was used last.
    Daily,
    /// Once it was not used for so many minutes.
    Idle,
}

/// What a reset does with media that the archive refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaPolicy {
    /// They move beside the archive.
    #[default]
    Keep,
    /// They are removed.
    Delete,
}

/// Settings of a skill, which override what it says itself: see [`Settings::skills`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct SkillSetting {
    /// `false` hides the skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// `true` lists the skill even if one of its requirements is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always: Option<bool>,
    /// Requirements; omitted ones are as the skill has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires: Option<RequiresSetting>,
}

/// Requirements that replace those of a skill: see [`Requires`](super::Requires).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RequiresSetting {
    /// Programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bins: Option<Vec<String>>,
    /// Programs of which one is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub any_bins: Option<Vec<String>>,
    /// Variables of the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    /// Settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Vec<String>>,
    /// Operating systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<Vec<String>>,
    /// Roles of hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_roles: Option<Vec<String>>,
    /// Capabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
    /// Capabilities of which one is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub any_capabilities: Option<Vec<String>>,
}

impl Settings {
    /// Reads them.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no JSON of this form, and values that cannot be.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let bad = |why: &str| Error::invalid(format!("{SETTINGS}: {why}; correct it"));
        if text.trim_ascii_start().first() != Some(&b'{') {
            return Err(bad("it is no JSON object"));
        }
        let settings: Self = serde_json::from_slice(text).map_err(|error| bad(&error.to_string()))?;
        settings.zone().map_err(|error| bad(error.message()))?;
        if !(0..24).contains(&settings.reset.hour) {
            return Err(bad("reset.hour is 0 to 23"));
        }
        if settings.reset.minutes == 0 {
            return Err(bad("reset.minutes is 1 or more"));
        }
        Ok(settings)
    }

    /// Those of a file; the defaults of none.
    pub(super) fn of(file: Option<&crate::small_file::File>) -> Result<Self> {
        let Some(file) = file else { return Ok(Self::default()) };
        let long =
            || Error::new(ErrorKind::TooLarge, format!("{SETTINGS}: has more than {MAX_SETTINGS} bytes"));
        Self::parse(file.bytes.as_deref().ok_or_else(long)?)
    }

    /// The time zone.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that the database of time zones has not.
    pub fn zone(&self) -> Result<Zone> {
        self.time_zone.as_deref().map_or(Ok(Zone::default()), Zone::named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_has_its_default() {
        assert_eq!(Settings::parse(b"{}").unwrap(), Settings::default());
        let set = br#"{"time_zone":"Europe/Berlin","reset":{"policy":"daily","hour":0}}"#;
        let settings = Settings::parse(set).unwrap();
        assert_eq!(settings.zone().unwrap().name(), "Europe/Berlin");
        assert_eq!((settings.reset.policy, settings.reset.minutes), (ResetPolicy::Daily, 60));
    }

    #[test]
    fn what_cannot_be_set_is_refused() {
        for (bad, why) in [
            ("", "no JSON object"),
            ("[]", "no JSON object"),
            ("{", "EOF"),
            (r#"{"timezone":"UTC"}"#, "unknown field `timezone`"),
            (r#"{"time_zone":"Mars"}"#, "Mars: is no time zone"),
            (r#"{"reset":{"hour":24}}"#, "reset.hour"),
            (r#"{"reset":{"minutes":0}}"#, "reset.minutes"),
            (r#"{"prompt":{"order":"random"}}"#, "unknown variant `random`"),
        ] {
            let error = Settings::parse(bad.as_bytes()).unwrap_err();
            assert!(error.message().contains(why), "{bad}: {error}");
        }
    }
}
