//! Settings of an agent, from its `settings.json`. People write the file, and the agent only reads it. One
//! parser reads it and checks it in each commit: an invalid file would stop prompts, resets and compaction.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

use crate::identity::{AccessPolicy, Sharing};
use crate::nearest::nearest;
use crate::small_file::{File, unreadable};
use crate::time_zone::Zone;
use garth_engine::error::{Error, Result};
use garth_engine::path::TreePath;

pub(crate) use crate::identity::MAX_SETTINGS;
pub use crate::identity::SETTINGS;

/// Limit on `reset.minutes`: ten years.
const MAX_MINUTES: u64 = 5_256_000;

/// Limit on the tokens of a setting: more than any context window has.
const MAX_TOKENS: u64 = 10_000_000;

/// Settings of an agent. Omitted ones have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// IANA name of the agent's time zone, which decides when a day ends. The default is `UTC`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Settings of the prompt.
    pub prompt: PromptSettings,
    /// Visibility of daily memory.
    pub daily_memory: DailyMemory,
    /// Settings of skills, by the name of the skill or of its directory.
    pub skills: BTreeMap<String, SkillSetting>,
    /// Settings of compaction.
    pub compaction: CompactionSettings,
    /// Settings of resets.
    pub reset: ResetSettings,
    /// Owner of the agent: see [`AccessPolicy::owner`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Session keys of the owner: see [`AccessPolicy::main_keys`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main_keys: Option<Vec<String>>,
    /// Users of session keys: see [`AccessPolicy::identities`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub identities: BTreeMap<String, String>,
    /// Paths shared with others than the owner: see [`AccessPolicy::shared`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shared: BTreeMap<String, Sharing>,
}

/// Settings of the prompt: see [`Settings::prompt`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PromptSettings {
    /// First part of the prompt, in place of garth's own text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Order of the sections.
    pub order: Order,
    /// True if a session keeps the prompt that it began with until it is compacted or reset. Later changes of
    /// files are reported at the end.
    pub pinned: bool,
}

/// Order of a prompt's sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Daily memory between long-term memory and tool notes.
    #[default]
    Normal,
    /// Sections that change often come last, so that the model's cache keeps working for the others.
    Cache,
}

/// Visibility of daily memory: see [`Settings::daily_memory`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DailyMemory {
    /// Text of others than main sessions and the audience is shown as evidence.
    #[default]
    Class,
    /// All text is shown as it is.
    All,
}

/// Settings of compaction: see [`Settings::compaction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CompactionSettings {
    /// Tokens of the context window to keep free. A session whose last prompt left fewer is compacted.
    #[serde(deserialize_with = "whole")]
    pub reserve: u64,
    /// Tokens of the newest messages that stay in packs. The last turn always stays.
    #[serde(deserialize_with = "whole")]
    pub keep: u64,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self { reserve: 20_000, keep: 20_000 }
    }
}

/// Settings of resets: see [`Settings::reset`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ResetSettings {
    /// Policy.
    pub policy: ResetPolicy,
    /// For `daily`: hour in the agent's time zone, 0 to 23.
    #[serde(deserialize_with = "whole")]
    pub hour: i8,
    /// For `idle`: minutes without a change.
    #[serde(deserialize_with = "whole")]
    pub minutes: u64,
    /// Treatment of media that the archive refers to.
    pub media: MediaPolicy,
}

impl Default for ResetSettings {
    fn default() -> Self {
        Self { policy: ResetPolicy::Manual, hour: 4, minutes: 60, media: MediaPolicy::Keep }
    }
}

/// Time of the reset of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResetPolicy {
    /// On request only.
    #[default]
    Manual,
    /// At an hour of the day, if the session was used before it.
    Daily,
    /// After some minutes without use.
    Idle,
}

/// Treatment of media that the archive of a reset session refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaPolicy {
    /// Move them next to the archive.
    #[default]
    Keep,
    /// Remove them.
    Delete,
}

