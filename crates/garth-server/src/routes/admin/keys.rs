//! Calls on API keys.

use std::borrow::Cow;
use std::time::Duration;

use garth_engine::home::{Binding, KeysPage, NewKey, Rotation, Scope};
use garth_engine::model::{Timestamp, parse_age};

use super::answers::{ApiKeyItem, KeyCreated, KeyRevoked, KeyRotated};
use crate::errors::Refusal;
use crate::fields::{Page, fields, flag, integer, object, of_field, string, string_of, strings, time};
use crate::routes::control::{ControlCall, by_valid_key};
use crate::routes::respond::Json;
use crate::wire::ItemsPage;

/// Longest lifetime in seconds, 200 years: later times would exceed a timestamp.
const MAX_SPAN: i64 = 200 * 365 * 86_400;
/// Longest grace in seconds: 90 days.
const MAX_GRACE: u64 = 90 * 86_400;

fields! {
    /// Creates an API key. The secret is only in this answer.
    pub(crate) struct CreateFields<'a> {
        /// Label to recognize the key by, of at most 256 bytes.
        label: Cow<'a, str> = string(), or Cow::Borrowed("");
        /// Scopes of the key, at least one. A key of the data folder requires exactly `admin`.
        scopes: Vec<String> = strings().of("scopes").at_most(Scope::ALL.len()), or default_scopes();
        /// Names and limits of the calls of the key, at least one name. Default: the key is free.
        binding: Option<Binding> = object("binding");
        /// Lifetime, such as `12h`, `30d` or `3d12h`. Default: the key does not expire.
        expires_in: Option<Cow<'a, str>> = string_of("duration");
        /// Time of expiry, instead of a lifetime. Default: the key does not expire.
        expires_at: Option<Timestamp> = time();
        /// Account of the key; only for a key of the data folder. Default: the account of the caller.
        account: Option<Cow<'a, str>> = string_of("id");
    }
}

fn default_scopes() -> Vec<String> {
    [Scope::MemoryRead, Scope::MemoryWrite, Scope::SearchRead].map(|scope| scope.to_string()).into()
}

pub(in crate::routes) async fn create(
    call: &ControlCall<'_>,
    fields: CreateFields<'_>,
) -> Result<Json<KeyCreated>, Refusal> {
    let owner = call.owner(fields.account.as_deref())?;
    let scopes =
        fields.scopes.iter().map(|scope| scope.parse()).collect::<garth_engine::Result<Vec<Scope>>>();
    let mut new = NewKey::of(&owner, &of_field("scopes", scopes)?);
    new.expires = expiry(&fields, call.home.env().now())?;
    new.label = fields.label.into_owned();
    if let Some(binding) = fields.binding {
        // A client whose variables are empty must not get a key of the whole account.
        if binding.is_free() {
            let message = "\"binding\" binds nothing; name at least the agent, or leave \"binding\" out for a \
                           key of the whole account";
            return Err(Refusal::validation(message));
        }
        garth_agent::check_binding(&binding)?;
        new.binding = binding;
    }
    (new.maker, new.origin) = (Some(call.key().id.clone()), call.origin());
    let (key, secret) = by_valid_key(call.home.issue_key(new).await)?;
    Json::of(&KeyCreated { ok: true, key: ApiKeyItem::of(&key), secret: secret.reveal().to_owned() })
}

/// Returns the time of expiry that a request names.
fn expiry(fields: &CreateFields<'_>, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
    match (&fields.expires_in, fields.expires_at) {
        (None, at) => Ok(at),
        (Some(_), Some(_)) => {
            Err(Refusal::validation("send one of \"expires_in\" and \"expires_at\", not both"))
        }
        (Some(span), None) => match parse_age(span)? {
            Some(seconds) if (1..=MAX_SPAN).contains(&seconds) => Ok(Some(now.plus_seconds(seconds))),
            _ => Err(Refusal::validation(
                "\"expires_in\" must be numbers with s, m, h, d or w, such as 90s, 12h or 3d12h, from 1s to 200 years",
            )),
        },
    }
}

