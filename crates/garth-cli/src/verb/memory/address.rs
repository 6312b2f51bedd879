//! Addresses of memories on the command line: a URI, or CATEGORY/SLUG for the user or agent that the options
//! name.

use std::convert::Infallible;
use std::str::FromStr;

use garth_agent::memory::Uri;
use garth_engine::path::check_id;
use garth_engine::{ErrorKind, TreePath};

use crate::app::App;
use crate::args::user_variable;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::verb::open::open;

/// Beginning of each URI.
const SCHEME: &str = "ctx://";

/// Address of a memory as written.
#[derive(Clone, Debug)]
pub(crate) struct MemoryArg(String);

impl FromStr for MemoryArg {
    type Err = Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl MemoryArg {
    /// Returns the address if `text` has the form of one: a URI, or a category and a slug without spaces.
    pub(crate) fn named(text: &str) -> Option<Self> {
        let is_slug = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte))
        };
        let is_short =
            text.split_once('/').is_some_and(|(category, slug)| is_slug(category) && is_slug(slug));
        (text.starts_with(SCHEME) || is_short || text == "profile").then(|| Self(text.to_owned()))
    }

    /// Returns the URI.
    pub(crate) async fn uri(&self, app: &App) -> Result<Uri> {
        if self.0.starts_with(SCHEME) {
            return Ok(self.0.parse()?);
        }
        let wrong = || {
            let text = escaped(&self.0);
            Failure::Usage(format!(
                "{text}: not a memory; write CATEGORY/SLUG, such as preferences/coffee, profile, or a URI such as \
                 ctx://{}/users/alice/memories/profile",
                app.global.account
            ))
        };
        let below = TreePath::parse(&format!("/{}", self.0)).map_err(|_| wrong())?;
        let dir = memories_of(&owner(app).await?)?;
        let dir = TreePath::parse(&format!("{dir}{below}")).map_err(|_| wrong())?;
        Uri::of_dir(&app.global.account, &dir).ok_or_else(wrong)
    }
}

/// Selection of memories to list.
pub(super) enum ListPrefix {
    /// All memories of the account.
    Account,
    /// Memories below a URI.
    Uri(String),
    /// Memories below a directory.
    Below(TreePath),
}

/// Returns the selection made by the options and a prefix.
pub(super) async fn list_prefix(app: &App, prefix: Option<&str>) -> Result<ListPrefix> {
    match prefix {
        Some(uri) if uri.starts_with(SCHEME) => Ok(ListPrefix::Uri(uri.to_owned())),
        Some(category) => {
            let dir = memories_of(&owner(app).await?)?;
            let text = category.trim_end_matches('/');
            let below = TreePath::parse(&format!("{dir}/{text}"));
            Ok(ListPrefix::Below(
                below.map_err(|_| {
                    Failure::Usage(format!("{}: write a category or a URI", escaped(category)))
                })?,
            ))
        }
        None if names_owner(app) => Ok(ListPrefix::Below(memories_of(&owner(app).await?)?)),
        None => Ok(ListPrefix::Account),
    }
}

/// Owner of a memory: a directory of the account and an id.
struct Owner(&'static str, String);

fn memories_of(Owner(kind, id): &Owner) -> Result<TreePath> {
    // An audience such as `:slack:channel:C1` is not a valid id of a person, but is a valid name of a
    // directory.
    if *kind == "agents" {
        check_id("agent", id)?;
    }
    Ok(TreePath::parse(&format!("/{kind}/{id}/memories"))?)
}

/// Returns true if an option or variable names an owner of memories.
fn names_owner(app: &App) -> bool {
    app.global.chat.names_somebody() || app.global.agent_is_named || user_variable().is_some()
}

/// Returns the owner of the memory CATEGORY/SLUG.
async fn owner(app: &App) -> Result<Owner> {
    let chat = &app.global.chat;
    if let Some(user) = &chat.user {
        check_id("user", user)?;
        return Ok(Owner("users", user.clone()));
    }
    if !chat.names_somebody() {
        if app.global.agent_is_named {
            return Ok(Owner("agents", app.global.agent.clone()));
        }
        if let Some(user) = user_variable() {
            check_id("user", &user)?;
            return Ok(Owner("users", user));
        }
        // Without a data folder the agent has no settings that could name an owner.
        if let Err(failure) = app.home().await {
            return match &failure {
                Failure::DataDir(_, error) | Failure::Database(_, error) if error.is(ErrorKind::NotFound) => {
                    Ok(Owner("users", garth_agent::DEFAULT_USER.to_owned()))
                }
                _ => Err(failure),
            };
        }
    }
    Ok(Owner("users", open(app, false).await?.user().to_owned()))
}
