//! Binding of an API key: completes a request with the names that the key fixes, and checks that the judged
//! identity is the bound one.

use crate::identity::{
    AccessPolicy, Caller, Class, DEFAULT_USER, Identity, Request, SessionKey, is_reserved,
};
use garth_engine::error::{Advice, Error, ErrorKind, Result};
use garth_engine::home::Binding;
use garth_engine::path::{TreePath, check_id};

/// Names of the classes.
const CLASSES: [&str; 3] = ["main", "dm", "group"];

/// Checks the binding of a key that is to be created. A free binding is valid.
///
/// # Errors
/// `InvalidArgument` for a name that no request could have, and for a binding that fixes no name.
pub fn check(binding: &Binding) -> Result<()> {
    if binding.is_free() {
        return Ok(());
    }
    let Binding { agent, user, key, chat, class, session, prefix, .. } = binding;
    if [agent, user, key, chat, class, session].into_iter().all(Option::is_none) {
        let message = "a bound key has an agent, user, session key, chat, class or session; name at least \
                       the agent, or the key would open the tree of the agent `default`";
        return Err(Error::invalid(message));
    }
    for (what, id) in [("agent", agent), ("user", user), ("chat", chat), ("session", session)] {
        let Some(id) = id else { continue };
        check_id(what, id)?;
        if what != "agent" && is_reserved(id) {
            let message = format!("{id}: a {what} must not begin with `:`; bind the session key instead");
            return Err(Error::invalid(message));
        }
    }
    if user.as_deref() == Some(DEFAULT_USER) {
        let message = "the user `default` is whoever names no user; leave the user out";
        return Err(Error::invalid(message));
    }
    if let Some(class) = class.as_deref().filter(|class| !CLASSES.contains(class)) {
        return Err(Error::invalid(format!("{class}: a class is one of main, dm and group")));
    }
    if let (Some(key), Some(agent)) = (bound_key(binding)?, agent)
        && key.agent() != *agent
    {
        return Err(Error::invalid(format!("{key}: a session key of another agent than {agent}")));
    }
    if prefix.as_ref().is_some_and(TreePath::is_root) {
        return Err(Error::invalid("a key bound to `/` would not be limited; leave the prefix out"));
    }
    Ok(())
}

/// Returns a request with the names that the key fixes. An agent that is not named is the empty text.
///
/// # Errors
/// `AccessDenied` if the request names something else.
pub(super) fn completed(binding: &Binding, asked: Request) -> Result<Request> {
    let (mut request, key) = (asked, bound_key(binding)?);
    // A session key is one of its agent, so it fixes the agent as well.
    let agent = binding.agent.clone().or_else(|| key.as_ref().map(SessionKey::agent));
    if let Some(agent) = agent {
        let named = Some(&*request.agent).filter(|named| !named.is_empty());
        request.agent = fixed("agent", &agent, named)?;
    }
    for (what, bound, named) in [
        ("user", &binding.user, &mut request.user),
        ("chat", &binding.chat, &mut request.chat),
        ("session", &binding.session, &mut request.session),
    ] {
        if let Some(bound) = bound {
            *named = Some(fixed(what, bound, named.as_deref())?);
        }
    }
    if let Some(key) = key {
        request.key = Some(match request.key.take() {
            // A thread or topic of the place has the same listeners.
            Some(named) if named.agent() == key.agent() && named.place() == key.place() => named,
            Some(_) => return Err(another("key", key.as_str())),
            None => key,
        });
    }
    if let Some(class) = binding.class.as_deref().map(Class::named) {
        request.class = Some(request.class.map_or(class, |asked| asked.max(class)));
    }
    Ok(request)
}

/// Checks that a judged request has the audience that its key is bound to.
///
/// # Errors
/// `AccessDenied` for another audience; as [`Identity::judge`].
pub(super) fn check_audience(
    binding: &Binding,
    policy: &AccessPolicy,
    request: &Request,
    who: &Identity,
) -> Result<()> {
    let refused = |message: String, advice: &str| {
        Err(Error::new(ErrorKind::AccessDenied, message).advising(Advice::Command, advice))
    };
    let audience = who.audience();
    match (&binding.user, &binding.key) {
        // Settings map the key to its audience, and both names are fixed.
        (Some(_), Some(_)) | (None, None) => Ok(()),
        (None, Some(key)) => {
            // A named user only speaks. Without this check, naming one would choose the audience wherever
            // the settings do not map the key to a user.
            let alone = Request { user: None, ..request.clone() };
            if Identity::judge(policy, Caller::ApiKey, &alone)?.audience() == audience {
                return Ok(());
            }
            let message =
                format!("this API key is bound to the session key `{key}`, whose audience is not this user");
            refused(message, "leave \"user\" out, or use a key that is bound to the user as well")
        }
        (Some(user), None) if audience == user || is_fixed_group(binding, request, who) => Ok(()),
        (Some(user), None) => {
            let message = format!(
                "this API key is bound to the user `{user}`, and the session key, class or chat of this request \
                 leads to another audience"
            );
            refused(message, "leave them out")
        }
    }
}

/// Returns true if the key fixes who hears its requests. It then reaches no archive of another audience, not
/// even for the owner of the agent, who sees all of them.
pub(super) fn fixes_listeners(binding: &Binding) -> bool {
    let Binding { user, key, chat, class, session, .. } = binding;
    let has_more_listeners = |class: &str| Class::named(class) != Class::Main;
    [user, key, chat, session].into_iter().any(Option::is_some)
        || class.as_deref().is_some_and(has_more_listeners)
}

/// Returns true for a group that the binding itself names, by its chat or session.
fn is_fixed_group(binding: &Binding, request: &Request, who: &Identity) -> bool {
    let asks = binding.class.as_deref().map(Class::named) == Some(Class::Group);
    // In the order in which a group takes its audience from a request: key, chat, session.
    let is_named = match (&request.key, &request.chat, &request.session) {
        (Some(_), ..) => false,
        (None, Some(_), _) => binding.chat.is_some(),
        (None, None, Some(_)) => binding.session.is_some(),
        (None, None, None) => false,
    };
    asks && who.class() == Class::Group && is_named
}

/// Returns the session key that is fixed.
///
/// # Errors
/// `InvalidArgument` for a text that is not a session key.
fn bound_key(binding: &Binding) -> Result<Option<SessionKey>> {
    binding.key.as_deref().map(str::parse).transpose()
}

/// Returns a fixed name, unless the request has another.
fn fixed(what: &str, bound: &str, named: Option<&str>) -> Result<String> {
    match named {
        Some(named) if named != bound => Err(another(what, bound)),
        _ => Ok(bound.to_owned()),
    }
}

fn another(what: &str, bound: &str) -> Error {
    // The agent may be in the path of a call, where it cannot be left out.
    let advice = format!("name that one, or none where \"{what}\" is a field");
    let error = Error::new(ErrorKind::AccessDenied, format!("this API key is bound to the {what} `{bound}`"));
    error.advising(Advice::Command, &advice)
}

#[cfg(test)]
mod tests;
