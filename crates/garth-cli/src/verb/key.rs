//! `garth key`: API keys of an account, or of the data folder.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use garth_engine::home::{ApiKey, Binding, KeyOwner, KeysPage, NewKey, Rotation, Scope};
use garth_engine::model::{Moment, Timestamp, parse_age};
use garth_engine::{Error, ErrorKind, Home, TreePath};
use serde_json::{Value, json};

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Failures, Result, no_account_or};
use crate::when::parse_span;

/// Longest lifetime in seconds, 200 years: later times would exceed a timestamp.
const MAX_SPAN: i64 = 200 * 365 * 86_400;

/// Create, list, rotate and revoke API keys of the account
///
/// With --operator, the keys are those of the data folder: for accounts and their keys, and to read the files
/// of all accounts.
///
/// A program sends its key as `Authorization: Bearer KEY`. With --json, prints one object per key: id,
/// account, label, scopes, binding, created, expires, revoked, maker; a key that cannot be read completely
/// also has damaged. `create` and `rotate` also print key, the secret.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth key create --label laptop --scope memory:read --scope search:read")]
pub(crate) struct Key {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create a key, and print it once
    ///
    /// With --agent, --user, --key, --chat, --class or --session, the key is bound to these names, and
    /// requests with other names fail. A name that is not given is free: with --agent alone, requests may
    /// name any user, and with --user alone any agent. The free names are printed. The variables GARTH_AGENT
    /// and GARTH_USER bind nothing.
    ///
    /// A key of the data folder (--operator) requires --scope admin and no other scope, and cannot be bound.
    #[command(after_help = "Example:\n  garth key create --label laptop --scope memory:read\n  \
                      garth key create --agent scout --user ann --scope files:read --expires 30d\n  \
                      garth key create --operator --scope admin")]
    Create(Create),
    /// List keys, without their secrets
    #[command(alias = "ls", after_help = "Example:\n  garth key list")]
    List {
        /// Include revoked keys
        #[arg(long)]
        revoked: bool,
    },
    /// Replace a key by a new one with the same label, scopes, binding and expiry, and print it once
    #[command(after_help = "Example:\n  garth key rotate 0123456789abcdef --grace 1d")]
    Rotate {
        /// Id of the key: the part between `garth_` and the dot
        id: String,
        /// Time for which the old key stays valid; 0 revokes it at once
        #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_span)]
        grace: i64,
    },
    /// Revoke keys
    #[command(aliases = ["rm", "delete"], after_help = "Example:\n  garth key revoke 0123456789abcdef")]
    Revoke {
        /// Ids of the keys: the part between `garth_` and the dot
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

#[derive(Args, Debug)]
struct Create {
    /// Label, to recognize the key by
    #[arg(long, default_value = "", value_name = "TEXT")]
    label: String,
    /// Scope of access: memory:read, memory:write, search:read, files:read, files:write, or admin for all of
    /// them (repeatable) [default: memory:read, memory:write and search:read]
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<Scope>,
    /// Bind the key to this path of its tree
    #[arg(long, value_name = "PATH")]
    prefix: Option<String>,
    /// Bind the key to reading, whatever its scopes
    #[arg(long)]
    read_only: bool,
    /// Lifetime (12h, 30d), or time of expiry (2027-01-01, 2027-01-01T09:30Z) [default: never]
    #[arg(long, value_name = "DURATION|TIME")]
    expires: Option<String>,
}

impl Key {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match &self.action {
            // The options that name a tree exclude --operator.
            _ if app.global.operator => {}
            Action::Create(_) => check_binding_options(app)?,
            _ => app.no_tree("key")?,
        }
        match self.action {
            Action::Create(create) => create.run(app).await,
            Action::List { revoked } => {
                let owner = Owner::open(app).await?;
                let first = if revoked { KeysPage::with_revoked() } else { KeysPage::default() };
                let mut page = first.clone();
                loop {
                    let keys = owner.home.keys(&owner.of, &page).await?;
                    keys.items.iter().try_for_each(|key| show(app, key))?;
                    match keys.items.last().filter(|_| keys.more) {
                        Some(last) => page = first.clone().after(last),
                        None => return Ok(()),
                    }
                }
            }
            Action::Rotate { id, grace } => {
                check_id(&id)?;
                let owner = Owner::open(app).await?;
                let rotation = Rotation::new(Duration::from_secs(grace.unsigned_abs()));
                let rotated = owner.home.rotate_key(&owner.of, &id, rotation).await;
                let done = rotated.map_err(|error| owner.no_key_or(&id, error))?;
                let more = [("old", json_of(&done.old))];
                show_secret(app, &done.key, done.secret.reveal(), more)
            }
            Action::Revoke { ids } => {
                ids.iter().try_for_each(|id| check_id(id))?;
                let owner = Owner::open(app).await?;
                let mut failures = Failures::default();
                for id in ids {
                    let revoked = owner.home.revoke_key(&owner.of, &id).await;
                    let shown = match revoked {
                        Ok(key) => show(app, &key),
                        Err(error) => Err(owner.no_key_or(&id, error).into()),
                    };
                    failures.add(shown, app.global.json)?;
                }
                failures.done()
            }
        }
    }
}

impl Create {
    async fn run(self, app: &mut App) -> Result {
        let expires = self.expires.as_deref().map(|text| time_of_expiry(text, app.env.now())).transpose()?;
        let binding = binding(app, self.prefix.as_deref(), self.read_only)?;
        if !binding.is_free() {
            garth_agent::check_binding(&binding)?;
        }
        let owner = Owner::open(app).await?;
        let scopes: &[Scope] = match &*self.scopes {
            [] => &[Scope::MemoryRead, Scope::MemoryWrite, Scope::SearchRead],
            scopes => scopes,
        };
        let mut new = NewKey::of(&owner.of, scopes);
        (new.label, new.binding, new.expires) = (self.label, binding, expires);
        let (key, secret) = owner.home.issue_key(new).await?;
        show_secret(app, &key, secret.reveal(), [])
    }
}

/// Owner of keys: an account, or the data folder.
struct Owner {
    home: Arc<dyn Home>,
    of: KeyOwner,
}

impl Owner {
    async fn open(app: &App) -> Result<Self> {
        let home = app.home().await?;
        if app.global.operator {
            return Ok(Self { home, of: KeyOwner::home() });
        }
        let name = &app.global.account;
        let account = home.account(name).await.map_err(|error| no_account_or(name, error))?;
        Ok(Self { home, of: KeyOwner::from(&account) })
    }

