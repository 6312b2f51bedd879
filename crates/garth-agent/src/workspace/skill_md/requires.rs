//! Requirements of a skill on the hosts of the agent's tools, and the check if a host meets them.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::settings::RequiresSetting;
use garth_engine::compute::working;
use garth_engine::error::{Error, Result as EngineResult};

/// Limit on the hosts that a caller describes.
pub(crate) const MAX_HOSTS: usize = 64;

/// Limit on the hosts, and on the missing names of one host, in a reason.
const MAX_TOLD: usize = 8;

/// Roles of hosts.
const ROLES: [&str; 2] = ["execution", "specialized"];

/// Capabilities of hosts.
const CAPABILITIES: [&str; 6] = [
    "filesystem.list",
    "filesystem.read",
    "filesystem.write",
    "filesystem.edit",
    "text.search",
    "shell.exec",
];

/// Host requirements. One entry of `any_bins`, `os`, `host_roles` and `any_capabilities` each is enough; all
/// entries of the others are needed. A list that is missing requires nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
#[schemars(rename = "SkillRequirements", deny_unknown_fields)]
pub struct Requires {
    /// Programs that the skill needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<String>,
    /// Programs of which one is enough.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub any_bins: Vec<String>,
    /// Names of environment variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Names of settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<String>,
    /// Operating systems; case does not matter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub os: Vec<String>,
    /// Roles of hosts: `execution` or `specialized`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host_roles: Vec<String>,
    /// Capabilities of hosts, such as `shell.exec`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Capabilities of which one is enough.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub any_capabilities: Vec<String>,
    /// Invalid requirements. With any of them the skill is not eligible, unless it is `always`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<String>,
}

/// Way to install a program that a skill needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
#[schemars(rename = "SkillInstaller", deny_unknown_fields)]
pub struct Install {
    /// Name of the way to install.
    pub id: String,
    /// Kind of installer.
    pub kind: InstallKind,
    /// Label for people. Missing if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Programs that are installed. Missing if none are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<String>,
    /// Formula, for `brew`. Missing for the other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// Package, for the other kinds. Missing for `brew`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
}

/// Kind of installer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SkillInstallerKind")]
pub enum InstallKind {
    /// Homebrew.
    Brew,
    /// Debian's packages.
    Apt,
    /// Package manager of Node.js.
    Node,
    /// `go install`.
    Go,
    /// `uv`, for Python.
    Uv,
    /// File that is downloaded.
    Download,
}

/// Host on which the agent's tools run, as described by a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
#[schemars(rename = "ToolHost")]
pub struct Host {
    /// Name of the host.
    pub id: String,
    /// Operating system, such as `linux`. Missing if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// Role: `execution` or `specialized`. Missing if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Capabilities of the host, such as `shell.exec`. Missing if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Installed programs. Missing if none are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<String>,
    /// Names of the environment variables of the host. Missing if none are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Names of the settings of the host. Missing if none are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<String>,
}

impl Host {
    /// Returns a host with this name.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// Sets the operating system.
    #[must_use]
    pub fn os(self, os: impl Into<String>) -> Self {
        Self { os: Some(os.into()), ..self }
    }

    /// Sets the role.
    #[must_use]
    pub fn role(self, role: impl Into<String>) -> Self {
        Self { role: Some(role.into()), ..self }
    }