/// Settings of a skill, which override those of its own text: see [`Settings::skills`].
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

/// Requirements that replace those of a skill: see [`Requires`](crate::workspace::Requires).
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
    /// Parses settings.
    ///
    /// # Errors
    /// `InvalidArgument` if the text is not valid JSON of this form, or a value is invalid. The message
    /// suggests the nearest known name for an unknown one.
    pub fn parse(text: &[u8]) -> Result<Self> {
        Self::read_text(text).map_err(|why| Error::invalid(format!("{SETTINGS}: {why}")))
    }

    /// Checks a text as [`Settings::parse`] does, for the rule.
    ///
    /// # Errors
    /// A description of the error.
    pub(crate) fn check(text: &[u8]) -> std::result::Result<(), String> {
        Self::read_text(text).map(drop)
    }

    fn read_text(text: &[u8]) -> std::result::Result<Self, String> {
        // Serde would accept a list as the fields in their order.
        if text.trim_ascii_start().first() != Some(&b'{') {
            return Err("it is not a JSON object".to_owned());
        }
        let settings: Self = serde_json::from_slice(text).map_err(|error| flaw(&error))?;
        let Self { owner, main_keys, identities, shared, .. } = settings.clone();
        // The same checks as for access, so that settings which pass here never deny it.
        let policy = AccessPolicy { owner, main_keys, identities, shared };
        settings.zone().map_err(|error| format!("time_zone: {}", error.message()))?;
        policy.check().map_err(|error| error.message().to_owned())?;
        let tokens = settings.compaction.reserve.max(settings.compaction.keep);
        let wrong = [
            (!(0..24).contains(&settings.reset.hour), "reset.hour is 0 to 23"),
            (
                !(1..=MAX_MINUTES).contains(&settings.reset.minutes),
                "reset.minutes is 1 to 5,256,000, which is ten years",
            ),
            (tokens > MAX_TOKENS, "compaction.reserve and compaction.keep are at most 10,000,000 tokens"),
        ];
        match wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, why)) => Err(why.to_owned()),
            None => Ok(settings),
        }
    }

    /// Reads the settings from the file at a path. Without a file, the defaults apply.
    ///
    /// # Errors
    /// `Corrupt` at that path.
    pub(crate) fn read(path: &TreePath, file: Option<&File>) -> Result<Self> {
        let Some(file) = file else { return Ok(Self::default()) };
        let settings = file.read().and_then(Self::parse);
        settings
            .map_err(|error| unreadable(path, error.message(), "correct it, or restore an earlier version"))
    }

    /// Returns the time zone.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is not in the database of time zones.
    pub fn zone(&self) -> Result<Zone> {
        self.time_zone.as_deref().map_or(Ok(Zone::default()), Zone::named)
    }
}

/// Returns the error of invalid JSON, with the nearest known name for an unknown one.
fn flaw(error: &serde_json::Error) -> String {
    let said = error.to_string();
    // "unknown field `a`, expected one of `b`, `c` at line 1 column 2"
    let mut names = said.split('`').skip(1).step_by(2);
    let (Some((what, _)), Some(name)) = (said.split_once(", expected "), names.next()) else { return said };
    // The nearest name replaces the list of all known ones.
    match nearest(name, names).filter(|_| said.starts_with("unknown ")) {
        Some(near) => {
            format!("{what}; did you mean `{near}`? (line {}, column {})", error.line(), error.column())
        }
        None => said,
    }
}

