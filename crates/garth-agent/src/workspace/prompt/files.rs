//! What a prompt is made of, read at one moment: two directories of skills, and all files at once.

use std::collections::BTreeMap;

use crate::session::{Meta, Sessions};
use crate::small_file::{File, read_with_seq};
use crate::workspace::clock::{Day, Zone};
use crate::workspace::daily;
use crate::workspace::daily::Memory;
use crate::workspace::handle::Workspace;
use crate::workspace::settings::{SETTINGS, Settings};
use crate::workspace::skills::lookup::in_directory;
use crate::workspace::text_file::MAX_FILE;
use crate::workspace::text_file::text_of;
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

/// Most bytes of all files together: 32 MiB.
const MAX_READ: usize = 32 << 20;

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
        let mut paths = vec![workspace.file(SETTINGS)?, workspace.file(FRAGMENTS)?];
        for (_, name) in FILES {
            paths.push(workspace.file(name)?);
        }
        // today and yesterday in every time zone: which is the agent's is not known yet
        let utc = Zone::default().day(time);
        let days = [utc.before().before(), utc.before(), utc, utc.after()];
        for day in days {
            paths.push(workspace.day_file(day)?);
        }
        for (path, _) in skills.iter().flatten() {
            paths.push(path.clone());
        }
        if let Some((user, session)) = session {
            let sessions = Sessions::new(fs, user, &workspace.agent, workspace.env.clone())?;
            paths.push(TreePath::from_row(sessions.directory(session)?.key(), "meta.json"));
        }
        let (seq, files) = read_with_seq(fs, &paths, MAX_FILE, MAX_READ).await?;
        let is_gone = |file: &File| file.expires_at.is_some_and(|end| read_at.is_some_and(|at| end <= at));
        let files = files.into_iter().map(|file| file.filter(|file| !is_gone(file)));
        let mut files = paths.into_iter().zip(files);
        let settings = Settings::of(files.next().and_then(|(_, file)| file).as_ref())?;
        let zone = settings.zone()?;
        let fragments = files.next().and_then(|(path, file)| text(path, file)).transpose()?;
        let mut texts = BTreeMap::new();
        for ((name, _), (path, file)) in FILES.into_iter().zip(&mut files) {
            if let Some(text) = text(path, file) {
                texts.insert(name, text?);
            }
        }
        let mut of_days: BTreeMap<Day, _> = days.into_iter().zip(files.by_ref().take(days.len())).collect();
        let today = zone.day(time);
        let [yesterday, today] = [today.before(), today].map(|day| (day, of_days.remove(&day)));
        let days = [daily(workspace, fs, yesterday).await?, daily(workspace, fs, today).await?];
        let skills = skills.map(|some| {
            let files = files.by_ref().take(some.len());
            let text = |file: Option<File>| Some(file?.text()?.to_owned());
            let found = some.into_iter().zip(files).filter(|(_, (_, file))| file.is_some());
            found.map(|((_, directory), (_, file))| (directory, text(file))).collect()
        });
        let session = match (session, files.next()) {
            (Some((_, name)), Some((_, file))) => Some(meta(name, file)?),
            _ => None,
        };
        Ok(Self { seq, settings, zone, texts, fragments, days, session, skills })
    }
}

fn text(path: TreePath, file: Option<File>) -> Option<Result<Text>> {
    let file = file?;
    let text = text_of(&path, &file).map(str::to_owned);
    Some(text.map(|text| Text { path, file, text }))
}

async fn daily(
    workspace: &Workspace<'_>,
    fs: &dyn FileSystem,
    (day, found): (Day, Option<(TreePath, Option<File>)>),
) -> Result<Daily> {
    let (path, file) = found.map_or_else(|| workspace.day_file(day).map(|path| (path, None)), Ok)?;
    let file = match file {
        Some(file) => {
            let parts = daily::parts(fs, &path, &file).await?;
            Some((file, parts))
        }
        None => None,
    };
    Ok(Daily { day, path, file })
}

fn meta(name: &str, file: Option<File>) -> Result<Meta> {
    let missing =
        || Error::new(ErrorKind::NotFound, format!("{name}: there is no such session; create it first"));
    let file = file.ok_or_else(missing)?;
    let meta = Meta::parse(file.bytes.as_deref().unwrap_or_default());
    meta.map_err(|error| Error::new(ErrorKind::Corrupt, format!("{name}: {error}")))
}
