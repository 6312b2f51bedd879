//! Descriptions of hits: what each is in, read in batches. A session, memory or value is read once for all of
//! its hits in a batch.

use std::collections::HashMap;

use super::hit::HitKind;
use super::kind::Place;
use super::session_hits;
use crate::kv::ValueFile;
use crate::memory::{Layers, Level, META, Meta, Origin, Status, sha256, text_of};
use crate::recall::{Answers, Wanted, fetched};
use crate::small_file::is_no_file;
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, ByteRange, Hit, Timestamp};
use garth_engine::path::TreePath;
use garth_engine::text::question::Question;

/// Number of hits that are described together. Their values, of 1 MiB at most, fit into one answer of the
/// filesystem.
pub(super) const BATCH: usize = 16;
/// Limit on the bytes that are read of a `.meta.json`, 64 KiB.
const META_BYTES: u64 = 64 << 10;
/// Limit on the bytes of a memory's text whose checksum is compared with that of its layers, 8 KiB.
const CHECKED: u64 = 8 << 10;

/// Hit with the meaning of its path.
pub(super) type PlacedHit<'h> = (&'h Hit, &'h Place);

/// Returns what each hit of a batch is in; `None` for one that may not be shown: a retracted message, a
/// memory that is not valid at `now`, an outdated layer, a value that is not searchable, or a text that no
/// longer exists.
pub(super) async fn described(
    fs: &dyn FileSystem,
    batch: &[PlacedHit<'_>],
    (question, now): (Option<&Question>, Timestamp),
) -> Result<Vec<Option<HitKind>>> {
    let mut described: Vec<Option<HitKind>> = batch.iter().map(|_| Some(HitKind::File)).collect();
    // Hits by what is read for them: the messages of a session, a memory, a value.
    let mut sources: Vec<(&TreePath, Vec<usize>)> = Vec::new();
    let mut known: HashMap<&TreePath, usize> = HashMap::new();
    for (number, (hit, place)) in batch.iter().enumerate() {
        let path = match place {
            Place::File => continue,
            Place::Memory { dir, .. } => dir,
            Place::Messages { .. } | Place::Value(_) => &hit.path,
        };
        let source = *known.entry(path).or_insert(sources.len());
        if source == sources.len() {
            sources.push((path, Vec::new()));
        }
        if let Some((_, numbers)) = sources.get_mut(source) {
            numbers.push(number);
        }
    }
    let wanted = sources.iter().map(|(path, numbers)| wanted(path, &selected(batch, numbers)));
    let wanted: Vec<Wanted> = wanted.collect();
    let answers = fetched(fs, &wanted).await?;
    for ((path, numbers), answers) in sources.iter().zip(answers) {
        let kinds = match of_source(fs, path, &selected(batch, numbers), (question, now), answers).await {
            // The index may be older than the tree.
            Err(error) if is_no_file(&error) => vec![None; numbers.len()],
            kinds => kinds?,
        };
        for (number, kind) in numbers.iter().zip(kinds) {
            if let Some(place) = described.get_mut(*number) {
                *place = kind;
            }
        }
    }
    Ok(described)
}

/// Returns the hits of a batch that have these numbers.
fn selected<'h>(batch: &[PlacedHit<'h>], numbers: &[usize]) -> Vec<PlacedHit<'h>> {
    numbers.iter().filter_map(|number| batch.get(*number).copied()).collect()
}

/// Returns the ranges to read for the hits in one source.
fn wanted(path: &TreePath, hits: &[PlacedHit<'_>]) -> Wanted {
    match hits.first().map(|(_, place)| *place) {
        Some(Place::Messages { .. }) => session_hits::wanted(path, &alone(hits)),
        Some(Place::Memory { uri, dir, .. }) => {
            let file = |name: &str| At::Path(TreePath::from_row(dir.key(), name));
            let meta = (file(META), ByteRange { offset: 0, length: META_BYTES });
            let text = (file(text_of(uri)), ByteRange { offset: 0, length: CHECKED });
            vec![meta, text]
        }
        Some(Place::Value(_)) => vec![ValueFile::wanted(path)],
        Some(Place::File) | None => Vec::new(),
    }
}

/// Returns what each hit in one source is in.
async fn of_source(
    fs: &dyn FileSystem,
    path: &TreePath,
    hits: &[PlacedHit<'_>],
    (question, now): (Option<&Question>, Timestamp),
    mut answers: Answers,
) -> Result<Vec<Option<HitKind>>> {
    match hits.first().map(|(_, place)| *place) {
        Some(Place::Messages { user, agent, session }) => {
            let source = (path, [&**user, &**agent, &**session]);
            session_hits::described(fs, source, &alone(hits), question, answers).await
        }
        Some(Place::Memory { .. }) => memory(hits, now, answers),
        Some(Place::Value(file)) => {
            let value = file.value(answers.due())?;
            let kind = value.map(|value| HitKind::Value { agent: file.agent().to_owned(), value });
            Ok(vec![kind; hits.len()])
        }
        Some(Place::File) | None => Ok(vec![Some(HitKind::File); hits.len()]),
    }
}

fn alone<'h>(hits: &[PlacedHit<'h>]) -> Vec<&'h Hit> {
    hits.iter().map(|(hit, _)| *hit).collect()
}

/// Returns what each hit in the files of one memory is in.
fn memory(hits: &[PlacedHit<'_>], now: Timestamp, mut answers: Answers) -> Result<Vec<Option<HitKind>>> {
    let meta = match answers.due() {
        Ok((_, bytes)) => Meta::parse(&bytes).ok(),
        Err(error) if is_no_file(&error) => return Ok(hits.iter().map(unpublished).collect()),
        Err(error) => return Err(error),
    };
    let Some(meta) = meta.filter(|meta| meta.status == Status::Active && meta.is_valid_at(now)) else {
        return Ok(vec![None; hits.len()]);
    };
    let (text, start) = answers.due()?;
    let checksum = (text.size <= CHECKED).then(|| sha256(&start));
    let kind = |(_, place): &PlacedHit<'_>| match place {
        Place::Memory { uri, level, .. } if describes(meta.layers.as_ref(), *level, checksum.as_deref()) => {
            Some(HitKind::Memory { uri: uri.clone(), layer: *level })
        }
        _ => None,
    };
    Ok(hits.iter().map(kind).collect())
}

/// Returns what a hit in a directory without a meta is in: the text of a skill is a file, anything else is
/// left over from a memory.
fn unpublished((_, place): &PlacedHit<'_>) -> Option<HitKind> {
    match place {
        Place::Memory { uri, level: Level::Content, .. } if uri.is_skill() => Some(HitKind::File),
        _ => None,
    }
}

/// Returns true unless a layer is known to describe another text than the current one.
fn describes(layers: Option<&Layers>, level: Level, checksum: Option<&str>) -> bool {
    let layer = match (layers, level) {
        (None, _) | (_, Level::Content) => return true,
        (Some(layers), Level::Abstract) => &layers.brief,
        (Some(layers), Level::Overview) => &layers.overview,
    };
    layer.origin != Origin::Stale && checksum.is_none_or(|checksum| layer.content_sha256 == checksum)
}
