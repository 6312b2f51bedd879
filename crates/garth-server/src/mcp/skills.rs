//! Skills of the agent as `skill://` resources, for clients that name the extension. A skill that does not
//! apply is not listed.

use std::collections::BTreeSet;
use std::sync::Arc;

use garth_agent::workspace::ListedSkill;
use garth_engine::home::Scope;
use rmcp::model::{ListSkillsResult, ReadResourceResult, Skill, SkillFrontmatter, SkillResources};

use super::resources::contents;
use super::uri::encoded;
use crate::errors::{Code, Refusal};
use crate::routes::client::{Client, ClientCall};
use crate::routes::open;
use crate::routes::percent::decoded;
use crate::routes::tree::Tree;

/// Scheme of the URI of a file of a skill.
const SCHEME: &str = "skill://";
/// File of a skill that describes it.
const SKILL_FILE: &str = "SKILL.md";
/// Limit on the skills of a page.
const PAGE: usize = 100;

/// Returns the path of a file below the skills that a URI names; `None` for a URI of another scheme.
pub(super) fn path_of(uri: &str) -> Option<Result<String, Refusal>> {
    let path = uri.strip_prefix(SCHEME)?;
    let path = decoded(path.as_bytes()).filter(|path| !path.is_empty());
    Some(path.ok_or_else(|| Refusal::validation("\"uri\" must be a percent-encoded `skill://{name}/{path}`")))
}

/// Lists the skills that apply, from a cursor on.
pub(super) async fn list(client: &Arc<Client>, cursor: Option<String>) -> Result<ListSkillsResult, Refusal> {
    let mut found = listed(client).await?;
    if let Some(cursor) = &cursor {
        let start = found.iter().position(|skill| skill.uri == *cursor).ok_or_else(Refusal::cursor)?;
        found.drain(..=start);
    }
    let has_more = found.len() > PAGE;
    found.truncate(PAGE);
    let next_cursor = found.last().filter(|_| has_more).map(|skill| skill.uri.clone());
    Ok(ListSkillsResult { next_cursor, ..ListSkillsResult::with_all_items(found) })
}

/// Returns the skill whose `SKILL.md` has a URI.
pub(super) async fn get(client: &Arc<Client>, uri: String) -> Result<Skill, Refusal> {
    let found = listed(client).await?.into_iter().find(|skill| skill.uri == uri);
    found.ok_or_else(|| Refusal::validation("there is no such skill; `skills/list` lists them"))
}

/// Reads a file of a skill.
pub(super) async fn read(
    client: &Arc<Client>,
    path: Result<String, Refusal>,
    uri: String,
) -> Result<ReadResourceResult, Refusal> {
    let path = path?;
    let asked = ClientCall::read("skills/read", Tree::Workspace, &[Scope::MemoryRead]);
    let read = client.answer(asked, move |call| {
        Box::pin(async move {
            let opened = open::reach(call, Tree::Workspace).await?;
            let workspace = opened.workspace()?;
            // Others do not apply, and are as good as missing.
            let directory = path.split('/').next().unwrap_or_default();
            if !workspace.skills(&[]).await?.shown.iter().any(|skill| skill.directory == directory) {
                return Err(Refusal::new(Code::NotFound, "there is no such skill; `skills/list` lists them"));
            }
            // Complete: the directory of a skill may have the name `skills`, too.
            let file = workspace.read_skill(&format!("skills/{path}")).await?;
            Ok(contents(uri, file.path.name(), None, &file.bytes))
        })
    });
    Ok(ReadResourceResult::new(vec![read.await?]))
}

async fn listed(client: &Arc<Client>) -> Result<Vec<Skill>, Refusal> {
    let asked = ClientCall::read("skills/list", Tree::Workspace, &[Scope::MemoryRead]);
    let listing = client.answer(asked, |call| {
        Box::pin(async move {
            let opened = open::reach(call, Tree::Workspace).await?;
            Ok(opened.workspace()?.skills(&[]).await?)
        })
    });
    let mut uris = BTreeSet::new();
    let skills = listing.await?.shown.into_iter().map(described);
    // One invalid entry would fail the whole list.
    Ok(skills.filter(|skill| skill.validate().is_ok() && uris.insert(skill.uri.clone())).collect())
}

fn described(skill: ListedSkill) -> Skill {
    let uri = format!("{SCHEME}{}/{SKILL_FILE}", encoded(&skill.directory));
    // Files of skills change, so no digests are promised.
    Skill::new(uri, SkillFrontmatter::new(skill.name, skill.description), SkillResources::Dynamic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_names_a_path_below_the_skills() {
        assert_eq!(path_of("skill://pdf/SKILL.md").unwrap().unwrap(), "pdf/SKILL.md");
        assert_eq!(path_of("skill://a%20b/x").unwrap().unwrap(), "a b/x");
        assert!(path_of("garth:///a").is_none());
        assert!(path_of("skill://%").unwrap().is_err() && path_of("skill://").unwrap().is_err());
    }
}
