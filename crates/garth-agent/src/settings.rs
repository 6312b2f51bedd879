//! `settings.json` of an agent: what its people set. An agent reads it and does not write it. One parser
//! reads the file and judges it in each commit that leaves one: a mistake in it would stop prompts, resets
//! and compaction.

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

/// Longest time of `reset.minutes`: ten years.
const MAX_MINUTES: u64 = 5_256_000;

/// Most tokens that a setting counts: more than any context window has.
const MAX_TOKENS: u64 = 10_000_000;

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
    /// The owner of the agent: see [`AccessPolicy::owner`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Session keys of the owner: see [`AccessPolicy::main_keys`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main_keys: Option<Vec<String>>,
    /// Users of session keys: see [`AccessPolicy::identities`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub identities: BTreeMap<String, String>,
    /// What others than the owner reach: see [`AccessPolicy::shared`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shared: BTreeMap<String, Sharing>,
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
    /// What others than main sessions and the audience wrote is shown as evidence.
    #[default]
    Class,
    /// All is shown as it is.
    All,
}

/// See [`Settings::compaction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CompactionSettings {
    /// How many tokens of the context window stay free: a session whose last prompt left less is compacted.
    #[serde(deserialize_with = "whole")]
    pub reserve: u64,
    /// How many tokens of the newest messages stay in packs, and the last turn in any case.
    #[serde(deserialize_with = "whole")]
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
    #[serde(deserialize_with = "whole")]
    pub hour: i8,
    /// By `idle`, after how many minutes without a change.
    #[serde(deserialize_with = "whole")]
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
    /// Reads them.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no JSON of this form, and values that cannot be. The message has the
    /// nearest known name.
    pub fn parse(text: &[u8]) -> Result<Self> {
        Self::read_text(text).map_err(|why| Error::invalid(format!("{SETTINGS}: {why}")))
    }

    /// Checks a text as [`Settings::parse`] does, for the rule.
    ///
    /// # Errors
    /// The flaw, in words.
    pub(crate) fn check(text: &[u8]) -> std::result::Result<(), String> {
        Self::read_text(text).map(drop)
    }

    fn read_text(text: &[u8]) -> std::result::Result<Self, String> {
        // a list would be read as the fields in their order
        if text.trim_ascii_start().first() != Some(&b'{') {
            return Err("it is no JSON object".to_owned());
        }
        let settings: Self = serde_json::from_slice(text).map_err(|error| flaw(&error))?;
        let Self { owner, main_keys, identities, shared, .. } = settings.clone();
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

    /// Reads the settings in the file at a path. Without a file, the defaults hold.
    ///
    /// # Errors
    /// `Corrupt` at that path.
    pub(crate) fn read(path: &TreePath, file: Option<&File>) -> Result<Self> {
        let Some(file) = file else { return Ok(Self::default()) };
        let settings = file.read().and_then(Self::parse);
        settings.map_err(|error| {
            unreadable(path, error.message(), "correct it, or restore an earlier version (`garth restore`)")
        })
    }

    /// The time zone.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that the database of time zones has not.
    pub fn zone(&self) -> Result<Zone> {
        self.time_zone.as_deref().map_or(Ok(Zone::default()), Zone::named)
    }
}

/// Returns what is wrong with JSON of another form, with the nearest name to one that is not known.
fn flaw(error: &serde_json::Error) -> String {
    let said = error.to_string();
    // "unknown field `a`, expected one of `b`, `c` at line 1 column 2"
    let mut names = said.split('`').skip(1).step_by(2);
    let (Some((what, _)), Some(name)) = (said.split_once(", expected "), names.next()) else { return said };
    match nearest(name, names).filter(|_| said.starts_with("unknown ")) {
        Some(near) => {
            format!("{what}; did you mean `{near}`? (line {}, column {})", error.line(), error.column())
        }
        None => said,
    }
}

/// Reads a whole number, written as `60` or `6e1`: JSON tells them not apart.
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
    let bad = || D::Error::custom(format!("{number} is no whole number that fits here"));
    whole.and_then(|whole| N::try_from(whole).ok()).ok_or_else(bad)
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
    fn every_setting_that_can_be_made_is_read_again() {
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
    fn an_unknown_name_is_told_with_the_nearest() {
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
    fn what_cannot_be_set_is_refused() {
        for (bad, why) in [
            ("", "no JSON object"),
            ("[]", "no JSON object"),
            ("{", "EOF"),
            (r#"{"time_zone":"Mars"}"#, "Mars: is no time zone"),
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
