//! Skills of an agent: its own first, then those of the account in directories of other names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::settings::SkillSetting;
use crate::workspace::reading::Reading;
use crate::workspace::skill_md::front_matter::SkillText;
use crate::workspace::skill_md::requires::{Host, KnownHosts, Lack};
use garth_engine::compute::go_on;

/// File that makes a directory a skill.
pub(super) const SKILL: &str = "SKILL.md";

/// Detail for a link.
pub(super) const NOT_FOLLOWED: &str = "links are not followed; put the files in its place";

/// Origin of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SkillOrigin")]
pub enum Origin {
    /// Skill of the agent itself.
    Agent,
    /// Shared by all agents of the account.
    Global,
}

impl Origin {
    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Global => "global",
        }
    }
}

/// Eligible skill.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
#[schemars(deny_unknown_fields)]
pub struct ListedSkill {
    /// Name.
    pub name: String,
    /// Name of the directory of the skill, by which it is read.
    pub directory: String,
    /// Purpose of the skill.
    pub description: String,
    /// Emoji that stands for the skill. Missing if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emoji: Option<String>,
    /// True if the skill is listed even with an invalid requirement.
    pub always: bool,
    /// Origin.
    pub origin: Origin,
    /// Path of `SKILL.md`, as the workspace shows it.
    pub read_path: String,
    /// Faults of `SKILL.md`, texts for people. The skill is listed nonetheless. Missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flaws: Vec<String>,
}

/// Omitted skill.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
#[schemars(rename = "OmittedSkill", deny_unknown_fields)]
pub struct LeftOut {
    /// Name.
    pub name: String,
    /// Name of the directory of the skill.
    pub directory: String,
    /// Origin.
    pub origin: Origin,
    /// Reason of the omission.
    pub reason: Reason,
    /// Details of the reason, a text for people; may be empty.
    pub detail: String,
}

/// Reason why a skill is omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SkillOmission")]
pub enum Reason {
    /// Disabled in the settings.
    Disabled,
    /// The agent has a skill in a directory of the same name.
    Hidden,
    /// It has an invalid requirement.
    Invalid,
    /// No host meets its requirements.
    Requirements,
    /// It is not UTF-8 or too long, or its front matter is rejected.
    Unreadable,
    /// The directory, or its `SKILL.md`, is a link.
    Linked,
    /// The directory has no file `SKILL.md`, and is not empty.
    Missing,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disabled => "disabled by the settings",
            Self::Hidden => "hidden by the agent's own",
            Self::Invalid => "with an invalid requirement",
            Self::Requirements => "whose requirements no host meets",
            Self::Unreadable => "that cannot be read",
            Self::Linked => "that is a link or no file",
            Self::Missing => "without a SKILL.md",
        })
    }
}

/// `SKILL.md` of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SkillSource {
    /// Its text.
    Text(String),
    /// Reason why it is unreadable: not UTF-8, or too long.
    Unreadable(String),
    /// The directory or the file is a link.
    Linked,
    /// Sentence about the content of a directory without such a file.
    Missing(String),
}

impl SkillSource {
    /// Returns true if it is a file of its own. A directory without one hides nothing.
    fn is_file(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Unreadable(_))
    }
}

/// Reader of skills for a listing.
pub(crate) struct SkillReader<'a> {
    pub(crate) reading: Reading,
    /// Parses a text; the body is not needed.
    pub(crate) parse: &'a dyn Fn(&str) -> Arc<SkillText>,
    /// Returns the path to read a skill by.
    pub(crate) read_path: &'a dyn Fn(Origin, &str) -> String,
}

/// Skills of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
#[schemars(rename = "SkillListing", deny_unknown_fields)]
pub struct Listing {
    /// Eligible skills.
    pub shown: Vec<ListedSkill>,
    /// Other skills, each with the reason.
    pub left_out: Vec<LeftOut>,
}

impl Listing {
    /// Returns the directory of the skill that has a name, if there is one.
    pub(super) fn directory_of(&self, name: &str) -> Option<&str> {
        let shown = self.shown.iter().map(|skill| (&skill.name, &skill.directory));
        let left_out = self.left_out.iter().map(|skill| (&skill.name, &skill.directory));
        shown.chain(left_out).find(|(own, _)| *own == name).map(|(_, directory)| directory.as_str())
    }

    /// Returns the description of a directory without a `SKILL.md`.
    pub(super) fn missing(&self, directory: &str) -> Option<&str> {
        let is_it = |skill: &&LeftOut| skill.reason == Reason::Missing && skill.directory == directory;
        self.left_out.iter().find(is_it).map(|skill| skill.detail.as_str())
    }

