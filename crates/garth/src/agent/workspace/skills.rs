//! Stand-in until the skills arrive.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// x
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// x
    pub id: String,
    /// x
    #[serde(default)]
    pub os: Option<String>,
}
/// x
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillSetting {
    /// x
    pub enabled: Option<bool>,
}
pub(crate) struct Listing {
    pub(crate) shown: Vec<S>,
}
pub(crate) struct S {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) always: bool,
    pub(crate) read_path: String,
}
impl Listing {
    pub(crate) fn of(
        a: &[(String, Option<String>)],
        _b: &[(String, Option<String>)],
        _agent: &str,
        _h: &[Host],
        _s: &BTreeMap<String, SkillSetting>,
    ) -> Self {
        Self {
            shown: a
                .iter()
                .map(|(d, t)| S {
                    name: d.clone(),
                    description: t.clone().unwrap_or_default(),
                    always: false,
                    read_path: format!("skills/{d}/SKILL.md"),
                })
                .collect(),
        }
    }
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        BTreeMap::new()
    }
}