    /// Sets the abilities.
    #[must_use]
    pub fn capabilities(self, capabilities: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { capabilities: capabilities.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the programs.
    #[must_use]
    pub fn bins(self, bins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { bins: bins.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the names of environment variables.
    #[must_use]
    pub fn env(self, env: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { env: env.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the names of settings.
    #[must_use]
    pub fn config(self, config: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { config: config.into_iter().map(Into::into).collect(), ..self }
    }
}

impl Requires {
    /// Reads `requires` of the front matter.
    ///
    /// Flaws are collected in `invalid` and not returned as an error: settings can still replace the list
    /// that has one, and the rest of the skill stays readable.
    pub(crate) fn read(value: Value) -> Self {
        let mut requires = Self::default();
        let fields = match value {
            Value::Null => return requires,
            Value::Object(fields) => fields,
            _ => {
                requires.invalid.push("requires: write an object".to_owned());
                return requires;
            }
        };
        for (name, value) in fields {
            let Some(list) = requires.list(&name) else {
                requires.invalid.push(format!("requires.{name}: is not known"));
                continue;
            };
            match texts(value) {
                Some(texts) => *list = texts,
                None => requires.invalid.push(format!("requires.{name}: write a list of texts")),
            }
        }
        requires.check();
        requires
    }

    fn list(&mut self, name: &str) -> Option<&mut Vec<String>> {
        Some(match name {
            "bins" => &mut self.bins,
            "anyBins" => &mut self.any_bins,
            "env" => &mut self.env,
            "config" => &mut self.config,
            "os" => &mut self.os,
            "hostRoles" => &mut self.host_roles,
            "capabilities" => &mut self.capabilities,
            "anyCapabilities" => &mut self.any_capabilities,
            _ => return None,
        })
    }

    /// Adds a flaw for each unknown role and capability.
    fn check(&mut self) {
        let unknown = |name: &str, given: &[String], known: &[&str]| -> Vec<String> {
            let unknown = given.iter().filter(|one| !known.contains(&one.as_str()));
            unknown.map(|one| format!("requires.{name}: {one} is none of {}", known.join(", "))).collect()
        };
        let roles = unknown("hostRoles", &self.host_roles, &ROLES);
        let all = unknown("capabilities", &self.capabilities, &CAPABILITIES);
        let any = unknown("anyCapabilities", &self.any_capabilities, &CAPABILITIES);
        self.invalid.extend(roles.into_iter().chain(all).chain(any));
    }

    /// Replaces the lists that the settings give.
    pub(crate) fn with(mut self, setting: &RequiresSetting) -> Self {
        let RequiresSetting { bins, any_bins, env, config, os, host_roles, capabilities, any_capabilities } =
            setting;
        // `check` below adds them again, for the lists that apply then.
        self.invalid.retain(|flaw| !flaw.contains(" is none of "));
        for (name, list) in [
            ("bins", bins),
            ("anyBins", any_bins),
            ("env", env),
            ("config", config),
            ("os", os),
            ("hostRoles", host_roles),
            ("capabilities", capabilities),
            ("anyCapabilities", any_capabilities),
        ] {
            if let (Some(list), Some(own)) = (list, self.list(name)) {
                own.clone_from(list);
                // A list that was invalid in the skill, such as a text in its place, no longer counts.
                let about = format!("requires.{name}:");
                self.invalid.retain(|flaw| !flaw.starts_with(&about));
            }
        }
        self.check();
        self
    }

    /// Returns true if there are no requirements, and no flaws.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns what a host lacks, in words; empty if it meets all requirements.
    fn lacks(&self, known: &KnownHost<'_>) -> Vec<String> {
        let mut lacks = Vec::new();
        let mut all = |what: &str, wanted: &[String], has: &HashSet<&str>| {
            let missing = wanted.iter().map(String::as_str).filter(|one| !has.contains(one));
            let missing: Vec<&str> = missing.collect();
            if !missing.is_empty() {
                lacks.push(format!("{what} {}", told(&missing, ", ")));
            }
        };
        all("bins", &self.bins, &known.bins);
        all("env", &self.env, &known.env);
        all("config", &self.config, &known.config);
        all("capabilities", &self.capabilities, &known.capabilities);
        let mut any = |what: &str, wanted: &[String], has: bool| {
            if !wanted.is_empty() && !has {
                let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
                lacks.push(format!("{what} {}", told(&wanted, " or ")));
            }
        };
        let has = |wanted: &[String], own: &HashSet<&str>| wanted.iter().any(|one| own.contains(&**one));
        any("bins", &self.any_bins, has(&self.any_bins, &known.bins));
        any("capabilities", &self.any_capabilities, has(&self.any_capabilities, &known.capabilities));
        // Hosts report `Linux` as well as `linux`.
        let os = known.host.os.as_deref().map(str::to_lowercase).unwrap_or_default();
        any("os", &self.os, self.os.iter().any(|one| one.to_lowercase() == os));
        let role = known.host.role.as_deref().unwrap_or_default();
        any("role", &self.host_roles, self.host_roles.iter().any(|one| one == role));
        lacks
    }

    /// Returns the bytes of all names.
    fn bytes(&self) -> usize {
        let lists = [
            &self.bins,
            &self.any_bins,
            &self.env,
            &self.config,
            &self.os,
            &self.host_roles,
            &self.capabilities,
            &self.any_capabilities,
        ];
        lists.into_iter().flatten().map(String::len).sum()
    }

    /// Checks that a skill with these requirements is eligible.
    pub(crate) fn judge(&self, always: bool, hosts: &KnownHosts<'_>) -> Result<(), Lack> {
        // A flaw hides the skill: the requirement that could not be read might not be met. `always` excuses
        // the flaw, but none of the requirements that were read.
        if !self.invalid.is_empty() && !always {
            return Err(Lack::Invalid(self.invalid.join("; ")));
        }
        // No host has to be known for a skill that requires nothing.
        if (Self { invalid: Vec::new(), ..self.clone() }).is_none() {
            return Ok(());
        }
        // One host has to meet all: two that have a half each cannot run the skill.
        let bytes = self.bytes();
        let mut all = Vec::new();
        for known in &hosts.0 {
            working(bytes);
            let lacks = self.lacks(known);
            if lacks.is_empty() {
                return Ok(());
            }
            if all.len() < MAX_TOLD {
                all.push(format!("{} lacks {}", known.host.id, lacks.join(", ")));
            }
        }
        if hosts.0.len() > all.len() {
            all.push(format!("{} more hosts lack something", hosts.0.len() - all.len()));
        }
        let why = all.join("; ");
        Err(Lack::Unmet(if why.is_empty() { "no host is known".to_owned() } else { why }))
    }
}

/// Hosts, each with its names as sets.
pub(crate) struct KnownHosts<'a>(Vec<KnownHost<'a>>);

struct KnownHost<'a> {
    host: &'a Host,
    bins: HashSet<&'a str>,
    env: HashSet<&'a str>,
    config: HashSet<&'a str>,
    capabilities: HashSet<&'a str>,
}

impl<'a> KnownHosts<'a> {
    /// Takes the hosts that a caller describes.
    pub(crate) fn of(hosts: &'a [Host]) -> Self {
        let set = |names: &'a [String]| names.iter().map(String::as_str).collect();
        let known = hosts.iter().map(|host| KnownHost {
            host,
            bins: set(&host.bins),
            env: set(&host.env),
            config: set(&host.config),
            capabilities: set(&host.capabilities),
        });
        Self(known.collect())
    }
}

/// Checks the number of hosts that a caller describes.
///
/// # Errors
/// `InvalidArgument` for more than [`MAX_HOSTS`].
pub(crate) fn check_hosts(hosts: &[Host]) -> EngineResult<()> {
    if hosts.len() > MAX_HOSTS {
        return Err(Error::invalid(format!("at most {MAX_HOSTS} hosts are described")));
    }
    Ok(())
}

/// Returns the first of some names, and the number of the others.
fn told(names: &[&str], between: &str) -> String {
    match names.len().checked_sub(MAX_TOLD) {
        None | Some(0) => names.join(between),
        Some(more) => format!("{}{between}{more} more", names[..MAX_TOLD].join(between)),
    }
}

/// Reason why a skill is not eligible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    Invalid(String),
    Unmet(String),
}

/// Returns a list of texts that are not blank. Null counts as an empty list: it is what YAML makes of `bins:`
/// with nothing after it.
fn texts(value: Value) -> Option<Vec<String>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => items
            .into_iter()
            .map(|item| match item {
                Value::String(text) if !text.trim().is_empty() => Some(text),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn host() -> Host {
        serde_json::from_value(json!({
            "id": "a", "os": "Linux", "role": "execution", "capabilities": ["shell.exec", "filesystem.read"],
            "bins": ["git", "jq"], "env": ["TOKEN"], "config": ["mail"],
        }))
        .unwrap()
    }

    fn fits(requires: Value, hosts: &[Host]) -> bool {
        Requires::read(requires).judge(false, &KnownHosts::of(hosts)).is_ok()
    }

    #[test]
    fn bins_env_config_and_capabilities_mean_all_of() {
        for (name, good, bad) in [
            ("bins", json!(["git", "jq"]), json!(["git", "rg"])),
            ("env", json!(["TOKEN"]), json!(["TOKEN", "OTHER"])),
            ("config", json!(["mail"]), json!(["mail", "sms"])),
            ("capabilities", json!(["shell.exec", "filesystem.read"]), json!(["shell.exec", "text.search"])),
        ] {
            assert!(fits(json!({name: good}), &[host()]) && !fits(json!({name: bad}), &[host()]), "{name}");
        }
    }

    #[test]
    fn any_bins_os_host_roles_and_any_capabilities_mean_one_of() {
        for (name, good, bad) in [
            ("anyBins", json!(["rg", "git"]), json!(["rg"])),
            ("os", json!(["darwin", "LINUX"]), json!(["darwin"])),
            ("hostRoles", json!(["specialized", "execution"]), json!(["specialized"])),
            ("anyCapabilities", json!(["text.search", "shell.exec"]), json!(["text.search"])),
        ] {
            assert!(fits(json!({name: good}), &[host()]) && !fits(json!({name: bad}), &[host()]), "{name}");
        }
    }

    #[test]
    fn one_host_meets_all_of_them() {
        let [mut git, mut jq] = [host(), host()];
        (git.bins, jq.bins) = (vec!["git".into()], vec!["jq".into()]);
        let both = json!({"bins": ["git", "jq"]});
        assert!(!fits(both.clone(), &[git.clone(), jq.clone()]));
        assert!(fits(both, &[git, jq, host()]));
    }

    #[test]
    fn with_no_host_known_only_what_needs_nothing_is_eligible() {
        assert!(fits(json!({}), &[]) && fits(json!(null), &[]) && fits(json!({"bins": []}), &[]));
        assert!(!fits(json!({"bins": ["git"]}), &[]) && !fits(json!({"env": ["TOKEN"]}), &[]));
    }

    #[test]
    fn an_invalid_requirement_makes_not_eligible_unless_always() {
        for bad in [
            json!([]),
            json!({"bins": "git"}),
            json!({"bins": [7]}),
            json!({"bins": [""]}),
            json!({"hostRoles": ["boss"]}),
            json!({"capabilities": ["fly"]}),
            json!({"anyCapabilities": ["shell.exec", "fly"]}),
            json!({"anyEnv": ["TOKEN"]}),
        ] {
            let requires = Requires::read(bad.clone());
            assert!(
                matches!(requires.judge(false, &KnownHosts::of(&[host()])), Err(Lack::Invalid(_))),
                "{bad}"
            );
        }
        let requires = Requires::read(json!({"bins": "git"}));
        assert!(requires.judge(true, &KnownHosts::of(&[])).is_ok());
        let and_more = Requires::read(json!({"bins": "git", "env": ["OTHER"]}));
        assert!(matches!(and_more.judge(true, &KnownHosts::of(&[host()])), Err(Lack::Unmet(_))));
    }

    #[test]
    fn what_hosts_lack_is_told_in_a_few_words() {
        let names: Vec<String> = (0..2_000).map(|number| format!("b{number}")).collect();
        let hosts: Vec<Host> = (0..MAX_HOSTS).map(|number| Host::new(format!("h{number}"))).collect();
        let known = KnownHosts::of(&hosts);
        let lack = Requires::read(json!({"bins": names})).judge(false, &known).unwrap_err();
        let Lack::Unmet(why) = lack else { panic!("{lack:?}") };
        assert!(
            why.len() < 1_000
                && why.contains("b7, 1992 more")
                && why.ends_with("56 more hosts lack something")
        );
        assert!(check_hosts(&vec![host(); MAX_HOSTS + 1]).is_err());
    }

    #[test]
    fn settings_override_each_requirement() {
        let requires = Requires::read(json!({"bins": ["rg"], "env": ["TOKEN"], "hostRoles": ["boss"]}));
        let setting = |value: Value| serde_json::from_value::<RequiresSetting>(value).unwrap();
        let with = requires.clone().with(&setting(json!({"bins": ["git"], "hostRoles": ["execution"]})));
        assert_eq!(
            (with.bins.as_slice(), with.env.as_slice()),
            (["git".to_owned()].as_slice(), ["TOKEN".to_owned()].as_slice())
        );
        assert!(with.judge(false, &KnownHosts::of(&[host()])).is_ok());
        let still = requires.with(&setting(json!({"bins": []})));
        assert!(still.judge(false, &KnownHosts::of(&[host()])).is_err(), "the role is still bad");
    }
}
