//! Binding of a key: the names and limits that each of its calls has. The names are plain text here, as in
//! [`Author`](crate::model::Author): the engine knows no agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::hex;
use crate::path::{TreePath, check_id};

/// Longest binding, in bytes of its JSON.
const MAX_BINDING: usize = 4 << 10;

/// Names and limits that each call of a key has. A name that is set replaces a missing one in a request, and
/// a request with another name is refused.
///
/// ```
/// # use garth_engine as garth;
/// use garth::home::Binding;
///
/// let mut binding = Binding::default();
/// assert!(binding.is_free());
/// binding.agent = Some("scout".to_owned());
/// assert!(!binding.is_free());
/// assert_eq!(binding.digest().len(), 32);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[schemars(rename = "KeyBinding", description = "Names and limits that each call of a key has.")]
pub struct Binding {
    /// Agent. Missing if any is permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// User. Missing if any is permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Session key, which decides the audience. Missing if any is permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Chat whose files are at `/`. Missing if any is permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
    /// Least restricted class of the session: `main`, `dm` or `group`. Missing if any is permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Only visible session. Missing if all are visible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Only visible subtree, as a path of the tree that the names open. Missing for the complete tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub prefix: Option<TreePath>,
    /// True if the key changes nothing, whatever its scopes. Missing otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

impl Binding {
    /// Returns true if nothing is bound.
    pub fn is_free(&self) -> bool {
        *self == Self::default()
    }

    /// Returns 32 hexadecimal digits that equal bindings share, and the empty text for a free one. Stable
    /// across versions of garth: records of requests are stored under it.
    pub fn digest(&self) -> String {
        if self.is_free() {
            return String::new();
        }
        hex(&blake3::hash(self.to_json().as_bytes()).as_bytes()[..16])
    }

    /// Returns the JSON, with the fields that are set in the order of declaration.
    pub fn to_json(&self) -> String {
        // Strings and a flag: nothing in it can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Checks the forms that the engine knows. Classes and session keys are checked by the layer that reads
    /// them.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id, the prefix `/`, or more than 4 KiB.
    pub fn check(&self) -> Result<()> {
        let ids = [("agent", &self.agent), ("user", &self.user), ("chat", &self.chat)];
        for (what, id) in ids.into_iter().chain([("session", &self.session)]) {
            if let Some(id) = id {
                check_id(what, id)?;
            }
        }
        if self.prefix.as_ref().is_some_and(TreePath::is_root) {
            return Err(Error::invalid("a key bound to `/` would not be limited; leave the prefix out"));
        }
        if self.to_json().len() > MAX_BINDING {
            return Err(Error::invalid(format!("the binding of a key has at most {MAX_BINDING} bytes")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(change: impl FnOnce(&mut Binding)) -> Binding {
        let mut binding = Binding::default();
        change(&mut binding);
        binding
    }

    #[test]
    fn json_has_the_set_fields_only() {
        let all = bound(|binding| {
            binding.agent = Some("scout".to_owned());
            binding.user = Some("ann".to_owned());
            binding.key = Some("agent:scout:main".to_owned());
            binding.chat = Some("trip".to_owned());
            binding.class = Some("main".to_owned());
            binding.session = Some("today".to_owned());
            binding.prefix = Some(TreePath::parse("/notes").unwrap());
            binding.read_only = true;
        });
        let json = concat!(
            r#"{"agent":"scout","user":"ann","key":"agent:scout:main","chat":"trip","class":"main","#,
            r#""session":"today","prefix":"/notes","read_only":true}"#
        );
        assert_eq!(all.to_json(), json);
        assert_eq!(serde_json::from_str::<Binding>(json).unwrap(), all);
        assert_eq!(Binding::default().to_json(), "{}");
        assert_eq!(serde_json::from_str::<Binding>("{}").unwrap(), Binding::default());
    }

    #[test]
    fn rejects_unknown_fields_and_foreign_types() {
        for json in [r#"{"agents":"a"}"#, r#"{"agent":1}"#, r#"{"read_only":"no"}"#, r#"{"prefix":"notes"}"#]
        {
            assert!(serde_json::from_str::<Binding>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn digest_tells_bindings_apart() {
        let bindings = [
            Binding::default(),
            bound(|binding| binding.agent = Some("a".to_owned())),
            bound(|binding| binding.user = Some("a".to_owned())),
            bound(|binding| binding.agent = Some("b".to_owned())),
            bound(|binding| binding.read_only = true),
        ];
        let digests: std::collections::BTreeSet<_> = bindings.iter().map(Binding::digest).collect();
        assert_eq!(digests.len(), bindings.len());
        assert_eq!(bindings[0].digest(), "");
        assert!(bindings[1..].iter().all(|binding| binding.digest().len() == 32 && !binding.is_free()));
        assert_eq!(bindings[1].digest(), bindings[1].clone().digest());
    }

    #[test]
    fn check_rejects_invalid_ids_and_sizes() {
        let id = |id: &str| bound(|binding| binding.agent = Some(id.to_owned()));
        assert!(id("scout").check().is_ok() && Binding::default().check().is_ok());
        for bad in ["", "..", "a/b", "a\nb", &"x".repeat(129)] {
            assert!(id(bad).check().is_err(), "{bad:?}");
            assert!(bound(|binding| binding.user = Some(bad.to_owned())).check().is_err(), "{bad:?}");
            assert!(bound(|binding| binding.chat = Some(bad.to_owned())).check().is_err(), "{bad:?}");
            assert!(bound(|binding| binding.session = Some(bad.to_owned())).check().is_err(), "{bad:?}");
        }
        assert!(bound(|binding| binding.prefix = Some(TreePath::root())).check().is_err());
        let long = |length| bound(|binding| binding.key = Some("k".repeat(length)));
        assert!(long(MAX_BINDING - r#"{"key":""}"#.len()).check().is_ok());
        assert!(long(MAX_BINDING - r#"{"key":""}"#.len() + 1).check().is_err());
    }
}