fields! {
    /// Lists API keys without their secrets, oldest first.
    pub(crate) struct ListFields<'a> {
        /// Includes revoked keys.
        revoked: bool = flag(), or false;
        /// Account of the keys; only for a key of the data folder. Default: the account of the caller.
        account: Option<Cow<'a, str>> = string_of("id");
        ..page: Page<500, 100>;
    }
}

pub(in crate::routes) async fn list(
    call: &ControlCall<'_>,
    fields: ListFields<'_>,
) -> Result<Json<ItemsPage<ApiKeyItem>>, Refusal> {
    let owner = call.owner(fields.account.as_deref())?;
    let first = if fields.revoked { KeysPage::with_revoked() } else { KeysPage::default() };
    let mut page = first.limit(fields.page.limit);
    page.after = fields.page.cursor.as_deref().map(position).transpose()?;
    let listed = call.home.keys(&owner, &page).await?;
    let next = listed.items.last().filter(|_| listed.more);
    let next = next.map(|last| format!("{}-{}", last.created.0, last.id));
    let items = listed.items.iter().map(ApiKeyItem::of).collect();
    Json::of(&ItemsPage::new(items, next.as_deref(), &call.fields))
}

/// Returns the creation time and the id of a cursor.
fn position(cursor: &str) -> Result<(Timestamp, String), Refusal> {
    let (created, id) = cursor.rsplit_once('-').ok_or_else(Refusal::cursor)?;
    Ok((Timestamp(created.parse().map_err(|_| Refusal::cursor())?), id.to_owned()))
}

fields! {
    /// Replaces an API key by a new one with the same label, scopes, binding and expiry. The secret is only
    /// in this answer.
    pub(crate) struct RotateFields<'a> {
        /// Id of the key: the 16 digits that follow `garth_`.
        id: Cow<'a, str> = string_of("id");
        /// Seconds for which the old key stays valid. With 0, it is revoked at once.
        grace_seconds: u64 = integer(0, MAX_GRACE), or 3600;
        /// Account of the key; only for a key of the data folder. Default: the account of the caller.
        account: Option<Cow<'a, str>> = string_of("id");
    }
}

pub(in crate::routes) async fn rotate(
    call: &ControlCall<'_>,
    fields: RotateFields<'_>,
) -> Result<Json<KeyRotated>, Refusal> {
    let owner = call.owner(fields.account.as_deref())?;
    let mut rotation = Rotation::new(Duration::from_secs(fields.grace_seconds));
    (rotation.maker, rotation.origin) = (Some(call.key().id.clone()), call.origin());
    let done = by_valid_key(call.home.rotate_key(&owner, checked(&fields.id)?, rotation).await)?;
    let (key, old) = (ApiKeyItem::of(&done.key), ApiKeyItem::of(&done.old));
    Json::of(&KeyRotated { ok: true, key, secret: done.secret.reveal().to_owned(), old })
}

fields! {
    /// Revokes an API key: it is rejected from the next call on. A repeat keeps the first time.
    pub(crate) struct RevokeFields<'a> {
        /// Id of the key: the 16 digits that follow `garth_`.
        id: Cow<'a, str> = string_of("id");
        /// Account of the key; only for a key of the data folder. Default: the account of the caller.
        account: Option<Cow<'a, str>> = string_of("id");
    }
}

pub(in crate::routes) async fn revoke(
    call: &ControlCall<'_>,
    fields: RevokeFields<'_>,
) -> Result<Json<KeyRevoked>, Refusal> {
    let owner = call.owner(fields.account.as_deref())?;
    let key = call.home.revoke_key(&owner, checked(&fields.id)?).await?;
    Json::of(&KeyRevoked { ok: true, key: ApiKeyItem::of(&key) })
}

/// Refuses a complete key in place of its id: there is none of that id.
fn checked(id: &str) -> Result<&str, Refusal> {
    match id.starts_with("garth_") {
        true => Err(Refusal::validation(
            "\"id\" must be the 16 digits that follow `garth_` in the key, without the rest of the key",
        )),
        false => Ok(id),
    }
}
