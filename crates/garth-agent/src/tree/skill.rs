//! Skills in an agent's tree: layers of the account or the host, of the agent, and a writable one.

use std::sync::Arc;

use super::directories::{are_there, kept};
use crate::identity::Identity;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::Owner;
use garth_engine::path::{Name, TreePath, check_id};
use garth_engine::view::mount::Builder;
use garth_engine::view::overlay::Places;
use garth_engine::view::{Overlay, Scope};

/// Skill that an agent may use, with the place of its changes.
#[derive(Clone, Debug)]
pub struct Skill {
    id: String,
    /// Bottom layer in place of the account's skill.
    from: Option<Arc<dyn FileSystem>>,
    /// Writable layer that is discarded with the tree; without it, changes go to the agent's copy.
    scratch: Option<Arc<dyn FileSystem>>,
}

impl Skill {
    /// Returns a skill whose changes are stored in the agent's copy, `agents/{agent}/skills/{skill}`, file by
    /// file.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id.
    pub fn overriding(id: &str) -> Result<Self> {
        check_id("skill", id)?;
        Ok(Self { id: id.to_owned(), from: None, scratch: None })
    }

    /// Returns a skill whose changes go to `scratch`, such as a tree in memory, and are lost with it. Several
    /// skills may share one.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id.
    pub fn ephemeral(id: &str, scratch: Arc<dyn FileSystem>) -> Result<Self> {
        Ok(Self { scratch: Some(scratch), ..Self::overriding(id)? })
    }

    /// Sets a tree, such as a folder of the host, as the bottom layer in place of the account's skill.
    #[must_use]
    pub fn from(self, fs: Arc<dyn FileSystem>) -> Self {
        Self { from: Some(fs), ..self }
    }
}

/// Existing skill, with the places of its layers.
pub(super) struct SkillLayers<'a> {
    skill: &'a Skill,
    /// Path in the tree.
    at: TreePath,
    /// Path of the account's skill, if that is the bottom layer.
    of_account: Option<TreePath>,
    of_agent: TreePath,
    /// True if the agent has a copy, or hides a file of the lower layer.
    is_changed: bool,
    /// Directory of the overlay state of the copy.
    kept: TreePath,
}

/// Returns the places of each skill.
///
/// # Errors
/// `NotFound` for a skill that neither the account nor the agent has; from the storage.
pub(super) async fn find<'a>(
    raw: &dyn FileSystem,
    who: &Identity,
    skills: &'a [Skill],
) -> Result<Vec<SkillLayers<'a>>> {
    let path = |text: String| TreePath::parse(&text);
    // The three parent directories first: most agents have changed no skill, which saves the lookups of each.
    let homes =
        [path("/skills".into())?, path(format!("/agents/{}/skills", who.agent()))?, kept(who.agent())?];
    let made = are_there(raw, &homes.each_ref()).await?;
    let mut places = Vec::with_capacity(homes.len() * skills.len());
    for Skill { id, .. } in skills {
        for home in &homes {
            places.push(home.join(&Name::parse(id)?)?);
        }
    }
    let maybe: Vec<bool> = made.iter().copied().cycle().take(places.len()).collect();
    let asked: Vec<&TreePath> =
        places.iter().zip(&maybe).filter(|(_, maybe)| **maybe).map(|(at, _)| at).collect();
    let mut answers = are_there(raw, &asked).await?.into_iter();
    let there: Vec<bool> = maybe.iter().map(|maybe| *maybe && answers.next().unwrap_or_default()).collect();
    let mut found = Vec::with_capacity(skills.len());
    for ((skill, place), there) in skills.iter().zip(places.chunks(3)).zip(there.chunks(3)) {
        let ([of_account, of_agent, kept], [in_account, has_copy, hides]) = (place, there) else { continue };
        if !in_account && skill.from.is_none() && !has_copy {
            let message = format!("no such skill: {}", skill.id);
            return Err(Error::at(ErrorKind::NotFound, of_account, message));
        }
        let of_account = Some(of_account.clone()).filter(|_| skill.from.is_none() && *in_account);
        found.push(SkillLayers {
            at: path(format!("/skills/{}", skill.id))?,
            of_account,
            of_agent: of_agent.clone(),
            is_changed: *has_copy || *hides,
            kept: kept.clone(),
            skill,
        });
    }
    Ok(found)
}

/// Returns true if a skill needs overlay state besides the agent's copy.
pub(super) fn keeps(found: &[SkillLayers<'_>]) -> bool {
    found.iter().any(|found| found.skill.scratch.is_none() && found.has_lower())
}

impl SkillLayers<'_> {
    /// Returns true if a layer lies below the agent's copy.
    fn has_lower(&self) -> bool {
        self.of_account.is_some() || self.skill.from.is_some()
    }

    /// Returns the paths of the account that the skill needs besides the agent's.
    pub(super) fn reach(&self) -> Result<Vec<TreePath>> {
        let kept = self.kept.parent().filter(|_| self.has_lower());
        Ok(self.of_account.iter().cloned().chain(kept).collect())
    }

    /// Mounts the skill in a tree over `base`, which reaches all its layers.
    pub(super) async fn mounted<'b>(
        self,
        tree: Builder<'b>,
        base: &Arc<dyn FileSystem>,
    ) -> Result<Builder<'b>> {
        let scope = async |root: &TreePath| Scope::of(&**base, root, Owner::of_path(root)?).await;
        let lower = match (&self.skill.from, &self.of_account) {
            (Some(from), _) => Some(Arc::clone(from)),
            (None, Some(root)) => Some(scope(root).await?),
            (None, None) => None,
        };
        // The agent also writes its copy through `/.agent`, so the overlay is not the only writer.
        let copy = Places { tree: self.of_agent.clone(), alone: false, ..Places::below(&self.kept)? };
        let with_copy = |lower: Arc<dyn FileSystem>| Overlay::layered(lower, Arc::clone(base), copy);
        let Some(scratch) = &self.skill.scratch else {
            return Ok(match lower {
                Some(lower) => tree.mount(self.at, with_copy(lower).await?),
                None => tree.directory(self.at, self.of_agent),
            });
        };
        let lower = match lower {
            Some(lower) if self.is_changed => with_copy(lower).await?,
            Some(lower) => lower,
            // Without a lower layer the agent's copy is the skill itself.
            None => scope(&self.of_agent).await?,
        };
        let above = Places::below(&TreePath::root().join(&Name::parse(&self.skill.id)?)?)?;
        Ok(tree.mount(self.at, Overlay::layered(lower, Arc::clone(scratch), above).await?))
    }
}
