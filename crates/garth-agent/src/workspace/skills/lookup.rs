//! Lookup of skills in their directories.

use std::collections::{HashMap, HashSet};

use super::listing::{Listing, NOT_FOLLOWED, Origin, SKILL, SkillReader, SkillSource, judge, skill_file};
use super::missing::found_instead;
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

/// Directory that may be a skill.
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

/// Returns the skills among some directories. `read` returns the `SKILL.md` of a directory. If there is none,
/// `instead` describes the directory, or returns `None` if the directory is not a skill.
pub(crate) fn sources(
    directories: Vec<SkillDirectory>,
    mut read: impl FnMut(&TreePath) -> Option<File>,
    mut instead: impl FnMut(&TreePath) -> Option<String>,
) -> Vec<(String, SkillSource)> {
    let source = |SkillDirectory { name, file: path }: SkillDirectory| {
        let Some(path) = path else { return Some((name, SkillSource::Linked)) };
        let Some(file) = read(&path) else { return Some((name, SkillSource::Missing(instead(&path)?))) };
        let source = match (file.text(), file.kind) {
            (_, Kind::Symlink) => SkillSource::Linked,
            (_, kind) if kind != Kind::File => SkillSource::Missing(format!("its {SKILL} {}", no_file(kind))),
            (Some(text), _) => SkillSource::Text(text.to_owned()),
            (None, _) => SkillSource::Unreadable(why_unreadable(&file)),
        };
        Some((name, source))
    };
    directories.into_iter().filter_map(source).collect()
}

/// Returns a description of the object in the place of a file.
fn no_file(kind: Kind) -> String {
    match kind {
        Kind::Symlink => format!("is a link: {NOT_FOLLOWED}"),
        Kind::Directory => "is a directory; put a file in its place".to_owned(),
        _ => "is no file; put one in its place".to_owned(),
    }
}

/// Returns the reason why a file has no text.
fn why_unreadable(file: &File) -> String {
    match file.bytes {
        Some(_) => "is not UTF-8; store it as UTF-8 text".to_owned(),
        None if file.size > MAX_FILE as u64 => "has more than 1 MiB; shorten it".to_owned(),
        None => format!(
            "is not read, since the files before it have {} MiB together; shorten or remove some",
            MAX_READ >> 20
        ),
    }
}

/// Returns the paths of `SKILL.md` files that are missing for both origins. The agent's copy of a part of a
/// skill needs no `SKILL.md`, because the account's directory of the same name has it.
fn absent(places: [&[SkillDirectory]; 2], files: &HashMap<TreePath, File>) -> Vec<TreePath> {
    let all = || places.into_iter().flatten().filter_map(|one| Some((&one.name, one.file.as_ref()?)));
    let there: HashSet<&String> =
        all().filter(|(_, file)| files.contains_key(*file)).map(|(name, _)| name).collect();
    all().filter(|(name, _)| !there.contains(name)).map(|(_, file)| file.clone()).collect()
}

/// Skill, with its eligibility.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LocatedSkill {
    pub(super) origin: Origin,
    pub(super) path: TreePath,
    pub(super) text: SkillText,
}

impl Workspace<'_> {
    /// Lists the skills of the agent, and which of them are eligible on these hosts.
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
        let files = paths.into_iter().zip(files).filter_map(|(path, file)| Some((path, file?)));
        let mut files: HashMap<TreePath, File> = files.collect();
        let instead = found_instead(&*moment, absent([&own, &global], &files)).await?;
        let [own, global] = [own, global]
            .map(|found| sources(found, |path| files.remove(path), |path| instead.get(path).cloned()));
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

    /// Reads a skill: its content, its location, and whether it is eligible on these hosts, or why not.
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
        let mut no_file_error = None;
        for ((origin, path), file) in origins.into_iter().zip(paths).zip(files) {
            let Some(file) = file else { continue };
            if !file.is_file {
                // As in a listing, it does not hide a skill of the account.
                no_file_error.get_or_insert(Error::at(ErrorKind::InvalidArgument, &path, no_file(file.kind)));
                continue;
            }
            let unreadable = || Error::at(ErrorKind::InvalidArgument, &path, why_unreadable(&file));
            let text = SkillText::parse(file.text().ok_or_else(unreadable)?);
            return Ok(LocatedSkill { origin, path, text });
        }
        if let Some(error) = no_file_error {
            return Err(error);
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

    /// Returns the error for a directory without a skill. It names the skill that has this name in its front
    /// matter.
    pub(super) async fn no_skill(&self, directory: &str) -> Error {
        let message = match self.skills(&[]).await {
            Err(error) => return error,
            Ok(listing) => match (listing.missing(directory), listing.directory_of(directory)) {
                (Some(why), _) => format!("{directory}: {why}"),
                (None, Some(of)) => {
                    format!("{directory}: is the name that the skill in the directory {of} has; write {of}")
                }
                (None, None) => format!("{directory}: neither the agent nor the account has such a skill"),
            },
        };
        Error::new(ErrorKind::NotFound, message)
    }

    /// Returns the directory of the skills of an origin.
    pub(super) fn skill_home(&self, origin: Origin) -> Result<TreePath> {
        match origin {
            Origin::Agent => self.file("skills"),
            Origin::Global => Ok(TreePath::parse("/skills")?),
        }
    }

    /// Checks that the author may write skills of an origin.
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

    /// Returns the path of a file of a skill; `name` may have several segments, but none leads out of the
    /// skill.
    pub(super) fn skill_path(&self, origin: Origin, directory: &str, name: &str) -> Result<TreePath> {
        check_id("skill", directory)?;
        let mut path = TreePath::from_row(self.skill_home(origin)?.key(), directory);
        for segment in name.split('/') {
            path = path.join(&Name::parse(segment)?)?;
        }
        Ok(path)
    }
}
