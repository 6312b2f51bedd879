//! Where skills are, and which there are.

use std::collections::HashMap;

use super::listing::{Listing, NOT_FOLLOWED, Origin, SkillReader, SkillSource, judge, skill_file};
use crate::boxed;
use crate::settings::Settings;
use crate::small_file::{File, read_all, read_with_seq};
use crate::workspace::handle::Workspace;
use crate::workspace::reading::Reading;
use crate::workspace::skill_md::front_matter::SkillText;
use crate::workspace::skill_md::requires::{Host, KnownHosts, check_hosts};
use crate::workspace::text_file::{MAX_FILE, MAX_READ};
use garth_engine::compute::go_on;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Kind, MAX_PAGE, Page};
use garth_engine::path::{Name, TreePath, check_id};

/// The file that makes a directory a skill.
pub(super) const SKILL: &str = "SKILL.md";

/// A directory that may be a skill.
#[derive(Clone, Debug)]
pub(crate) struct SkillDirectory {
    name: String,
    /// Its `SKILL.md`; `None` for a link in the place of a directory.
    file: Option<TreePath>,
}

impl SkillDirectory {
    /// Returns the path of its `SKILL.md`; `None` for a link.
    pub(crate) fn file(&self) -> Option<&TreePath> {
        self.file.as_ref()
    }
}

/// Returns the skills of a directory, however many.
pub(crate) async fn in_directory(fs: &dyn FileSystem, dir: TreePath) -> Result<Vec<SkillDirectory>> {
    let (mut skills, mut page) = (Vec::new(), Page::default().limit(MAX_PAGE));
    loop {
        let Some(listing) = fs.list(&At::from(&dir), &page).await.optional()? else { return Ok(skills) };
        for item in &listing.items {
            let name = item.name.as_str();
            let file = match item.kind {
                Kind::Directory => Some(TreePath::from_row(TreePath::from_row(dir.key(), name).key(), SKILL)),
                Kind::Symlink => None,
                _ => continue,
            };
            skills.push(SkillDirectory { name: name.to_owned(), file });
        }
        match listing.items.into_iter().next_back().filter(|_| listing.more) {
            Some(last) => page = page.after(last.name),
            None => return Ok(skills),
        }
    }
}

/// Returns the skills among directories, of the files that were read of them. A directory without a
/// `SKILL.md` is none.
pub(crate) fn sources(
    directories: Vec<SkillDirectory>,
    mut read: impl FnMut(&TreePath) -> Option<File>,
) -> Vec<(String, SkillSource)> {
    let source = |SkillDirectory { name, file }: SkillDirectory| {
        let Some(file) = file else { return Some((name, SkillSource::Linked)) };
        let file = read(&file)?;
        Some((
            name,
            match file.text() {
                _ if !file.is_file => SkillSource::Linked,
                Some(text) => SkillSource::Text(text.to_owned()),
                None => SkillSource::Unreadable,
            },
        ))
    };
    directories.into_iter().filter_map(source).collect()
}

/// A skill, and whether it applies.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LocatedSkill {
    pub(super) origin: Origin,
    pub(super) path: TreePath,
    pub(super) text: SkillText,
}

