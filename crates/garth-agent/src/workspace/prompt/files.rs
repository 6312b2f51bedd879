//! What a prompt is made of, read at one moment: two directories of skills, and all files at once.

use std::collections::{BTreeMap, HashMap};

use crate::session::{Meta, Sessions};
use crate::small_file::{File, read_with_seq};
use crate::workspace::daily;
use crate::workspace::daily::Memory;
use crate::workspace::handle::Workspace;
use crate::workspace::settings::{SETTINGS, Settings};
use crate::workspace::skills::lookup::in_directory;
use crate::workspace::text_file::{MAX_FILE, MAX_READ, text_of};
use crate::workspace::time_zone::{Day, Zone};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Seq, Timestamp};
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
    /// The session that the prompt is for.
    pub(super) session: Option<Meta>,
    /// Skills by their directories: the agent's, and those of all.
    pub(super) skills: [Vec<(String, Option<String>)>; 2],
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
    pub(super) path: TreePath,
    /// What is there, by the classes that wrote it.
    pub(super) file: Option<(File, Vec<Memory>)>,
}

impl Files {
    /// Reads them; `fs` does not change meanwhile. What had expired by `read_at` is not there: a moment that
    /// is known by its commit has it still.
    pub(super) async fn read(
        workspace: &Workspace<'_>,
        fs: &dyn FileSystem,
        session: Option<&(String, String)>,
        time: Timestamp,
        read_at: Option<Timestamp>,
    ) -> Result<Self> {
        let own = in_directory(fs, workspace.file("skills")?).await?;
        let skills = [own, in_directory(fs, TreePath::parse("/skills")?).await?];
        let (settings, fragments) = (workspace.file(SETTINGS)?, workspace.file(FRAGMENTS)?);
        let sections = FILES.into_iter().map(|(section, name)| Ok((section, workspace.file(name)?)));
        let sections = sections.collect::<Result<Vec<_>>>()?;
        // today and yesterday in every time zone: which is the agent's is not known yet
        let utc = Zone::default().day(time);
        let days = [utc.before().before(), utc.before(), utc, utc.after()];
        let days = days.into_iter().map(|day| workspace.day_file(day)).collect::<Result<Vec<_>>>()?;
        let meta_file = match session {
            Some((user, session)) => {
                let sessions = Sessions::new(fs, user, &workspace.agent, workspace.env.clone())?;
                Some(TreePath::from_row(sessions.directory(session)?.key(), "meta.json"))
            }
            None => None,
        };
        let paths: Vec<TreePath> = [&settings, &fragments]
            .into_iter()
            .chain(sections.iter().map(|(_, path)| path))
            .chain(&days)
            .chain(&meta_file)
            // Last, since those beyond the bytes that are read count as unreadable: a prompt is built
            // without.
            .chain(skills.iter().flatten().map(|(path, _)| path))
            .cloned()
            .collect();
        let (seq, files) = read_with_seq(fs, &paths, MAX_FILE, MAX_READ).await?;
        let is_gone = |file: &File| file.expires_at.is_some_and(|end| read_at.is_some_and(|at| end <= at));
        let mut files: HashMap<TreePath, File> =
            paths.into_iter().zip(files).filter_map(|(path, file)| Some((path, file?))).collect();
        files.retain(|_, file| !is_gone(file));
        let settings = Settings::read(&settings, files.remove(&settings).as_ref())?;
        let zone = settings.zone()?;
        let fragments = text(fragments, &mut files)?;
        let mut texts = BTreeMap::new();
        for (section, path) in sections {
            texts.extend(text(path, &mut files)?.map(|text| (section, text)));
        }
        let today = zone.day(time);
        let days = [
            daily(workspace, fs, today.before(), &mut files).await?,
            daily(workspace, fs, today, &mut files).await?,
        ];
        let skills = skills.map(|some| {
            let found = some.into_iter().filter_map(|(path, directory)| {
                let file = files.remove(&path)?;
                Some((directory, file.text().map(str::to_owned)))
            });
            found.collect()
        });
        let session = match (session, meta_file) {
            (Some((_, name)), Some(path)) => Some(meta(name, &path, files.remove(&path))?),
            _ => None,
        };
        Ok(Self { seq, settings, zone, texts, fragments, days, session, skills })
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
    day: Day,
    files: &mut HashMap<TreePath, File>,
) -> Result<Daily> {
    let path = workspace.day_file(day)?;
    let file = match files.remove(&path) {
        Some(file) => {
            let parts = daily::parts(fs, &path, &file).await?;
            Some((file, parts))
        }
        None => None,
    };
    Ok(Daily { day, path, file })
}

fn meta(name: &str, path: &TreePath, file: Option<File>) -> Result<Meta> {
    let missing =
        || Error::new(ErrorKind::NotFound, format!("{name}: there is no such session; create it first"));
    Meta::read(path, &file.ok_or_else(missing)?)
}
