//! `garth media`: images, audio, video and documents of an agent's sessions.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, Subcommand};
use futures::TryStreamExt;
use garth_agent::media::{MAX_LISTED, MediaKey, NewMedia, Stored, type_of};
use garth_agent::session::Listed;
use garth_engine::model::ByteRange;
use garth_engine::{Error, ErrorKind, OpenFile};
use serde_json::{Value, json};

use super::open::{Open, open};
use crate::app::App;
use crate::body::step;
use crate::content;
use crate::escape::escaped;
use crate::fail::{Failure, Result};

/// Store, read, list and remove media of sessions: images, audio, video, documents
///
/// A media file is addressed by its r2Key, media/SESSION-KEY/UUID.EXT, also after a reset has moved it.
/// --session or --key selects the session. A file has at most 25 MB (26,214,400 bytes).
///
/// With --json, prints one object per file: r2_key, path, mime_type, size, metadata.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth media put cat.png --session work\n  \
        garth media list --agent scout --key agent:scout:main")]
pub(crate) struct Media {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Store a file, and print its new r2Key
    #[command(after_help = "Example:\n  garth media put - --session work --mime-type image/png < cat.png")]
    Put(Put),
    /// Write a media file to standard output, or to a new file
    #[command(after_help = "Example:\n  \
        garth media get media/agent:scout:main/01234567-89ab-4def-8123-456789abcdef.png cat.png")]
    Get {
        /// r2Key of the file
        key: MediaKey,
        /// New file of this machine; - writes standard output
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// List the media of a session; media that a reset moved are next to its archive
    #[command(alias = "ls", after_help = "Example:\n  garth media list --session work")]
    List {
        /// Maximum number of files
        #[arg(short = 'n', long, value_name = "COUNT")]
        limit: Option<usize>,
    },
    /// Copy a media file to the session of --session or --key, so that its messages can show it
    #[command(
        alias = "copy",
        after_help = "Example:\n  \
        garth media cp media/agent:scout:main/01234567-89ab-4def-8123-456789abcdef.png --session work"
    )]
    Cp {
        /// r2Key of the file
        key: MediaKey,
    },
    /// Remove media files, wherever they are now
    #[command(
        alias = "delete",
        after_help = "Example:\n  \
        garth media rm media/agent:scout:main/01234567-89ab-4def-8123-456789abcdef.png"
    )]
    Rm {
        /// r2Keys of the files
        #[arg(required = true)]
        keys: Vec<MediaKey>,
    },
}

#[derive(Args, Debug)]
struct Put {
    /// File of this machine; - reads standard input
    file: PathBuf,
    /// MIME type [default: by the extension of the name]
    #[arg(long, value_name = "TYPE")]
    mime_type: Option<String>,
    /// Original file name [default: the name of FILE]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl Media {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self.action {
            Action::Put(put) => put.run(app).await,
            Action::Get { key, file } => get(app, &key, &file).await,
            Action::List { limit } => list(app, limit.unwrap_or(usize::MAX)).await,
            Action::Cp { key } => copy(app, &key).await,
            Action::Rm { keys } => rm(app, &keys).await,
        }
    }
}

/// Returns the session that the options name.
async fn session(app: &App, open: &Open) -> Result<Listed> {
    let (args, sessions) = (&app.global.chat, open.sessions()?);
    match (&args.session, &args.session_key) {
        (Some(session), _) => Ok(sessions.get(session).await?),
        (None, Some(key)) => sessions.current(key).await?.ok_or_else(|| {
            let message = format!(
                "{key}: no current session has this key; `garth session current KEY --create` creates one"
            );
            Failure::Tree(Error::new(ErrorKind::NotFound, message))
        }),
        (None, None) => Err(Failure::Usage("name the session: --session NAME or --key KEY".into())),
    }
}

