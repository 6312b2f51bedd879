//! Texts of garth with paths of files: those of the tree that the reader works in, and only paths that the
//! class of the session reaches.

use super::texts;
use crate::identity::{Class, Sharing};
use crate::settings::Settings;
use crate::workspace::handle::Keeper;
use crate::workspace::paths::PathsOf;
use crate::workspace::skills::listing::{Origin, skill_file};
use garth_engine::path::TreePath;

/// Paths in one prompt.
pub(super) struct NamedPaths<'a> {
    pub(super) agent: &'a str,
    pub(super) keeper: &'a Keeper,
    pub(super) settings: &'a Settings,
    /// Tree of the paths; `None` for names relative to the workspace.
    pub(super) of: Option<PathsOf>,
}

impl NamedPaths<'_> {
    /// Returns the first section, unless the settings have another.
    pub(super) fn base(&self) -> String {
        let Some(of) = self.of else { return texts::first::BASE.to_owned() };
        let home = self.shown(of, &format!("/agents/{}", self.agent));
        if self.keeper.class == Class::Main {
            return texts::BASE.replace("{home}", &home);
        }
        let kept = self.shown(of, &format!("/users/{}/agents/{}", self.keeper.audience, self.agent));
        // The shared file takes precedence over the audience's own. One that is read-only cannot be written
        // to.
        let user = match self.settings.shared.get("USER.md") {
            None => texts::USER.replace("{user}", &format!("{kept}/USER.md")),
            Some(Sharing::Write) => texts::USER.replace("{user}", &format!("{home}/USER.md")),
            Some(Sharing::Read) => String::new(),
        };
        texts::BASE_OF_OTHERS.replace("{home}", &home).replace("{kept}", &kept).replace("{user}", &user)
    }

    /// Returns the text before the ceremony.
    pub(super) fn bootstrap(&self) -> String {
        let Some(of) = self.of else { return texts::first::BOOTSTRAP.to_owned() };
        let file = self.shown(of, &format!("/agents/{}/BOOTSTRAP.md", self.agent));
        texts::BOOTSTRAP.replace("{file}", &file)
    }

    /// Returns the path of a skill's file.
    pub(super) fn skill(&self, origin: Origin, directory: &str) -> String {
        let file = skill_file(origin, self.agent, directory);
        match self.of {
            Some(of) => self.shown(of, &file),
            None => file.trim_start_matches('/').to_owned(),
        }
    }

    fn shown(&self, of: PathsOf, path: &str) -> String {
        TreePath::parse(path).map_or_else(|_| path.to_owned(), |path| of.shown(&path).to_string())
    }
}
