//! Where skills are, and which there are.

use super::listing::{Listing, Origin, judge};
use crate::boxed;
use crate::small_file::{read_all, read_with_seq};
use crate::workspace::handle::Workspace;
use crate::workspace::settings::Settings;
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

/// Returns the skills of a directory, however many: the file of each, with its directory's name.
pub(crate) async fn in_directory(fs: &dyn FileSystem, dir: TreePath) -> Result<Vec<(TreePath, String)>> {
    let (mut skills, mut page) = (Vec::new(), Page::default().limit(MAX_PAGE));
    let file = |name: &str| TreePath::from_row(TreePath::from_row(dir.key(), name).key(), SKILL);
    loop {
        let Some(listing) = fs.list(&At::from(&dir), &page).await.optional()? else { return Ok(skills) };
        let dirs = listing.items.iter().filter(|item| item.kind == Kind::Directory);
        skills.extend(dirs.map(|item| (file(item.name.as_str()), item.name.as_str().to_owned())));
        match listing.items.into_iter().next_back().filter(|_| listing.more) {
            Some(last) => page = page.after(last.name),
            None => return Ok(skills),
        }
    }
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
        let paths: Vec<TreePath> = own.iter().chain(&global).map(|(path, _)| path.clone()).collect();
        let (_, files) = read_with_seq(&*moment, &paths, MAX_FILE, MAX_READ).await?;
        let mut files = files.into_iter();
        let [own, global] = [own, global].map(|found| {
            let read = found
                .into_iter()
                .zip(files.by_ref())
                .filter(|(_, file)| file.as_ref().is_some_and(|file| file.is_file));
            let text = |file: Option<crate::small_file::File>| Some(file?.text()?.to_owned());
            read.map(|((_, directory), file)| (directory, text(file))).collect::<Vec<_>>()
        });
        let settings = self.settings().await?;
        let parse = |text: &str| self.known.skill(text);
        let listing = Listing::of(&own, &global, &self.agent, hosts, &settings.skills, &parse);
        go_on()?;
        Ok(listing)
    }

    /// What a skill says, where it lies, and whether it applies to these hosts: why not, if it does not.
    ///
    /// # Errors
    /// `NotFound` if neither the agent nor the account has it; as [`Workspace::skills`].
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
        Ok((text, origin, path, judged.err()))
    }

    pub(super) async fn find_skill(&self, directory: &str) -> Result<LocatedSkill> {
        let origins = [Origin::Agent, Origin::Global];
        let paths = origins.map(|origin| self.skill_path(origin, directory, SKILL));
        let [own, global] = paths;
        let paths = [own?, global?];
        let files = read_all(self.fs, &paths, MAX_FILE).await?;
        for ((origin, path), file) in origins.into_iter().zip(paths).zip(files) {
            let Some(file) = file else { continue };
            let unreadable =
                || Error::at(ErrorKind::InvalidArgument, &path, "is no UTF-8, or has more than 1 MiB");
            let text = SkillText::parse(file.text().ok_or_else(unreadable)?);
            return Ok(LocatedSkill { origin, path, text });
        }
        let message = format!("{directory}: no such skill: neither the agent nor the account has it");
        Err(Error::new(ErrorKind::NotFound, message))
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
