//! Replay: builds a pack again from its description, with the same bytes however much has changed since.

use super::layers::{Part, shown};
use super::manifest::{FORM, IMAGES, Item, Pack};
use super::options::MAX_PACK;
use super::packed::Packed;
use crate::boxed;
use crate::session::handle::Sessions;
use crate::session::log::source::{Resolved, Source, What};
use crate::session::pack::window::WindowSpec;
use crate::session::store::files::{Log, PACK};
use crate::session::store::swap_index::parse_index;
use crate::small_file::{sha256, unreadable};
use garth_engine::error::{Advice, Error, ErrorKind, Result};
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::{At, HistoryPage, Moment, VersionId};
use garth_engine::path::TreePath;
use garth_engine::text::secret::Judgement;

/// Advice for a damaged `pack.json`.
const PACK_AGAIN: &str = "pack the session again";

impl Sessions<'_> {
    /// Returns the description of a session's pack, current or as of a time.
    ///
    /// # Errors
    /// `NotFound` if there is no pack; `Corrupt` for a `pack.json` that is not JSON; `Gone` beyond retention;
    /// from the filesystem.
    #[boxed]
    pub async fn packed(&self, session: &str, at: Option<&Moment>) -> Result<Pack> {
        let path = self.file(session, PACK)?;
        let bytes = match at {
            Some(at) => self.fs.as_of(at).await?.read_file(&path).await?,
            None => match self.fs.read_file(&path).await {
                Err(error) if error.is_absent() => return Err(self.no_pack(session, &path).await),
                bytes => bytes?,
            },
        };
        let json: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|error| unreadable(&path, &error.to_string(), PACK_AGAIN))?;
        // A new session has a `pack.json` without a window. JSON of another shape therefore means that there
        // is no pack, not that the file is damaged.
        let pack: Option<Pack> = serde_json::from_value(json).ok();
        let pack = pack.filter(|pack| pack.session == session && pack.agent == self.agent);
        pack.ok_or_else(|| Self::without_pack(session))
    }

    /// Returns the error for a session without a pack: the pack was collected and can be replayed by its
    /// version, or never existed.
    async fn no_pack(&self, session: &str, path: &TreePath) -> Error {
        if let Err(error) = self.meta(session).await {
            return error;
        }
        // The newest version is the deletion and has no entry. The one before it has the pack.
        let history = self.fs.history(&At::from(path), &HistoryPage::default().limit(2)).await;
        let last = history.ok().and_then(|versions| {
            versions.items.into_iter().find(|version| version.entry.is_some()).map(|version| version.id)
        });
        let Some(version) = last else { return Self::without_pack(session) };
        let advice = format!(
            "rebuild it as of its version with `garth context replay {session} --at {}` (over HTTP `at`), or \
             pack the session again",
            version.seq
        );
        let error = Error::new(ErrorKind::NotFound, format!("{session}: its pack was collected"));
        error.advising(Advice::Command, &advice)
    }

    fn without_pack(session: &str) -> Error {
        Error::new(ErrorKind::NotFound, format!("{session} has no pack"))
            .advising(Advice::Command, "`pack` builds one")
    }

    /// Rebuilds the pack of a session, the current one or that of a past time.
    ///
    /// # Errors
    /// As [`Sessions::packed`]; `Gone` if one of its sources is beyond retention, or its messages were
    /// collected; `Corrupt` if the bytes differ from the recorded ones; `Format` for a pack of an unknown
    /// version.
    #[boxed]
    pub async fn replay(&self, session: &str, at: Option<&Moment>) -> Result<Packed> {
        let pack = self.packed(session, at).await?;
        let lines = pack.window.to;
        match self.pack_again(session, pack).await {
            Err(error)
                if error.is(ErrorKind::Corrupt) && self.end(session, Log::Messages).await?.lines < lines =>
            {
                // Collected lines do not have the recorded hash either, but they are not damaged.
                let message = format!("{session}: the messages of this pack were collected");
                Err(Error::new(ErrorKind::Gone, message))
            }
            packed => packed,
        }
    }

    /// Builds a pack again from its description.
    pub(super) async fn pack_again(&self, session: &str, pack: Pack) -> Result<Packed> {
        let rebuilt = self.replayed(session, pack).await;
        // The sources in `pack.json` are only checked when they are read, so an invalid argument means a
        // damaged file.
        rebuilt.map_err(|error| match (error.is(ErrorKind::InvalidArgument), self.file(session, PACK)) {
            (true, Ok(path)) => unreadable(&path, error.message(), PACK_AGAIN),
            _ => error,
        })
    }

    async fn replayed(&self, session: &str, pack: Pack) -> Result<Packed> {
        if pack.form != FORM || pack.images > IMAGES {
            let message = format!(
                "{session}: a pack of form {} and image rules {} is not built here; form {FORM} and rules up to \
                 {IMAGES} are",
                pack.form, pack.images
            );
            return Err(Error::new(ErrorKind::Format, message));
        }
        let judgement = pack.judgement().ok_or_else(|| {
            let number = pack.secrets.unwrap_or_default();
            let message = format!("{session}: its secrets were judged by version {number}, not known here");
            Error::new(ErrorKind::Format, message)
        })?;
        let (mut front, mut behind) = (Vec::new(), Vec::new());
        // Messages are rendered together below: how each is shown depends on the ones before it.
        let is_message = |item: &Item| item.kind == "recent_messages";
        for item in pack.items.iter().filter(|item| !is_message(item)) {
            let part = self.rebuilt(session, item, judgement).await?;
            match item.kind.as_str() {
                "child_result" | "expanded" => behind.push(part),
                _ => front.push(part),
            }
        }
        let window = &pack.window;
        let swapped = match window.swapped {
            Some(version) => {
                let bytes = self.version_of(version, MAX_PACK as u64).await?;
                parse_index(&String::from_utf8_lossy(&bytes))
            }
            None => Vec::new(),
        };
        let spec = WindowSpec {
            lead: window.lead,
            kept: window.kept,
            from: window.from,
            to: window.to,
            cuts: window.cuts.clone(),
            swapped,
            events: window.events,
            judgement,
        };
        let rendered = self.render_window(session, &spec, u64::MAX / 2, None).await?.unwrap_or_default();
        let (_, _, mut packed) = Packed::of(&front, rendered, &behind);
        packed.pack = pack;
        for (name, digest) in packed.forms() {
            if packed.pack.forms.get(&name) != Some(&digest) {
                let message = format!("{session}: the {name} of the pack does not match its hash");
                return Err(Error::new(ErrorKind::Corrupt, message));
            }
        }
        Ok(packed)
    }

    /// Builds a part other than messages again, with the secrets masked that `judgement` finds.
    pub(super) async fn rebuilt(&self, session: &str, item: &Item, judgement: Judgement) -> Result<Part> {
        let bytes = match (item.source.parse::<Source>().map(|source| source.what), item.version) {
            (Ok(What::Swap(id)), Some(version)) => {
                let chunk = self.version_of(version, crate::session::content::swap::MAX_SWAPPED).await?;
                self.of_chunk(session, &id, chunk).await?
            }
            // Logs only grow: lines stay what they are and need no version.
            (Ok(What::Lines(log, _)), _) => {
                let source: Source = item.source.parse()?;
                let Resolved::Lines { session, bytes, .. } = self.resolve(session, &source).await? else {
                    return Err(Error::invalid(format!("{source}: is no lines")));
                };
                self.bytes_of(&self.file(&session, log.file())?, bytes).await?
            }
            (_, Some(version)) => self.version_of(version, MAX_PACK as u64).await?,
            (_, None) => return Err(Error::invalid(format!("{}: has no version", item.source))),
        };
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // A range that the source does not have gives an empty text, which the hash rejects.
        let own = text.get(place(item.bytes[0])..place(item.bytes[1])).unwrap_or_default();
        if sha256(own.as_bytes()) != item.sha256 {
            let message = format!("{}: differs from the source of the pack", item.source);
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        // The hash is that of the source. Masks depend on the judgement, which the pack names.
        let text = judgement.during(|| shown(&item.kind, &item.source, own));
        Ok(Part { item: item.clone(), text })
    }

    /// Returns the bytes of a version, about `most` of them.
    async fn version_of(&self, version: VersionId, most: u64) -> Result<Vec<u8>> {
        let file = self.fs.open_version(version).await?;
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < most {
            let piece = file.read_at(bytes.len() as u64, 1 << 20).await?;
            if piece.is_empty() {
                return Ok(bytes);
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }
}
