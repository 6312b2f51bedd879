//! Files of a prompt, read at one point in time: two directories of skills, and all files in one read.

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

/// Files of a workspace that are sections of the prompt, by the names of these sections.
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

/// Name of the file of instruction fragments.
const FRAGMENTS: &str = "fragments.jsonl";

/// Files of one prompt.
pub(super) struct Files {
    /// Commit after which they were read.
    pub(super) seq: Seq,
    pub(super) settings: Settings,
    pub(super) zone: Zone,
    /// Existing files, by section.
    pub(super) texts: BTreeMap<&'static str, Text>,
    pub(super) fragments: Option<Text>,
    /// Memory of yesterday and today.
    pub(super) days: [Daily; 2],
    /// Memory of other audiences of these days, for a main session.
    pub(super) others: Vec<OtherDay>,
    /// Session of the prompt.
    pub(super) session: Option<Meta>,
    /// Owner of its memory.
    pub(super) keeper: Keeper,
    /// Skills by their directories: the agent's, and those of all agents.
    pub(super) skills: [Vec<(String, SkillSource)>; 2],
}

/// Existing file.
pub(super) struct Text {
    pub(super) path: TreePath,
    pub(super) file: File,
    pub(super) text: String,
}

/// Memory of a day.
pub(super) struct Daily {
    pub(super) day: Day,
    /// Existing files, with their parts by the class of the writers.
    pub(super) files: Vec<(TreePath, File, Vec<DailySection>)>,
}

impl Files {
    /// Reads the files. `fs` is a snapshot. Files that had expired by `read_at` are omitted: a snapshot by
    /// commit still has them.
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
        // Today and yesterday in every time zone: that of the agent is in the settings, which this read
        // fetches.
        let utc = Zone::default().day(time);
        let days = [utc.before().before(), utc.before(), utc, utc.after()];
        let days =
            days.into_iter().map(|day| workspace.day_files(&keeper, day)).collect::<Result<Vec<_>>>()?;
        let paths: Vec<TreePath> = [&settings, &fragments]
            .into_iter()
            .chain(sections.iter().map(|(_, path)| path))
            .chain(days.iter().flatten())
            // Last, because files beyond the limit count as unreadable: a prompt is built without those
            // skills.
            .chain(skills.iter().flatten().filter_map(SkillDirectory::file))
            .cloned()
            .collect();
        let (seq, files) = read_with_seq(fs, &paths, MAX_FILE, MAX_READ).await?;
        let is_gone = |file: &File| file.expires_at.is_some_and(|end| read_at.is_some_and(|at| end <= at));
        let mut files: HashMap<TreePath, File> =
            paths.into_iter().zip(files).filter_map(|(path, file)| Some((path, file?))).collect();
        files.retain(|_, file| !is_gone(file));
        let settings = Settings::read(&settings, files.remove(&settings).as_ref())?;
        // A prompt does not report directories without a skill.
        let skills = skills.map(|some| sources(some, |path| files.remove(path), |_| None));
        // Directories and links are not files of a prompt.
        files.retain(|_, file| file.is_file);
        let zone = settings.zone()?;
        let fragments = text(fragments, &mut files)?;
        let mut texts = BTreeMap::new();
        for (section, path) in sections {
            // The agent's `USER.md` is for other audiences only if it is shared.
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
        // From the unconfined account: the files of other audiences are outside of this one.
        let others = other_days(workspace, seq, &keeper, others).await?;
        Ok(Self { seq, settings, zone, texts, fragments, days, others, session, keeper, skills })
    }
}

impl Files {
    /// Returns the days of an audience other than the owner whose marks are missing or outdated.
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

/// Removes a file from those that were read, and returns it with its text.
fn text(path: TreePath, files: &mut HashMap<TreePath, File>) -> Result<Option<Text>> {
    let Some(file) = files.remove(&path) else { return Ok(None) };
    let text = text_of(&path, &file)?.to_owned();
    Ok(Some(Text { path, file, text }))
}

/// Removes the files of a day's memory from those that were read, and returns them.
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

/// Returns the files of the sections. The agent's `USER.md` comes before that of the audience.
fn sections(workspace: &Workspace<'_>, keeper: &Keeper) -> Result<Vec<(&'static str, TreePath)>> {
    let mut sections = Vec::new();
    for (section, name) in FILES {
        if keeper.class == Class::Main {
            sections.push((section, workspace.file(name)?));
            continue;
        }
        match section {
            // The first run is the owner's.
            "bootstrap" => {}
            "memory" => sections.push((section, workspace.kept_file(keeper, "memory/MEMORY.md")?)),
            "user" => {
                // The shared file takes precedence over the audience's own.
                sections.push((section, workspace.file(name)?));
                sections.push((section, workspace.kept_file(keeper, name)?));
            }
            _ => sections.push((section, workspace.file(name)?)),
        }
    }
    Ok(sections)
}

/// Memory of another audience of a day.
pub(super) struct OtherDay {
    pub(super) audience: String,
    pub(super) day: Day,
    pub(super) text: String,
}

/// Reads the files of other audiences found by [`daily::others`].
async fn other_days(
    workspace: &Workspace<'_>,
    seq: Seq,
    keeper: &Keeper,
    paths: &[String],
) -> Result<Vec<OtherDay>> {
    if keeper.class != Class::Main || paths.is_empty() {
        return Ok(Vec::new());
    }
    // The same point in time as all other files.
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
