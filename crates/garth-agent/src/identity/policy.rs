//! Access policy: the part of an agent's settings that defines its owner and its other users.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::session_key::{SessionKey, with_plain_capitals};
use crate::small_file::{File, read_all};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::path::{Name, TreePath, check_id};

/// Name of the settings file.
pub const SETTINGS: &str = "settings.json";

/// Limit on the bytes of the settings file.
pub(crate) const MAX_SETTINGS: usize = 1 << 20;

/// User of requests that name none.
pub const DEFAULT_USER: &str = "default";

/// Owner that makes every user an owner.
pub(super) const EVERY_USER: &str = "*";

/// Limit on the bytes of an audience id: that of a file name.
const MAX_AUDIENCE: usize = 255;

/// Limit on the entries of `identities` and of `shared`.
const MAX_ENTRIES: usize = 10_000;

/// Bytes of memory that an entry of the settings takes besides its text.
const ENTRY: usize = 80;

/// Copies of a shared path in what an identity has open: places, confinements and mounts.
const COPIES: usize = 16;

/// Access policy of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AccessPolicy {
    /// Owner, whose sessions are of the class `main`; `*` makes every user an owner. Without it, the user of
    /// requests that name none is the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Names of session keys `agent:{id}:{name}` that belong to the owner. Without it `main`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main_keys: Option<Vec<String>>,
    /// Users by the part of a session key after `agent:{id}:`, such as `whatsapp:dm:+4912345`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub identities: BTreeMap<String, String>,
    /// Further paths of the agent that sessions of the classes `dm` and `group` reach.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shared: BTreeMap<String, Sharing>,
}

/// Access of sessions of the classes `dm` and `group` to a path of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// Read.
    Read,
    /// Read and change.
    Write,
}

impl AccessPolicy {
    /// Parses the policy from the text of `settings.json`. Ignores its other fields.
    ///
    /// # Errors
    /// `InvalidArgument` if the text is not a JSON object, or a value is invalid.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let bad = |why: &str| Error::invalid(format!("settings.json: {why}; correct it"));
        // Serde would accept a list as the fields in their order.
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err(bad("not a JSON object"));
        }
        let policy: Self = serde_json::from_slice(text).map_err(|error| bad(&error.to_string()))?;
        policy.check().map_err(|error| bad(error.message()))?;
        Ok(policy)
    }

    /// Returns the policy from the content of the file; the default without it.
    ///
    /// # Errors
    /// `Corrupt` at the path of a file that cannot be read.
    pub(crate) fn of(path: &TreePath, file: Option<&File>) -> Result<Self> {
        // Only a missing file has defaults. A damaged one might name an owner, so access fails until it is
        // repaired.
        let Some(file) = file else { return Ok(Self::default()) };
        let damaged = |why: &str| Error::at(ErrorKind::Corrupt, path, why);
        let text = file.bytes.as_deref().filter(|text| text.len() <= MAX_SETTINGS);
        let text = text.ok_or_else(|| damaged(&format!("has more than {MAX_SETTINGS} bytes; shorten it")))?;
        Self::parse(text).map_err(|error| damaged(error.message()))
    }

    /// Checks the values.
    ///
    /// # Errors
    /// `InvalidArgument` for the first invalid value.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(owner) = self.owner.as_deref().filter(|owner| *owner != EVERY_USER) {
            check_user(owner).map_err(|error| Error::invalid(format!("\"owner\": {}", error.message())))?;
        }
        if self.identities.len() > MAX_ENTRIES || self.shared.len() > MAX_ENTRIES {
            return Err(Error::invalid(format!("identities and shared have at most {MAX_ENTRIES} entries")));
        }
        for (part, user) in &self.identities {
            check_user(user)
                .map_err(|error| Error::invalid(format!("identities: {part}: {}", error.message())))?;
            if part.starts_with("agent:") {
                let message = format!("identities: {part}: leave `agent:` and the agent's id out");
                return Err(Error::invalid(message));
            }
            let wrong = |_| {
                let form = "write what follows `agent:ID:` in a session key, such as whatsapp:dm:+4917000001";
                Error::invalid(format!("identities: {part}: not part of a session key; {form}"))
            };
            let key: SessionKey = format!("agent:x:{part}").parse().map_err(wrong)?;
            // Threads are removed from a key before it is looked up, so an entry with one would never match.
            if key.place() != with_plain_capitals(part) {
                return Err(Error::invalid(format!("identities: {part}: leave the thread out")));
            }
        }
        for path in self.shared.keys() {
            if path.split('/').any(|name| Name::parse(name).is_err()) {
                let message = format!("shared: {path}: write a path below the agent, such as kv/faq");
                return Err(Error::invalid(message));
            }
        }
        Ok(())
    }

    /// Returns about the bytes of memory that the policy takes, with what an identity has open because of it.
    pub(crate) fn bytes(&self) -> usize {
        let names = self.main_keys.iter().flatten().map(|name| ENTRY + name.len());
        let identities = self.identities.iter().map(|(part, user)| ENTRY + part.len() + user.len());
        let shared = self.shared.keys().map(|path| COPIES * (ENTRY + path.len()));
        names.chain(identities).chain(shared).sum()
    }

    /// Returns true for an owner of the agent.
    pub fn is_owner(&self, user: &str) -> bool {
        match self.owner.as_deref() {
            None => user == DEFAULT_USER,
            Some(EVERY_USER) => !is_reserved(user),
            Some(owner) => user == owner,
        }
    }

    /// Returns the only owner; `None` if every user is one.
    pub fn one_owner(&self) -> Option<&str> {
        match self.owner.as_deref() {
            None => Some(DEFAULT_USER),
            Some(EVERY_USER) => None,
            owner => owner,
        }
    }

    /// Returns true if keys of this name belong to the owner.
    pub(super) fn is_main_key(&self, name: &str) -> bool {
        match &self.main_keys {
            Some(names) => names.iter().any(|known| known == name),
            None => name == "main",
        }
    }

    /// Returns the user to whom a place of a session key belongs.
    pub(super) fn user_at(&self, place: &str) -> Option<&str> {
        let exact = self.identities.get(place);
        // Settings may contain the older spelling, with encoded capital letters.
        let older = || self.identities.iter().find(|(known, _)| with_plain_capitals(known) == place);
        exact.or_else(|| older().map(|(_, user)| user)).map(String::as_str)
    }
}