    /// Returns the skills of the agent and the account, given as directories with their `SKILL.md`.
    pub(crate) fn of(
        own: &[(String, SkillSource)],
        global: &[(String, SkillSource)],
        hosts: &[Host],
        settings: &BTreeMap<String, SkillSetting>,
        read: &SkillReader<'_>,
    ) -> Self {
        let hosts = &KnownHosts::of(hosts);
        // A link is not followed, so it does not hide a skill of the account.
        let own_files = own.iter().filter(|(_, source)| source.is_file());
        let names: BTreeSet<&str> = own_files.map(|(directory, _)| &**directory).collect();
        let own = own.iter().map(|(directory, source)| (Origin::Agent, directory, source));
        let global = global.iter().map(|(directory, source)| (Origin::Global, directory, source));
        let mut listing = Self::default();
        for (origin, directory, source) in own.chain(global) {
            // The caller of the listing checks again, and fails then.
            if go_on().is_err() {
                break;
            }
            let skill = match source {
                SkillSource::Text(text) => Some((read.parse)(text)),
                SkillSource::Linked | SkillSource::Missing(_) if read.reading == Reading::First => continue,
                SkillSource::Unreadable(_) | SkillSource::Linked | SkillSource::Missing(_) => None,
            };
            let name = skill.as_ref().and_then(|skill| skill.name.as_ref()).unwrap_or(directory).clone();
            let is_hidden = origin == Origin::Global && names.contains(directory.as_str());
            let judged = match (skill.as_deref(), source) {
                _ if is_hidden => Err((Reason::Hidden, String::new())),
                (Some(skill), _) => judge(directory, skill, hosts, settings),
                (None, SkillSource::Missing(why)) => Err((Reason::Missing, why.clone())),
                (None, SkillSource::Unreadable(why)) => Err((Reason::Unreadable, why.clone())),
                (None, _) => Err((Reason::Linked, NOT_FOLLOWED.to_owned())),
            };
            match (judged, skill) {
                (Ok(always), Some(skill)) => listing.shown.push(ListedSkill {
                    name,
                    directory: directory.clone(),
                    description: skill.description.clone(),
                    emoji: skill.emoji.clone(),
                    always,
                    origin,
                    read_path: (read.read_path)(origin, directory),
                    flaws: skill.all_flaws().cloned().collect(),
                }),
                (Ok(_), None) => {}
                (Err((reason, detail)), _) => {
                    let directory = directory.clone();
                    listing.left_out.push(LeftOut { name, directory, origin, reason, detail });
                }
            }
        }
        listing
    }

    /// Returns the number of omitted skills for each reason.
    pub fn counts(&self) -> BTreeMap<Reason, usize> {
        let mut counts = BTreeMap::new();
        for one in &self.left_out {
            *counts.entry(one.reason).or_default() += 1;
        }
        counts
    }
}

/// Returns whether an eligible skill is `always`; otherwise the reason why it is not eligible.
pub(super) fn judge(
    directory: &str,
    skill: &SkillText,
    hosts: &KnownHosts<'_>,
    settings: &BTreeMap<String, SkillSetting>,
) -> Result<bool, (Reason, String)> {
    if let Some(why) = &skill.refused {
        return Err((Reason::Unreadable, why.clone()));
    }
    let by_name = || settings.get(skill.name.as_deref()?);
    let setting = settings.get(directory).or_else(by_name);
    if setting.is_some_and(|setting| setting.enabled == Some(false)) {
        return Err((Reason::Disabled, String::new()));
    }
    let always = setting.and_then(|setting| setting.always).unwrap_or(skill.always);
    let requires = match setting.and_then(|setting| setting.requires.as_ref()) {
        Some(setting) => skill.requires.clone().with(setting),
        None => skill.requires.clone(),
    };
    requires.judge(always, hosts).map(|()| always).map_err(|lack| match lack {
        Lack::Invalid(why) => (Reason::Invalid, why),
        Lack::Unmet(why) => (Reason::Requirements, why),
    })
}

