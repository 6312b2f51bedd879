//! URI of a memory, and the directory that it identifies.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::identity::check_audience;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::path::{TreePath, check_id};

/// Categories of every account. `profile` is a single memory; in the others each memory has a slug.
pub const CATEGORIES: [&str; 8] =
    ["profile", "preferences", "entities", "events", "cases", "patterns", "skills", "notes"];

/// Category without slugs.
const SINGLETON: &str = "profile";

/// Category of an agent's skills.
const SKILLS: &str = "skills";

/// Limit on the bytes of a category or slug.
const MAX_SLUG: usize = 128;

/// Owner of a memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// User.
    User(String),
    /// Agent.
    Agent(String),
}

impl fmt::Display for Space {
    /// Writes the form of `owner_space` in `.meta.json`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(id) => write!(f, "user:{id}"),
            Self::Agent(id) => write!(f, "agent:{id}"),
        }
    }
}

/// Part of a URI within the space of the owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Memory.
    Memory {
        /// Category.
        category: String,
        /// Name within the category; `None` for `profile`.
        slug: Option<String>,
    },
    /// Skill of an agent.
    Skill(String),
}

/// URI of a memory.
///
/// `ctx://{account}/{users|agents}/{id}/memories/{category}[/{slug}]` or
/// `ctx://{account}/agents/{agent}/skills/{name}`. In an id, a byte other than `[A-Za-z0-9._~-]` is written
/// as `%` and two upper-case hexadecimal digits. A category or slug has 1 to 128 bytes of `[A-Za-z0-9._~-]`
/// and is neither `.` nor `..`. A memory has one URI: any other spelling of it is rejected.
///
/// ```
/// use garth::memory::Uri;
///
/// let uri: Uri = "ctx://default/users/alice/memories/preferences/coffee".parse()?;
/// assert_eq!(uri.dir().as_str(), "/users/alice/memories/preferences/coffee");
/// # Ok::<(), garth::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uri {
    account: String,
    space: Space,
    place: Place,
}

impl Serialize for Uri {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uri {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Uri {
    /// Returns the memory in a directory of an account; `None` for any other directory.
    pub fn of_dir(account: &str, dir: &TreePath) -> Option<Self> {
        let segments: Vec<&str> = dir.segments().collect();
        let (space, place) = match *segments.as_slice() {
            ["users", id, "memories", ref rest @ ..] => (Space::User(id.to_owned()), memory(rest)?),
            ["agents", id, "memories", ref rest @ ..] => (Space::Agent(id.to_owned()), memory(rest)?),
            ["agents", id, "skills", name] => (Space::Agent(id.to_owned()), Place::Skill(name.to_owned())),
            _ => return None,
        };
        Some(Self { account: account.to_owned(), space, place })
    }

    /// Returns the URI of a memory. Category and slug must be valid.
    pub(super) fn memory(account: &str, space: Space, category: &str, slug: Option<String>) -> Self {
        let place = Place::Memory { category: category.to_owned(), slug };
        Self { account: account.to_owned(), space, place }
    }

    /// Returns the account.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// Returns the owner.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the part within the space of the owner.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the category; for a skill `skills`.
    pub fn category(&self) -> &str {
        match &self.place {
            Place::Memory { category, .. } => category,
            Place::Skill(_) => SKILLS,
        }
    }

    /// Returns true for a skill.
    pub fn is_skill(&self) -> bool {
        matches!(self.place, Place::Skill(_))
    }

    /// Returns its directory in the account's tree.
    pub fn dir(&self) -> TreePath {
        let (kind, id) = match &self.space {
            Space::User(id) => ("users", id),
            Space::Agent(id) => ("agents", id),
        };
        let below: &[&str] = match &self.place {
            Place::Memory { category, slug: None } => &["memories", category],
            Place::Memory { category, slug: Some(slug) } => &["memories", category, slug],
            Place::Skill(name) => &[SKILLS, name],
        };
        let top = TreePath::root();
        [kind, id].iter().chain(below).fold(top, |dir, name| TreePath::from_row(dir.key(), name))
    }

    /// Returns the path of a file in its directory.
    pub fn file(&self, name: &str) -> TreePath {
        name.split('/').fold(self.dir(), |dir, name| TreePath::from_row(dir.key(), name))
    }

    /// Rejects the URI of another account, even if the memory exists there.
    ///
    /// # Errors
    /// `AccessDenied`.
    #[doc(hidden)]
    pub fn check_account(&self, account: &str) -> Result<()> {
        if self.account == account {
            return Ok(());
        }
        let message = format!("{self}: belongs to another account; this one is {account}");
        Err(Error::new(ErrorKind::AccessDenied, message))
    }
}

/// Parses a path below `memories`.
fn memory(rest: &[&str]) -> Option<Place> {
    let (category, slug) = match *rest {
        [category] if category == SINGLETON => (category, None),
        [category, slug] if category != SINGLETON && is_slug(slug) => (category, Some(slug.to_owned())),
        _ => return None,
    };
    is_slug(category).then(|| Place::Memory { category: category.to_owned(), slug })
}

fn is_slug(text: &str) -> bool {
    (1..=MAX_SLUG).contains(&text.len()) && text.bytes().all(is_unreserved) && text != "." && text != ".."
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._~-".contains(&byte)
}

/// Returns an id as a segment of a URI.
pub(super) fn encoded(id: &str) -> String {
    id.bytes().fold(String::new(), |mut text, byte| {
        match is_unreserved(byte) {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
        text
    })
}

/// Returns the id of a segment of a URI; `None` for any other spelling of an id.
pub(super) fn decoded(part: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), part.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => byte,
        });
    }
    // Each id has one spelling. Otherwise one memory would have several URIs.
    String::from_utf8(bytes).ok().filter(|id| encoded(id) == part)
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, id) = match &self.space {
            Space::User(id) => ("users", id),
            Space::Agent(id) => ("agents", id),
        };
        write!(f, "ctx://{}/{kind}/{}/", encoded(&self.account), encoded(id))?;
        match &self.place {
            Place::Memory { category, slug: None } => write!(f, "memories/{category}"),
            Place::Memory { category, slug: Some(slug) } => write!(f, "memories/{category}/{slug}"),
            Place::Skill(name) => write!(f, "{SKILLS}/{}", encoded(name)),
        }
    }
}