impl Workspace<'_> {
    /// Which skills the agent has, and which apply to these hosts.
    ///
    /// # Errors
    /// `Corrupt` for settings that cannot be read; from the filesystem.
    #[boxed]
    pub async fn skills(&self, hosts: &[Host]) -> Result<Listing> {
        check_hosts(hosts)?;
        let moment = self.moment(None).await?;
        let own = in_directory(&*moment, self.skill_home(Origin::Agent)?).await?;
        let global = in_directory(&*moment, self.skill_home(Origin::Global)?).await?;
        let paths: Vec<TreePath> =
            own.iter().chain(&global).filter_map(SkillDirectory::file).cloned().collect();
        let (_, files) = read_with_seq(&*moment, &paths, MAX_FILE, MAX_READ).await?;
        let mut files: HashMap<TreePath, Option<File>> = paths.into_iter().zip(files).collect();
        let [own, global] = [own, global].map(|found| sources(found, |path| files.remove(path).flatten()));
        let settings = self.settings().await?;
        let parse = |text: &str| self.known.skill(text, Reading::Now);
        let read_path = |origin, directory: &str| {
            let file = skill_file(origin, &self.agent, directory);
            TreePath::parse(&file).map_or(file, |file| self.paths.shown(&file).to_string())
        };
        let read = SkillReader { reading: Reading::Now, parse: &parse, read_path: &read_path };
        let listing = Listing::of(&own, &global, hosts, &settings.skills, &read);
        go_on()?;
        Ok(listing)
    }

    /// What a skill says, where it is read, and whether it applies to these hosts: why not, if it does not.
    ///
    /// # Errors
    /// `NotFound` if neither the agent nor the account has it; `InvalidArgument` for one that is a link or no
    /// text; as [`Workspace::skills`].
    #[boxed]
    pub async fn skill(
        &self,
        directory: &str,
        hosts: &[Host],
    ) -> Result<(SkillText, Origin, TreePath, Option<(super::listing::Reason, String)>)> {
        check_hosts(hosts)?;
        let LocatedSkill { origin, path, text } = self.find_skill(directory).await?;
        let settings: Settings = self.settings().await?;
        let judged = judge(directory, &text, &KnownHosts::of(hosts), &settings.skills);
        Ok((text, origin, self.paths.shown(&path), judged.err()))
    }

    pub(super) async fn find_skill(&self, directory: &str) -> Result<LocatedSkill> {
        let origins = [Origin::Agent, Origin::Global];
        let paths = origins.map(|origin| self.skill_path(origin, directory, SKILL));
        let [own, global] = paths;
        let paths = [own?, global?];
        let files = read_all(self.fs, &paths, MAX_FILE).await?;
        let links = paths.clone().map(|path| path.parent());
        for ((origin, path), file) in origins.into_iter().zip(paths).zip(files) {
            let Some(file) = file else { continue };
            let why = match file.is_file {
                true => "is no UTF-8, or has more than 1 MiB".to_owned(),
                false => format!("is a link or no file: {NOT_FOLLOWED}"),
            };
            let unreadable = || Error::at(ErrorKind::InvalidArgument, &path, why);
            let text = SkillText::parse(file.text().ok_or_else(unreadable)?);
            return Ok(LocatedSkill { origin, path, text });
        }
        for path in links.into_iter().flatten() {
            let there = self.fs.stat(&At::from(&path)).await.optional()?;
            if there.is_some_and(|there| there.kind == Kind::Symlink) {
                let message = format!("is a link: {NOT_FOLLOWED}");
                return Err(Error::at(ErrorKind::InvalidArgument, &path, message));
            }
        }
        Err(self.no_skill(directory).await)
    }

    /// Returns the error for a directory that is no skill. Names the skill that calls itself so.
    pub(super) async fn no_skill(&self, directory: &str) -> Error {
        let message = match self.skills(&[]).await {
            Err(error) => return error,
            Ok(listing) => listing.directory_of(directory).map_or_else(
                || format!("{directory}: neither the agent nor the account has such a skill"),
                |of| format!("{directory}: is the name that the skill in the directory {of} has; write {of}"),
            ),
        };
        Error::new(ErrorKind::NotFound, message)
    }

    /// Where skills of an origin are.
    pub(super) fn skill_home(&self, origin: Origin) -> Result<TreePath> {
        match origin {
            Origin::Agent => self.file("skills"),
            Origin::Global => Ok(TreePath::parse("/skills")?),
        }
    }

    /// Refuses to write skills of an origin where they are only read.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub(super) fn check_skills_writable(&self, origin: Origin) -> Result<()> {
        let Some(own) = &self.own else { return Ok(()) };
        let (agent, home) = (&self.agent, self.skill_home(origin)?);
        let message = match origin {
            Origin::Agent if !own.writes(&home) => format!(
                "sessions of the owner change the skills of {agent}; name the owner as the user, or let others \
                 change them by `shared` in settings.json"
            ),
            Origin::Global if own.is_in_session() => {
                "nobody changes the skills of all agents in a session; name no user, session or key"
                    .to_owned()
            }
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::AccessDenied, message))
    }

    /// A file of a skill; `name` may have several segments, none of which leads out of it.
    pub(super) fn skill_path(&self, origin: Origin, directory: &str, name: &str) -> Result<TreePath> {
        check_id("skill", directory)?;
        let mut path = TreePath::from_row(self.skill_home(origin)?.key(), directory);
        for segment in name.split('/') {
            path = path.join(&Name::parse(segment)?)?;
        }
        Ok(path)
    }
}