/// Returns the policy of an agent from its `settings.json` in an account; the default without the file.
///
/// # Errors
/// As [`AccessPolicy::of`]; from the filesystem.
pub(crate) async fn policy_of(fs: &dyn FileSystem, agent: &str) -> Result<AccessPolicy> {
    let path = TreePath::parse(&format!("/agents/{agent}/{SETTINGS}"))?;
    let file = read_all(fs, std::slice::from_ref(&path), MAX_SETTINGS).await?.pop().flatten();
    AccessPolicy::of(&path, file.as_ref())
}

/// Checks the id of a user that a request names.
///
/// # Errors
/// `InvalidArgument` for an invalid or reserved id.
pub(crate) fn check_user(user: &str) -> Result<()> {
    check_id("user", user)?;
    if is_reserved(user) {
        let message = format!(
            "{user}: users whose id begins with `:` are channels and chats; name the session key instead"
        );
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// Returns true for the id of an audience that is not a user.
pub(crate) fn is_reserved(user: &str) -> bool {
    user.starts_with(':')
}

/// Checks the id of an audience: that of a user, or up to 255 bytes with a leading `:`.
///
/// # Errors
/// `InvalidArgument` for an invalid id.
pub(crate) fn check_audience(audience: &str) -> Result<()> {
    if !is_reserved(audience) {
        return check_user(audience);
    }
    let is_name = audience.len() <= MAX_AUDIENCE && Name::parse(audience).is_ok();
    if is_name && !audience.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Error::invalid(format!("{audience}: is no audience; it has at most {MAX_AUDIENCE} bytes")))
}

/// Checks the id of a chat: a name, or the id of an audience.
///
/// # Errors
/// `InvalidArgument` for an invalid id.
pub(crate) fn check_chat(chat: &str) -> Result<()> {
    if is_reserved(chat) { check_audience(chat) } else { Ok(check_id("chat", chat)?) }
}