impl FromStr for Uri {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |why: String| {
            let message =
                format!("{text}: {why}; a memory is ctx://ACCOUNT/users/USER/memories/CATEGORY/SLUG");
            Error::invalid(message)
        };
        let rest = text.strip_prefix("ctx://").ok_or_else(|| bad("not a memory URI".to_owned()))?;
        let parts: Vec<&str> = rest.split('/').collect();
        let id = |what: &str, part: &str| -> Result<String> {
            let id = decoded(part).ok_or_else(|| {
                bad(format!(
                    "the {what} is not in canonical form: use plain characters, or %XX in upper case"
                ))
            })?;
            check_id(what, &id)?;
            Ok(id)
        };
        let [account, kind, owner, below @ ..] = parts.as_slice() else {
            return Err(bad("has too few parts".to_owned()));
        };
        let account = id("account", account)?;
        let space = match *kind {
            "users" => {
                let bad = || {
                    bad("writes its user in another way than ids are: as it is, or %XX in upper case, such as \
                         users/%3Aslack%3Achannel%3AC1 for :slack:channel:C1"
                        .to_owned())
                };
                let user = decoded(owner).ok_or_else(bad)?;
                // Channels and chats own memories as well, under ids that begin with `:`.
                check_audience(&user)?;
                Space::User(user)
            }
            "agents" => Space::Agent(id("agent", owner)?),
            _ => return Err(bad("must start with users/ or agents/".to_owned())),
        };
        let place = match below {
            [SKILLS, name] if *kind == "agents" => Place::Skill(id("skill", name)?),
            // Before the general rule, for a more precise message.
            ["memories", SINGLETON, _, ..] => return Err(bad(format!("{SINGLETON} takes no slug"))),
            ["memories", rest @ ..] => memory(rest).ok_or_else(|| {
                bad(format!("a category and slug have 1 to {MAX_SLUG} of A-Z a-z 0-9 . _ ~ -"))
            })?,
            _ => return Err(bad("does not identify a memory".to_owned())),
        };
        Ok(Self { account, space, place })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn uri_round_trips_through_directory() {
        for (uri, dir) in [
            ("ctx://acme/users/alice/memories/profile", "/users/alice/memories/profile"),
            ("ctx://acme/users/alice/memories/events/e_1", "/users/alice/memories/events/e_1"),
            ("ctx://acme/agents/gpt-4/memories/skills/s", "/agents/gpt-4/memories/skills/s"),
            ("ctx://acme/agents/gpt-4/skills/web%20search", "/agents/gpt-4/skills/web search"),
            ("ctx://acme/users/%E6%9D%8E/memories/cases/~x.y", "/users/李/memories/cases/~x.y"),
        ] {
            let parsed: Uri = uri.parse().unwrap();
            assert_eq!(parsed.to_string(), uri);
            assert_eq!(parsed.dir().as_str(), dir);
            assert_eq!(Uri::of_dir("acme", &parsed.dir()), Some(parsed));
        }
    }

    #[test]
    fn rejects_invalid_memory_uris() {
        for uri in [
            "",
            "ctx://",
            "ctx://a",
            "http://a/users/b/memories/events/c",
            "ctx://a/users/b/memories",
            "ctx://a/users/b/memories/events",
            "ctx://a/users/b/memories/profile/x",
            "ctx://a/users/b/memories/events/c/d",
            "ctx://a/users/b/memories/events/..",
            "ctx://a/users/b/memories/events/c%20d",
            "ctx://a/users/b/memories/events/",
            "ctx://a/users/../memories/events/c",
            "ctx://a/users/%2e%2e/memories/events/c",
            "ctx://a/users/%2E%2E/memories/events/c",
            "ctx://a/users/b%2Fc/memories/events/c",
            "ctx://a/users/%61/memories/events/c",
            "ctx://a/users/%e6%9d%8e/memories/events/c",
            "ctx://a/users/b c/memories/events/c",
            "ctx://a/users/%zz/memories/events/c",
            "ctx://a/users/%/memories/events/c",
            "ctx://a/users/%FF/memories/events/c",
            "ctx://a/users/b/skills/c",
            "ctx://a/teams/b/memories/events/c",
        ] {
            let error = uri.parse::<Uri>().unwrap_err();
            assert!(error.is(ErrorKind::InvalidArgument), "{uri}: {error}");
        }
        let other: Uri = "ctx://a/users/b/memories/profile".parse().unwrap();
        assert!(other.check_account("b").unwrap_err().is(ErrorKind::AccessDenied));
        for dir in
            ["/", "/users/a/memories", "/users/a/memories/events", "/users/a/memories/profile/x", "/skills/x"]
        {
            assert_eq!(Uri::of_dir("a", &TreePath::parse(dir).unwrap()), None, "{dir}");
        }
    }

    proptest! {
        #[test]
        fn ids_have_one_uri_spelling(id in "[^/\\x00-\\x1f\\x7f]{1,20}") {
            prop_assert_eq!(decoded(&encoded(&id)), Some(id));
        }
    }
}