/// Returns the path in the account of the text of a skill.
pub(crate) fn skill_file(origin: Origin, agent: &str, directory: &str) -> String {
    match origin {
        Origin::Agent => format!("/agents/{agent}/skills/{directory}/{SKILL}"),
        Origin::Global => format!("/skills/{directory}/{SKILL}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skills(of: &[(&str, &str)]) -> Vec<(String, SkillSource)> {
        let text = |text: &str| SkillSource::Text(text.to_owned());
        of.iter().map(|(directory, said)| ((*directory).to_owned(), text(said))).collect()
    }

    /// Lists skills without a host, by settings.
    fn list(
        own: &[(String, SkillSource)],
        global: &[(String, SkillSource)],
        settings: &BTreeMap<String, SkillSetting>,
    ) -> Listing {
        list_as(own, global, settings, Reading::Now)
    }

    fn list_as(
        own: &[(String, SkillSource)],
        global: &[(String, SkillSource)],
        settings: &BTreeMap<String, SkillSetting>,
        reading: Reading,
    ) -> Listing {
        let parse = |text: &str| Arc::new(SkillText::parse_as(text, reading));
        let read_path = |origin, directory: &str| skill_file(origin, "a", directory);
        Listing::of(
            own,
            global,
            &[],
            settings,
            &SkillReader { reading, parse: &parse, read_path: &read_path },
        )
    }

    fn listed(listing: &Listing) -> Vec<(&str, &str)> {
        listing.shown.iter().map(|skill| (skill.name.as_str(), skill.read_path.as_str())).collect()
    }

    fn none() -> BTreeMap<String, SkillSetting> {
        BTreeMap::new()
    }

    #[test]
    fn the_agents_come_first_and_hide_global_ones_of_the_same_directory() {
        let own = skills(&[("pdf", "own"), ("z", "---\nname: mail\n---\nz")]);
        let global = skills(&[("mail", "global"), ("pdf", "---\nname: other\n---\nglobal")]);
        let listing = list(&own, &global, &none());
        // Directories count, not names: two skills may have one `name`.
        let due = [
            ("pdf", "/agents/a/skills/pdf/SKILL.md"),
            ("mail", "/agents/a/skills/z/SKILL.md"),
            ("mail", "/skills/mail/SKILL.md"),
        ];
        assert_eq!(listed(&listing), due);
        assert_eq!(listing.shown[0].description, "own");
        assert_eq!(listing.counts(), BTreeMap::from([(Reason::Hidden, 1)]));
    }

    #[test]
    fn settings_hide_a_skill_or_change_it_by_its_name_or_directory() {
        let text = "---\nname: PDF\nmetadata: {gsv: {requires: {bins: [pdftotext]}}}\n---\n";
        let own = skills(&[("pdf", text)]);
        let of = |key: &str, json: &str| {
            let settings = BTreeMap::from([(key.to_owned(), serde_json::from_str(json).unwrap())]);
            list(&own, &[], &settings)
        };
        assert_eq!(of("other", "{}").left_out[0].reason, Reason::Requirements);
        for key in ["pdf", "PDF"] {
            assert_eq!(of(key, r#"{"enabled": false}"#).left_out[0].reason, Reason::Disabled);
            assert_eq!(of(key, r#"{"requires": {"bins": []}}"#).shown.len(), 1);
        }
        assert!(serde_json::from_str::<SkillSetting>(r#"{"enable": false}"#).is_err());
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_counted() {
        let own = vec![("a".to_owned(), SkillSource::Unreadable("is not UTF-8".to_owned()))];
        let listing = list(&own, &skills(&[("b", "x")]), &none());
        assert_eq!((listing.shown.len(), listing.left_out[0].reason), (1, Reason::Unreadable));
        assert_eq!(listing.left_out[0].detail, "is not UTF-8");
    }

    #[test]
    fn a_skill_with_refused_front_matter_is_left_out_alone() {
        let own = skills(&[("bad", "---\nname: &n x\n---\nb"), ("good", "---\nname: mail\n---\nb")]);
        let listing = list(&own, &[], &none());
        assert_eq!(listed(&listing), [("mail", "/agents/a/skills/good/SKILL.md")]);
        let left_out = &listing.left_out[0];
        assert_eq!((left_out.directory.as_str(), left_out.reason), ("bad", Reason::Unreadable));
        assert!(left_out.detail.contains("alias"), "{}", left_out.detail);
    }

    #[test]
    fn a_link_is_named_as_skipped_and_hides_nothing() {
        let global = skills(&[("pdf", "global")]);
        for (source, reason) in [
            (SkillSource::Linked, Reason::Linked),
            (SkillSource::Missing("has no SKILL.md".to_owned()), Reason::Missing),
        ] {
            let own = vec![("pdf".to_owned(), source)];
            let listing = list(&own, &global, &none());
            assert_eq!(listed(&listing), [("pdf", "/skills/pdf/SKILL.md")]);
            assert_eq!((listing.left_out[0].reason, listing.left_out.len()), (reason, 1));
            let first = list_as(&own, &global, &none(), Reading::First);
            assert_eq!((listed(&first), first.left_out.len()), (listed(&listing), 0));
        }
    }

    #[test]
    fn what_is_wrong_is_told_of_skills_that_are_listed_and_left_out() {
        let broken = "description: Use when: asked";
        let text = format!("---\n{broken}\nmetadata: {{\n---\nb");
        let own = skills(&[("lost", &text), ("plain", &format!("---\n{broken}\n---\nb"))]);
        let listing = list(&own, &[], &none());
        let (shown, left_out) = (&listing.shown[0], &listing.left_out[0]);
        assert_eq!((shown.directory.as_str(), shown.description.as_str()), ("plain", "Use when: asked"));
        assert!(shown.flaws[0].contains("no YAML"), "{:?}", shown.flaws);
        assert_eq!((left_out.directory.as_str(), left_out.reason), ("lost", Reason::Invalid));
        assert!(left_out.detail.contains("not known"), "{}", left_out.detail);
    }

    #[test]
    fn always_may_be_set_and_is_told() {
        let own =
            skills(&[("a", "---\nalways: true\nmetadata: {gsv: {requires: {bins: x}}}\n---\n"), ("b", "b")]);
        let settings =
            BTreeMap::from([("b".to_owned(), serde_json::from_str(r#"{"always": true}"#).unwrap())]);
        let listing = list(&own, &[], &settings);
        assert!(listing.shown.iter().all(|skill| skill.always) && listing.shown.len() == 2);
        let never = BTreeMap::from([("a".to_owned(), serde_json::from_str(r#"{"always": false}"#).unwrap())]);
        assert_eq!(list(&own, &[], &never).left_out[0].reason, Reason::Invalid);
    }
}
