//! What a prompt is made of, read at one moment: two directories of skills, and all files at once.

use std::collections::{BTreeMap, HashMap};

use crate::identity::Class;
use crate::session::Meta;
use crate::settings::{SETTINGS, Settings};
use crate::small_file::{File, read_all, read_with_seq};
use crate::time_zone::{Day, Zone};
use crate::workspace::daily;
use crate::workspace::daily::DailySection;
use crate::workspace::handle::{Keeper, Workspace};
use crate::workspace::skills::listing::SkillSource;
use crate::workspace::skills::lookup::{SkillDirectory, in_directory, sources};
use crate::workspace::text_file::{MAX_FILE, MAX_READ, text_of};
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::{Moment, Seq, Timestamp, VersionId};
use garth_engine::path::TreePath;

/// The files of a workspace that are sections of the prompt, by their names there.
pub(super) const FILES: [(&str, &str); 8] = [
    ("bootstrap", "BOOTSTRAP.md"),
    ("soul", "SOUL.md"),
    ("identity", "IDENTITY.md"),
    ("user", "USER.md"),
    ("agents", "AGENTS.md"),
    ("memory", "MEMORY.md"),
    ("tools", "TOOLS.md"),
    ("heartbeat", "HEARTBEAT.md"),
];

/// Sections whose files are the agent's for every audience.
const OPEN: [&str; 5] = ["soul", "identity", "agents", "tools", "heartbeat"];

/// The name of the file of instruction fragments.
const FRAGMENTS: &str = "fragments.jsonl";

/// See the module.
pub(super) struct Files {
    /// The commit after which they were read.
    pub(super) seq: Seq,
    pub(super) settings: Settings,
    pub(super) zone: Zone,
    /// Those that are there, by name.
    pub(super) texts: BTreeMap<&'static str, Text>,
    pub(super) fragments: Option<Text>,
    /// Yesterday and today.
    pub(super) days: [Daily; 2],
    /// What other audiences remember of these days, for a main session.
    pub(super) others: Vec<OtherDay>,
    /// The session that the prompt is for.
    pub(super) session: Option<Meta>,
    /// Whose memory it has.
    pub(super) keeper: Keeper,
    /// Skills by their directories: the agent's, and those of all.
    pub(super) skills: [Vec<(String, SkillSource)>; 2],
}

/// A file that is there.
pub(super) struct Text {
    pub(super) path: TreePath,
    pub(super) file: File,
    pub(super) text: String,
}

/// The memory of a day.
pub(super) struct Daily {
    pub(super) day: Day,
    /// Its files that are there, with what is in them by the classes that wrote it.
    pub(super) files: Vec<(TreePath, File, Vec<DailySection>)>,
}

impl Files {
    /// Reads them; `fs` does not change meanwhile. What had expired by `read_at` is not there: a moment that
    /// is known by its commit has it still.
    pub(super) async fn read(
        workspace: &Workspace<'_>,
        fs: &dyn FileSystem,
        session: Option<&(String, String)>,
        (time, others): (Timestamp, &[String]),
        read_at: Option<Timestamp>,
    ) -> Result<Self> {
        let session = match session {
            Some((user, session)) => {
                let sessions = workspace.sessions(fs, user)?;
                Some(sessions.meta(session).await?.1)
            }
            None => None,
        };
        let keeper = workspace.keeper(session.as_ref())?;
        let own = in_directory(fs, workspace.file("skills")?).await?;
        let skills = [own, in_directory(fs, TreePath::parse("/skills")?).await?];
        let (settings, fragments) = (workspace.file(SETTINGS)?, workspace.file(FRAGMENTS)?);
        let sections = sections(workspace, &keeper)?;
        // today and yesterday in every time zone: which is the agent's is not known yet
        let utc = Zone::default().day(time);
        let days = [utc.before().before(), utc.before(), utc, utc.after()];
        let days =
            days.into_iter().map(|day| workspace.day_files(&keeper, day)).collect::<Result<Vec<_>>>()?;
        let paths: Vec<TreePath> = [&settings, &fragments]
            .into_iter()
            .chain(sections.iter().map(|(_, path)| path))
            .chain(days.iter().flatten())
            // Last, since those beyond the bytes that are read count as unreadable: a prompt is built
            // without.
            .chain(skills.iter().flatten().filter_map(SkillDirectory::file))
            .cloned()
            .collect();
        let (seq, files) = read_with_seq(fs, &paths, MAX_FILE, MAX_READ).await?;
        let is_gone = |file: &File| file.expires_at.is_some_and(|end| read_at.is_some_and(|at| end <= at));
        let mut files: HashMap<TreePath, File> =
            paths.into_iter().zip(files).filter_map(|(path, file)| Some((path, file?))).collect();
        files.retain(|_, file| !is_gone(file));
        let settings = Settings::read(&settings, files.remove(&settings).as_ref())?;
        // a prompt says nothing of directories that are no skills
        let skills = skills.map(|some| sources(some, |path| files.remove(path), |_| None));
        // neither directories nor links are files of a prompt
        files.retain(|_, file| file.is_file);
        let zone = settings.zone()?;
        let fragments = text(fragments, &mut files)?;
        let mut texts = BTreeMap::new();
        for (section, path) in sections {
            // the agent's file of its human is for others where it is shared
            let is_taken_back = section == "user" && texts.contains_key("user");
            let is_shared = !path.is_within(&workspace.home()?)
                || keeper.class == Class::Main
                || OPEN.contains(&section)
                || settings.shared.contains_key("USER.md");
            if is_shared && !is_taken_back {
                texts.extend(text(path, &mut files)?.map(|text| (section, text)));
            }
        }
        let today = zone.day(time);
        let days = [
            daily(workspace, fs, &keeper, today.before(), &mut files).await?,
            daily(workspace, fs, &keeper, today, &mut files).await?,
        ];
        let others = other_days(workspace, seq, &keeper, others).await?;
        Ok(Self { seq, settings, zone, texts, fragments, days, others, session, keeper, skills })
    }
}