/// Reads an integer, written as `60` or `6e1`: JSON does not distinguish them.
fn whole<'de, D, N>(from: D) -> std::result::Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<i64>,
{
    let number = Number::deserialize(from)?;
    #[expect(clippy::cast_possible_truncation, reason = "what does not fit becomes the greatest number")]
    let whole = number.as_i64().or_else(|| {
        let number = number.as_f64()?;
        (number.fract() == 0.0).then_some(number as i64)
    });
    let bad = || D::Error::custom(format!("{number} is not a valid integer here"));
    whole.and_then(|whole| N::try_from(whole).ok()).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_settings_have_defaults() {
        assert_eq!(Settings::parse(b"{}").unwrap(), Settings::default());
        let set = br#"{"time_zone":"Europe/Berlin","reset":{"policy":"daily","hour":0}}"#;
        let settings = Settings::parse(set).unwrap();
        assert_eq!(settings.zone().unwrap().name(), "Europe/Berlin");
        assert_eq!((settings.reset.policy, settings.reset.minutes), (ResetPolicy::Daily, 60));
    }

    #[test]
    fn every_setting_round_trips() {
        let requires = br#"{"bins":["a"],"anyBins":[],"env":null,"config":[],"os":["linux"],"hostRoles":[],
            "capabilities":[],"anyCapabilities":["x"]}"#;
        let skill = SkillSetting {
            enabled: Some(true),
            always: Some(false),
            requires: Some(serde_json::from_slice(requires).unwrap()),
        };
        let full = Settings {
            time_zone: Some("Europe/Berlin".to_owned()),
            prompt: PromptSettings { base: Some("You".to_owned()), order: Order::Cache, pinned: true },
            daily_memory: DailyMemory::All,
            skills: BTreeMap::from([("pdf".to_owned(), skill)]),
            owner: Some("ann".to_owned()),
            main_keys: Some(vec!["main".to_owned()]),
            identities: BTreeMap::from([("whatsapp:dm:+49".to_owned(), "bob".to_owned())]),
            shared: BTreeMap::from([("kv/faq".to_owned(), Sharing::Read)]),
            ..Settings::default()
        };
        for settings in [full, Settings::default()] {
            let text = serde_json::to_vec(&settings).unwrap();
            assert_eq!(Settings::parse(&text).unwrap(), settings);
        }
        let whole = br#"{"reset":{"hour":4.0,"minutes":6e1},"compaction":{"keep":1e4},"skills":{"a":{}}}"#;
        assert_eq!(Settings::parse(whole).unwrap().reset.minutes, 60);
    }

    #[test]
    fn unknown_setting_names_the_nearest() {
        for (bad, said) in [
            (
                r#"{"timezone":"UTC"}"#,
                "unknown field `timezone`; did you mean `time_zone`? (line 1, column 11)",
            ),
            (r#"{"prompts":{}}"#, "`prompts`; did you mean `prompt`?"),
            (r#"{"skills":{"a":{"enable":true}}}"#, "`enable`; did you mean `enabled`?"),
            (r#"{"skills":{"a":{"requires":{"any_bins":[]}}}}"#, "`any_bins`; did you mean `anyBins`?"),
            (r#"{"prompt":{"order":"cached"}}"#, "variant `cached`; did you mean `cache`?"),
            (r#"{"shared":{"a":"reads"}}"#, "`reads`; did you mean `read`?"),
            (r#"{"xyz":1}"#, "unknown field `xyz`, expected one of `time_zone`, `prompt`"),
        ] {
            let error = Settings::parse(bad.as_bytes()).unwrap_err();
            assert!(error.message().contains(said), "{bad}: {error}");
        }
    }

    #[test]
    fn rejects_invalid_settings() {
        for (bad, why) in [
            ("", "not a JSON object"),
            ("[]", "not a JSON object"),
            ("{", "EOF"),
            (r#"{"time_zone":"Mars"}"#, "Mars: unknown time zone"),
            (r#"{"reset":{"hour":24}}"#, "reset.hour"),
            (r#"{"reset":{"minutes":0}}"#, "reset.minutes"),
            (r#"{"prompt":{"order":"random"}}"#, "unknown variant `random`"),
            (r#"{"reset":{"minutes":18446744073709551615}}"#, "reset.minutes"),
            (r#"{"compaction":{"keep":18446744073709551615}}"#, "compaction.keep"),
        ] {
            let error = Settings::parse(bad.as_bytes()).unwrap_err();
            assert!(error.message().contains(why), "{bad}: {error}");
        }
    }
}
