//! Answers of the calls on API keys.

use garth_engine::home::{ApiKey, Binding};
use garth_engine::model::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

/// API key, without its secret.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ApiKeyItem {
    /// Id of the key: 16 hexadecimal digits.
    id: String,
    /// Account that the key opens; `null` for a key of the data folder.
    account: Option<String>,
    /// Label to recognize the key by; may be empty.
    label: String,
    /// Scopes of the key, such as `memory:read`.
    scopes: Vec<&'static str>,
    /// Names and limits of the calls of the key; `null` for a free key.
    binding: Option<Binding>,
    /// Time of creation; RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    /// Time from which the key is rejected; RFC 3339. `null` if the key does not expire.
    #[schemars(extend("format" = "date-time"))]
    expires_at: Option<String>,
    /// Time of revocation; RFC 3339. `null` if the key is not revoked.
    #[schemars(extend("format" = "date-time"))]
    revoked_at: Option<String>,
    /// Id of the key that created this key; `null` if the command line or a program did.
    maker: Option<String>,
    /// True if the stored scopes or binding cannot be read. Requests with such a key fail. Missing otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    damaged: bool,
}

impl ApiKeyItem {
    /// Returns the answer for a key.
    pub(crate) fn of(key: &ApiKey) -> Self {
        Self {
            id: key.id.clone(),
            account: key.account.clone(),
            label: key.label.clone(),
            scopes: key.scopes.iter().map(|scope| scope.as_str()).collect(),
            binding: (!key.binding.is_free()).then(|| key.binding.clone()),
            created_at: key.created.to_rfc3339(),
            expires_at: key.expires.map(Timestamp::to_rfc3339),
            revoked_at: key.revoked.map(Timestamp::to_rfc3339),
            maker: key.maker.clone(),
            damaged: key.is_damaged,
        }
    }
}

// Without `Debug`, so that no log has the secret.
/// API key that was created.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct KeyCreated {
    /// Always true.
    pub(crate) ok: bool,
    /// The key.
    pub(crate) key: ApiKeyItem,
    /// The complete key, to be sent in `Authorization`. No other answer contains it.
    pub(crate) secret: String,
}

// Without `Debug`, so that no log has the secret.
/// API key that replaces another one.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct KeyRotated {
    /// Always true.
    pub(crate) ok: bool,
    /// The new key.
    pub(crate) key: ApiKeyItem,
    /// The complete new key, to be sent in `Authorization`. No other answer contains it.
    pub(crate) secret: String,
    /// The old key. It stays valid until `expires_at`, or is revoked.
    pub(crate) old: ApiKeyItem,
}

/// API key that was revoked.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct KeyRevoked {
    /// Always true.
    pub(crate) ok: bool,
    /// The key.
    pub(crate) key: ApiKeyItem,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::respond::text;

    /// Key with all optional fields.
    const ALL: &str = concat!(
        r#"{"account":"acme","binding":{"agent":"scout","read_only":true},"created_at":"t1","damaged":true,"#,
        r#""expires_at":"t2","id":"0","label":"l","maker":"1","revoked_at":"t3","scopes":["memory:read"]}"#,
    );
    /// Key without optional fields.
    const FEW: &str = concat!(
        r#"{"account":null,"binding":null,"created_at":"t1","expires_at":null,"id":"0","label":"","#,
        r#""maker":null,"revoked_at":null,"scopes":[]}"#,
    );

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn key() -> ApiKeyItem {
        let mut binding = Binding::default();
        (binding.agent, binding.read_only) = (some("scout"), true);
        ApiKeyItem {
            id: "0".to_owned(),
            account: some("acme"),
            label: "l".to_owned(),
            scopes: vec!["memory:read"],
            binding: Some(binding),
            created_at: "t1".to_owned(),
            expires_at: some("t2"),
            revoked_at: some("t3"),
            maker: some("1"),
            damaged: true,
        }
    }

    fn bare_key() -> ApiKeyItem {
        let (account, label, scopes, binding) = (None, String::new(), Vec::new(), None);
        let (expires_at, revoked_at, maker, damaged) = (None, None, None, false);
        ApiKeyItem { account, label, scopes, binding, expires_at, revoked_at, maker, damaged, ..key() }
    }

    #[test]
    fn keys_are_answered_without_secret() {
        assert_eq!(text(&key()), ALL);
        assert_eq!(text(&bare_key()), FEW);
        assert_eq!(text(&KeyRevoked { ok: true, key: key() }), format!(r#"{{"key":{ALL},"ok":true}}"#));
    }

    #[test]
    fn only_new_keys_are_answered_with_secret() {
        let secret = || "s".to_owned();
        let created = KeyCreated { ok: true, key: bare_key(), secret: secret() };
        assert_eq!(text(&created), format!(r#"{{"key":{FEW},"ok":true,"secret":"s"}}"#));
        let rotated = KeyRotated { ok: true, key: bare_key(), secret: secret(), old: key() };
        assert_eq!(text(&rotated), format!(r#"{{"key":{FEW},"ok":true,"old":{ALL},"secret":"s"}}"#));
    }
}
