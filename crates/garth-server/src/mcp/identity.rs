//! Identity and choice of tools in the address of a client: `/mcp?agent=scout&user=ann&tools=ls,grep`.

use axum::http::Uri;
use garth_agent::nearest::nearest;
use garth_agent::{Class, Request};

use super::choice::ToolChoice;
use crate::errors::Refusal;
use crate::routes::query::pairs;

/// Parameters of the address.
const PARAMETERS: [&str; 8] = ["agent", "user", "key", "chat", "session", "class", "tools", "read_only"];

/// Returns the names of the identity, before the API key completes them, and the choice of tools.
pub(super) fn identity_of(uri: &Uri) -> Result<(Request, ToolChoice), Refusal> {
    let mut request = Request::default();
    let (mut tools, mut read_only) = (None, false);
    let pairs = pairs(uri.query().unwrap_or_default())?;
    for (number, (name, value)) in pairs.iter().enumerate() {
        if pairs.iter().take(number).any(|(earlier, _)| earlier == name) {
            return Err(Refusal::validation(format!("\"{}\" occurs twice in the address", shown(name))));
        }
        let value = value.clone();
        match name.as_str() {
            "agent" => request.agent = value,
            "user" => request.user = Some(value),
            "key" => request.key = Some(value.parse()?),
            "chat" => request.chat = Some(value),
            "session" => request.session = Some(value),
            "class" => request.class = Some(class(&value)?),
            "tools" => tools = Some(value),
            "read_only" => read_only = flag(&value)?,
            _ => return Err(unknown(name)),
        }
    }
    let choice = ToolChoice::parse(tools.as_deref(), read_only);
    let choice = choice.map_err(|error| Refusal::validation(format!("\"tools\": {error}")))?;
    Ok((request, choice))
}

/// Returns the class of a name. A misspelt one would count as the class that sees least, and the client would
/// not learn why it misses files.
fn class(name: &str) -> Result<Class, Refusal> {
    let known = Some(Class::named(name)).filter(|class| class.as_str() == name);
    known.ok_or_else(|| Refusal::validation("\"class\" must be `main`, `dm` or `group`"))
}

fn flag(value: &str) -> Result<bool, Refusal> {
    match value {
        "true" | "" => Ok(true),
        "false" => Ok(false),
        _ => Err(Refusal::validation("\"read_only\" must be `true` or `false`")),
    }
}

fn unknown(name: &str) -> Refusal {
    let hint = match nearest(name, PARAMETERS) {
        Some(meant) => format!("did you mean \"{meant}\"?"),
        None => format!("its parameters are {}", PARAMETERS.join(", ")),
    };
    Refusal::validation(format!("\"{}\" is not a parameter of this address; {hint}", shown(name)))
}

/// Returns the beginning of a name, which may be as long as the address.
fn shown(name: &str) -> String {
    name.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(query: &str) -> Result<Request, String> {
        let uri: Uri = format!("/mcp?{query}").parse().unwrap();
        identity_of(&uri).map(|(request, _)| request).map_err(|refusal| refusal.message)
    }

    #[test]
    fn address_names_the_identity() {
        let named = "agent=scout&user=a%20n&chat=trip&session=work&class=dm&key=agent:scout:main";
        let request = identity(named).unwrap();
        assert_eq!((request.agent.as_str(), request.user.as_deref()), ("scout", Some("a n")));
        assert_eq!((request.chat.as_deref(), request.session.as_deref()), (Some("trip"), Some("work")));
        assert_eq!((request.class, request.key.unwrap().as_str()), (Some(Class::Dm), "agent:scout:main"));
        assert_eq!(identity("tools=ls&read_only=true").unwrap(), Request::default());
    }

    #[test]
    fn unknown_parameters_and_values_are_refused() {
        for (query, message) in [
            ("agnet=scout", "\"agnet\" is not a parameter of this address; did you mean \"agent\"?"),
            ("x=1", "its parameters are agent, user, key, chat, session, class, tools, read_only"),
            ("user=ann&user=bob", "\"user\" occurs twice in the address"),
            ("class=mian", "\"class\" must be `main`, `dm` or `group`"),
            ("read_only=1", "\"read_only\" must be `true` or `false`"),
            ("tools=rm", "\"tools\": \"rm\" is not a tool"),
            ("tools=move&read_only=true", "\"tools\": a client that only reads cannot have move; name at"),
        ] {
            let error = identity(query).unwrap_err();
            assert!(error.contains(message), "{query}: {error}");
        }
    }
}