    /// Returns an error about a key, with advice if it does not exist.
    fn no_key_or(&self, id: &str, error: Error) -> Error {
        if !error.is(ErrorKind::NotFound) {
            return error;
        }
        let message = match self.of.account() {
            Some(account) => format!("{id}: account {account} has no such key; see `garth key list`"),
            None => format!("{id}: the data folder has no such key; see `garth key list --operator`"),
        };
        Error::new(ErrorKind::NotFound, message)
    }
}

/// Fails for a text that is not the id of a key, and does not repeat it: it may be the complete key.
fn check_id(id: &str) -> Result {
    match id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(()),
        false => Err(Failure::Usage(
            "the id of a key is the 16 digits between `garth_` and the dot, without the rest of the key; \
             `garth key list` shows it"
                .to_owned(),
        )),
    }
}

/// Fails if options name more than the identity of a key.
fn check_binding_options(app: &App) -> Result {
    app.no_overlay("key")?;
    let chat = &app.global.chat;
    if !chat.skills.is_empty() || chat.upload_limit.is_some() {
        let message = "a key cannot be bound to skills or an upload limit: remove --skill and --upload-limit";
        return Err(Failure::Usage(message.to_owned()));
    }
    Ok(())
}

/// Returns the binding that the options name.
fn binding(app: &App, prefix: Option<&str>, read_only: bool) -> Result<Binding> {
    let (global, chat) = (&app.global, &app.global.chat);
    let mut binding = Binding::default();
    // Only if it was given here: a variable must not bind keys.
    binding.agent = global.agent_is_named.then(|| global.agent.clone());
    (binding.user, binding.chat) = (chat.user.clone(), chat.chat.clone());
    (binding.class, binding.session) = (chat.class.clone(), chat.session.clone());
    binding.key = chat.session_key.as_ref().map(ToString::to_string);
    binding.prefix = prefix.map(TreePath::parse).transpose().map_err(Error::from)?;
    binding.read_only = read_only;
    Ok(binding)
}

/// Returns the time that `--expires` names: a lifetime, a date or a time.
fn time_of_expiry(text: &str, now: Timestamp) -> Result<Timestamp> {
    if let Some(seconds) = parse_age(text)? {
        return match seconds {
            1..=MAX_SPAN => Ok(now.plus_seconds(seconds)),
            _ => Err(Failure::Usage(format!("--expires {text}: write 1s to 200 years"))),
        };
    }
    match Moment::parse(text, now)? {
        Some(Moment::Time(time)) => Ok(time),
        _ => Err(Failure::Usage(format!(
            "--expires {text}: write a lifetime (12h, 30d) or a time (2027-01-01, 2027-01-01T09:30Z)"
        ))),
    }
}

fn json_of(key: &ApiKey) -> Value {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let mut json = json!({
        "id": key.id, "account": key.account, "label": key.label, "scopes": scopes,
        "binding": (!key.binding.is_free()).then_some(&key.binding),
        "created": key.created.to_rfc3339(), "expires": key.expires.map(Timestamp::to_rfc3339),
        "revoked": key.revoked.map(Timestamp::to_rfc3339), "maker": key.maker,
    });
    if key.is_damaged {
        json["damaged"] = true.into();
    }
    json
}