impl Files {
    /// Returns the days of an audience other than the owner whose marks are missing or of an earlier version.
    pub(super) fn unmarked(&self) -> Vec<(TreePath, VersionId, Day)> {
        if self.keeper.class == Class::Main {
            return Vec::new();
        }
        let files = self.days.iter().flat_map(|daily| daily.files.iter().map(|file| (daily.day, file)));
        let of = |(day, (path, file, _)): (Day, &(TreePath, File, Vec<DailySection>))| {
            let marked =
                file.metadata.get(daily::DAY_OF).is_some_and(|mark| daily::is_mark_of(mark, file.etag.seq));
            (!marked).then(|| (path.clone(), file.etag, day))
        };
        files.filter_map(of).collect()
    }
}

/// Takes a file that is there out of those that were read, with its text.
fn text(path: TreePath, files: &mut HashMap<TreePath, File>) -> Result<Option<Text>> {
    let Some(file) = files.remove(&path) else { return Ok(None) };
    let text = text_of(&path, &file)?.to_owned();
    Ok(Some(Text { path, file, text }))
}

/// Takes the memory of a day out of the files that were read.
async fn daily(
    workspace: &Workspace<'_>,
    fs: &dyn FileSystem,
    keeper: &Keeper,
    day: Day,
    files: &mut HashMap<TreePath, File>,
) -> Result<Daily> {
    let mut found = Vec::new();
    for path in workspace.day_files(keeper, day)? {
        let Some(file) = files.remove(&path) else { continue };
        let parts = daily::parts(fs, &path, &file, keeper).await?;
        found.push((path, file, parts));
    }
    Ok(Daily { day, files: found })
}

/// Returns the files of the sections, by section. Those of the audience come before the agent's.
fn sections(workspace: &Workspace<'_>, keeper: &Keeper) -> Result<Vec<(&'static str, TreePath)>> {
    let mut sections = Vec::new();
    for (section, name) in FILES {
        if keeper.class == Class::Main {
            sections.push((section, workspace.file(name)?));
            continue;
        }
        match section {
            // a first run is the owner's
            "bootstrap" => {}
            "memory" => sections.push((section, workspace.kept_file(keeper, "memory/MEMORY.md")?)),
            "user" => {
                // what is shared takes the place of the audience's own
                sections.push((section, workspace.file(name)?));
                sections.push((section, workspace.kept_file(keeper, name)?));
            }
            _ => sections.push((section, workspace.file(name)?)),
        }
    }
    Ok(sections)
}

/// What another audience remembers of a day.
pub(super) struct OtherDay {
    pub(super) audience: String,
    pub(super) day: Day,
    pub(super) text: String,
}

/// Reads what other audiences remember, of files that [`daily::others`] found.
async fn other_days(
    workspace: &Workspace<'_>,
    seq: Seq,
    keeper: &Keeper,
    paths: &[String],
) -> Result<Vec<OtherDay>> {
    if keeper.class != Class::Main || paths.is_empty() {
        return Ok(Vec::new());
    }
    // the moment of all other files
    let then = workspace.whole().as_of(&Moment::Seq(seq)).await?;
    let paths = paths.iter().filter_map(|path| TreePath::parse(path).ok());
    let of = |path: TreePath| {
        let (audience, day) = daily::of_audience(&path, &workspace.agent)?;
        Some((path, audience, day))
    };
    let days: Vec<_> = paths.filter_map(of).collect();
    let files: Vec<TreePath> = days.iter().map(|(path, ..)| path.clone()).collect();
    let read = read_all(&*then, &files, MAX_FILE).await?;
    let day = |((_, audience, day), file): ((TreePath, String, Day), Option<File>)| {
        let text = file?.text()?.trim().to_owned();
        (!text.is_empty()).then_some(OtherDay { audience, day, text })
    };
    Ok(days.into_iter().zip(read).filter_map(day).collect())
}