impl Put {
    async fn run(self, app: &mut App) -> Result {
        // Opened before the data: a wrong name of a file must not leave a new data folder behind.
        let mut from: Box<dyn Read + Send> = match is_dash(&self.file) {
            true => Box::new(std::io::stdin()),
            false => Box::new(File::open(&self.file).map_err(Failure::host(&self.file))?),
        };
        // Standard input has no name.
        let own = self.file.file_name().filter(|_| !is_dash(&self.file));
        let name = self.name.or_else(|| own.map(|own| own.to_string_lossy().into_owned()));
        let name = name.unwrap_or_default();
        let mime_type = self.mime_type.unwrap_or_else(|| type_of(&name).to_owned());
        let open = open(app, true).await?;
        let meta = session(app, &open).await?.meta;
        let key = meta.session_key.as_ref().unwrap_or(&meta.id);
        let new = NewMedia::new(key, mime_type).file_name(name).session(&meta.id);
        let file = self.file;
        // Holds the failure itself, which names the file: the stream can only carry an error of the tree.
        let failed = Arc::new(Mutex::new(None));
        let failure = Arc::clone(&failed);
        let body = futures::stream::iter(std::iter::from_fn(move || match step(&mut *from, &file) {
            Ok(bytes) => (!bytes.is_empty()).then_some(Ok(bytes)),
            Err(error) => {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Some(Err(Error::new(ErrorKind::Io, "the input cannot be read")))
            }
        }));
        let stored = open.media().put(&new, body).await;
        let stored = stored.map_err(|error| {
            let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
            failed.unwrap_or(Failure::Tree(error))
        })?;
        app.out.item(&item(&stored), escaped(&stored.key.to_string()))
    }
}

async fn get(app: &mut App, key: &MediaKey, to: &Path) -> Result {
    let open = open(app, false).await?;
    let (stored, file) = open.media().open(key).await?;
    if is_dash(to) {
        return content::print(app, Some(&stored.path), file, ByteRange::ALL).await;
    }
    let mut out = OpenOptions::new().write(true).create_new(true).open(to).map_err(Failure::host(to))?;
    if let Err(failure) = save(file, &mut out, to).await {
        // An incomplete file could be taken for a complete one.
        drop(std::fs::remove_file(to));
        return Err(failure);
    }
    let shown = format!("{key}  {} bytes  {}", stored.entry.size, to.display());
    app.out.item(&item(&stored), escaped(&shown))
}

async fn save(file: std::sync::Arc<dyn OpenFile>, out: &mut File, to: &Path) -> Result {
    let mut pieces = std::pin::pin!(file.stream(ByteRange::ALL));
    while let Some(piece) = pieces.try_next().await? {
        out.write_all(&piece).map_err(Failure::host(to))?;
    }
    // Errors of delayed writes are reported only here.
    out.sync_all().map_err(Failure::host(to))
}

async fn list(app: &mut App, mut left: usize) -> Result {
    let open = open(app, false).await?;
    let (of, media, mut after) = (session(app, &open).await?.meta.id, open.media(), None);
    while left > 0 {
        let (found, next) = media.list(&of, after.as_deref(), left.min(MAX_LISTED)).await?;
        left -= found.len();
        for stored in &found {
            let attributes = &stored.entry.attributes;
            let name = attributes.metadata.get("originalFilename").map_or("", String::as_str);
            let mime_type = attributes.content_type.as_deref().unwrap_or("-");
            let line = format!("{}  {mime_type}  {} bytes  {name}", stored.key, stored.entry.size);
            app.out.item(&item(stored), escaped(line.trim_end()))?;
        }
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    Ok(())
}

async fn copy(app: &mut App, key: &MediaKey) -> Result {
    let open = open(app, true).await?;
    let to = session(app, &open).await?;
    let stored = open.sessions()?.copy_media(&to.name, key).await?;
    app.out.item(&item(&stored), escaped(&stored.key.to_string()))
}

async fn rm(app: &mut App, keys: &[MediaKey]) -> Result {
    // Not opened for changes: that would create directories of the agent.
    let open = open(app, false).await?;
    let mut failures = crate::fail::Failures::default();
    for key in keys {
        let outcome = match open.media().remove(key).await {
            Ok(seq) => {
                let json = json!({"r2_key": key.to_string(), "seq": seq.0});
                app.out.item(&json, escaped(&format!("removed  {key}")))
            }
            Err(error) => Err(error.into()),
        };
        app.out.flush()?;
        failures.add(outcome, app.global.json)?;
    }
    failures.done()
}

fn item(stored: &Stored) -> Value {
    let attributes = &stored.entry.attributes;
    json!({
        "r2_key": stored.key.to_string(), "path": stored.path.as_str(), "mime_type": attributes.content_type,
        "size": stored.entry.size, "metadata": attributes.metadata,
    })
}

fn is_dash(path: &Path) -> bool {
    path == Path::new("-")
}