/// Prints a new key with its secret, and in JSON `more` fields.
fn show_secret<const N: usize>(
    app: &mut App,
    key: &ApiKey,
    secret: &str,
    more: [(&str, Value); N],
) -> Result {
    let mut json = json_of(key);
    json["key"] = secret.into();
    for (name, value) in more {
        json[name] = value;
    }
    let (scopes, limits, free) = (scopes(key, " "), limits(key), free(&key.binding));
    let text = format!("{secret}\n    shown only once; id {}, {scopes}{limits}{free}", key.id);
    app.out.item(&json, text)
}

/// Returns a line with the names that requests with a bound key may choose; empty for a free key, and if the
/// binding fixes all of them. A class is not one of them: a request can only ask for more listeners.
fn free(binding: &Binding) -> String {
    let Binding { agent, user, key, chat, session, .. } = binding;
    // A user or a session key fixes the audience, and a session key its agent, too.
    let is_anyone = user.is_none() && key.is_none();
    let names = [
        ("agent", agent.is_none() && key.is_none()),
        ("user", is_anyone),
        ("session key", is_anyone),
        ("chat", chat.is_none()),
        ("session", session.is_none()),
    ];
    let names: Vec<&str> = names.into_iter().filter(|(_, is_free)| *is_free).map(|(name, _)| name).collect();
    match (binding.is_free(), names.split_last()) {
        (true, _) | (_, None) => String::new(),
        (_, Some((last, []))) => format!("\n    requests may name any {last}"),
        (_, Some((last, names))) => format!("\n    requests may name any {} and {last}", names.join(", ")),
    }
}

fn show(app: &mut App, key: &ApiKey) -> Result {
    let mut revoked = key.revoked.map(|time| format!("  revoked {}", time.to_rfc3339())).unwrap_or_default();
    if key.is_damaged {
        revoked.push_str("  damaged");
    }
    let (id, time) = (&key.id, key.created.to_rfc3339());
    let (scopes, label, limits) = (scopes(key, ","), escaped(&key.label), limits(key));
    app.out.item(&json_of(key), format_args!("{id}  {time}  {scopes}  {label}{revoked}{limits}"))
}

fn scopes(key: &ApiKey, between: &str) -> String {
    key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(between)
}

/// Returns a line with the binding and the expiry of a key; empty without either.
fn limits(key: &ApiKey) -> String {
    let Binding { agent, user, key: session_key, chat, class, session, prefix, read_only, .. } = &key.binding;
    let names = [
        ("agent", agent),
        ("user", user),
        ("key", session_key),
        ("chat", chat),
        ("class", class),
        ("session", session),
    ];
    let names =
        names.into_iter().filter_map(|(name, bound)| Some(format!("{name} {}", escaped(bound.as_ref()?))));
    let prefix = prefix.as_ref().map(|prefix| format!("below {}", escaped(prefix.as_str())));
    let read_only = read_only.then(|| "read-only".to_owned());
    let expires = key.expires.map(|time| format!("expires {}", time.to_rfc3339()));
    let limits: Vec<String> = names.chain(prefix).chain(read_only).chain(expires).collect();
    if limits.is_empty() { String::new() } else { format!("\n    {}", limits.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unbound_names_are_free() {
        let bound = |names: &[&str]| {
            let mut binding = Binding::default();
            for name in names {
                let field = match *name {
                    "agent" => &mut binding.agent,
                    "user" => &mut binding.user,
                    "key" => &mut binding.key,
                    "chat" => &mut binding.chat,
                    "class" => &mut binding.class,
                    _ => &mut binding.session,
                };
                *field = Some("x".to_owned());
            }
            free(&binding).trim_start().to_owned()
        };
        assert_eq!(bound(&["agent"]), "requests may name any user, session key, chat and session");
        assert_eq!(bound(&["user"]), "requests may name any agent, chat and session");
        assert_eq!(bound(&["key"]), "requests may name any chat and session");
        assert_eq!(bound(&["agent", "user", "class", "chat"]), "requests may name any session");
        assert_eq!(bound(&["agent", "user", "chat", "session"]), "");
        assert_eq!(bound(&[]), "", "the whole account is free");
    }

    #[test]
    fn expiry_is_a_lifetime_or_a_time() {
        let now = Timestamp::parse_rfc3339("2026-01-27T09:30:00Z").unwrap();
        let time = |text: &str| time_of_expiry(text, now).ok().map(Timestamp::to_rfc3339);
        assert_eq!(time("12h").as_deref(), Some("2026-01-27T21:30:00.000Z"));
        assert_eq!(time("1d12h").as_deref(), Some("2026-01-28T21:30:00.000Z"));
        assert_eq!(time("2027-01-01").as_deref(), Some("2027-01-01T00:00:00.000Z"));
        assert_eq!(time("2027-01-01T09:30Z").as_deref(), Some("2027-01-01T09:30:00.000Z"));
        for text in ["", "42", "0s", "soon", "ver_1-1", "300000w", "2027-13-01"] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
