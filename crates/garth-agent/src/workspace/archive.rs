//! Archives of sessions: messages as JSON Lines of pi-ai, compressed with gzip. They are written and read in
//! pieces, so that memory use does not grow with a session.

use std::collections::{BTreeMap, HashSet};
use std::io::Write as _;
use std::ops::RangeInclusive;

use flate2::Compression;
use flate2::write::{GzEncoder, MultiGzDecoder};
use serde_json::Value;

use crate::identity::Class;
use crate::session::{Export, Meta, Sessions, TranscriptFormat};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Body, Op, SetAttrs, StagedBody, Timestamp};
use garth_engine::path::TreePath;

/// Extension of an archive.
pub(super) const ENDING: &str = ".jsonl.gz";

/// Metadata of an archive: id of its session.
pub(super) const SESSION_ID: &str = "sessionId";
/// Custom metadata of an archive: audience of its session.
pub(super) const AUDIENCE: &str = "garth.audience";
/// Custom metadata of an archive: class of its session.
pub(super) const CLASS: &str = "garth.class";

/// Content type of an archive.
const TYPE: &str = "application/gzip";

/// Limit on the bytes of a line of an archive, 32 MiB: twice that of a line of messages.
const MAX_LINE: usize = 32 << 20;

/// Number of compressed bytes that are decompressed at a time. A byte yields at most 1,032, so one piece
/// yields at most 4 MiB.
const PIECE: usize = 4 << 10;

/// Number of bytes of messages that are converted at a time: parsed and serialized they take several times as
/// many.
const PAGE: usize = 1 << 20;

/// Number of compressed bytes that are uploaded at a time.
const FLUSH: usize = 256 << 10;

/// Archive that is written, but not committed.
#[derive(Debug)]
pub(super) struct StagedArchive {
    pub(super) body: StagedBody,
    /// Number of messages in the archive.
    pub(super) messages: u64,
    /// Keys of the media that the messages refer to.
    pub(super) media: HashSet<String>,
}

/// Writes messages of a session as a staged archive for `fs`. The messages stay as they are.
pub(super) async fn write(
    sessions: &Sessions<'_>,
    session: &str,
    lines: RangeInclusive<u64>,
    fs: &dyn FileSystem,
    path: &TreePath,
) -> Result<StagedArchive> {
    let mut upload = fs.stage(&At::from(path)).await?;
    // The header has no time, so that the same messages yield the same bytes.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let (mut messages, mut media) = (0, HashSet::new());
    let mut export = Export::new(TranscriptFormat::Pi).lines(lines.clone()).page_bytes(PAGE);
    loop {
        let page = sessions.export(session, &export).await?;
        for item in &page.items {
            messages += 1;
            refer(item, &mut media);
            encoder.write_all(item.as_bytes()).and_then(|()| encoder.write_all(b"\n")).map_err(gzip)?;
        }
        if encoder.get_ref().len() >= FLUSH {
            upload.write(std::mem::take(encoder.get_mut()).into()).await?;
        }
        match page.next {
            Some(next) => export = export.lines(next..=*lines.end()),
            None => break,
        }
        crate::retry::yield_now().await;
    }
    upload.write(encoder.finish().map_err(gzip)?.into()).await?;
    Ok(StagedArchive { body: upload.finish().await?, messages, media })
}

impl StagedArchive {
    /// Returns the write of the archive. It must not exist yet.
    pub(super) fn op(&self, path: &TreePath, metadata: BTreeMap<&str, String>) -> Op {
        let attrs = SetAttrs::new().content_type(TYPE);
        let attrs = metadata.into_iter().fold(attrs, |attrs, (key, value)| attrs.metadata(key, value));
        let write = Op::write(path.clone(), Body::Staged(self.body.clone()));
        write.create_new().with_parents().with_attrs(attrs)
    }
}

/// Returns the metadata that every archive has.
pub(super) fn metadata(meta: &Meta, messages: u64, now: Timestamp) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        // A session without a key is identified by its id.
        ("sessionKey", meta.session_key.clone().unwrap_or_else(|| meta.id.clone())),
        (SESSION_ID, meta.id.clone()),
        ("agentId", meta.agent.clone()),
        (AUDIENCE, meta.user.clone()),
        (CLASS, meta.class.to_string()),
        ("messageCount", messages.to_string()),
        ("archivedAt", (now.0 / 1_000_000).to_string()),
    ])
}

/// Returns the attributes with the owner of an archive.
pub(crate) fn archive_attrs(audience: &str, class: Class) -> SetAttrs {
    SetAttrs::new().metadata(AUDIENCE, audience).metadata(CLASS, class.as_str())
}

/// Returns the UUID of a session from the file name of its archive, or of a part of one.
pub(crate) fn archived_session(file: &str) -> Option<&str> {
    let name = file.strip_suffix(ENDING)?;
    Some(part_of(name).map_or(name, |(session, _)| session))
}

/// Returns the session and number of a part, from `{session}-part{number}`.
pub(super) fn part_of(name: &str) -> Option<(&str, u64)> {
    let (session, number) = name.rsplit_once("-part")?;
    Some((session, number.parse().ok()?))
}

/// Adds the media that a message refers to.
fn refer(item: &str, media: &mut HashSet<String>) {
    fn walk(value: &Value, media: &mut HashSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value {
                        Value::String(key) if name == "r2Key" => drop(media.insert(key.clone())),
                        value => walk(value, media),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, media)),
            _ => {}
        }
    }
    // Most messages refer to none, and are not parsed.
    if item.contains("\"r2Key\"")
        && let Ok(value) = serde_json::from_str(item)
    {
        walk(&value, media);
    }
}

fn gzip(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "the archive cannot be compressed").with_source(error)
}

/// Reader of the lines of a compressed archive, in pieces.
#[derive(Debug)]
pub struct Unpacked {
    decoder: MultiGzDecoder<Vec<u8>>,
    /// Number of bytes of the incomplete last line that were searched for a line feed.
    seen: usize,
}

impl Default for Unpacked {
    fn default() -> Self {
        Self { decoder: MultiGzDecoder::new(Vec::new()), seen: 0 }
    }
}

impl Unpacked {
    /// Passes the lines that end in the next piece of compressed bytes to `line`. Returns false if `line`
    /// did, after which no more lines are wanted.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are not gzip or not UTF-8; `TooLarge` for a line of more than 32 MiB; errors of
    /// `line`.
    pub fn feed(&mut self, compressed: &[u8], mut line: impl FnMut(String) -> Result<bool>) -> Result<bool> {
        for piece in compressed.chunks(PIECE) {
            // Flushed, so that all lines of the piece are passed on before the next one.
            let written = self.decoder.write_all(piece).and_then(|()| self.decoder.flush());
            written.map_err(|error| corrupt(&error))?;
            if !self.hand_on(&mut line)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Passes the remaining lines to `line`; the last one may have no line feed.
    ///
    /// # Errors
    /// `Corrupt` if the archive is incomplete or not UTF-8; errors of `line`.
    pub fn end(mut self, mut line: impl FnMut(String) -> Result<bool>) -> Result<()> {
        self.decoder.try_finish().map_err(|error| corrupt(&error))?;
        if !self.hand_on(&mut line)? {
            return Ok(());
        }
        let rest =
            String::from_utf8(std::mem::take(self.decoder.get_mut())).map_err(|error| corrupt(&error))?;
        if !rest.is_empty() {
            line(rest)?;
        }
        Ok(())
    }

    /// Passes the complete lines in the output of the decoder to `line`.
    fn hand_on(&mut self, line: &mut impl FnMut(String) -> Result<bool>) -> Result<bool> {
        let out = self.decoder.get_mut();
        // Only new bytes are searched, so that a long line takes linear time.
        let Some(end) = out[self.seen..].iter().rposition(|byte| *byte == b'\n') else {
            self.seen = out.len();
            if out.len() > MAX_LINE {
                let message = format!("an archive has a line of more than {MAX_LINE} bytes");
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
            return Ok(true);
        };
        let rest = out.split_off(self.seen + end + 1);
        self.seen = rest.len();
        let whole = std::mem::replace(out, rest);
        let whole = String::from_utf8(whole).map_err(|error| corrupt(&error))?;
        for text in whole.lines() {
            if !line(text.to_owned())? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn corrupt(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the archive cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn lines(bytes: &[u8], step: usize) -> Result<Vec<String>> {
        let (mut unpacked, mut lines) = (Unpacked::default(), Vec::new());
        let mut take = |line| {
            lines.push(line);
            Ok(true)
        };
        for piece in bytes.chunks(step) {
            unpacked.feed(piece, &mut take)?;
        }
        unpacked.end(&mut take)?;
        Ok(lines)
    }

    #[test]
    fn archive_reads_in_pieces_of_any_size() {
        let bytes = packed("{\"a\":1}\n{\"b\":\"ü\"}\n\n{\"c\":3}".as_bytes());
        for step in [1, 7, 4096] {
            assert_eq!(lines(&bytes, step).unwrap(), ["{\"a\":1}", "{\"b\":\"ü\"}", "", "{\"c\":3}"]);
        }
        let twice = [packed(b"a\n"), packed(b"b\n")].concat();
        assert_eq!(lines(&twice, 5).unwrap(), ["a", "b"]);
        assert!(lines(&packed(b""), 5).unwrap().is_empty());
    }

    #[test]
    fn truncated_or_foreign_archives_are_corrupt() {
        let bytes = packed("said\n".repeat(1000).as_bytes());
        for bad in [&bytes[..bytes.len() - 1], &bytes[..20], b"no gzip at all", &packed(&[0xff, b'\n'])] {
            assert!(lines(bad, 64).unwrap_err().is(ErrorKind::Corrupt), "{}", bad.len());
        }
    }

    #[test]
    fn rejects_endless_archive_line() {
        let bytes = packed(&vec![b' '; MAX_LINE * 4]);
        assert!(lines(&bytes, 4096).unwrap_err().is(ErrorKind::TooLarge));
    }

    #[test]
    fn archive_collects_media_keys_at_any_depth() {
        let mut media = HashSet::new();
        refer(
            r#"{"role":"user","content":[{"type":"image","r2Key":"media/k/1.png"},{"x":{"r2Key":"media/k/2.png"}}]}"#,
            &mut media,
        );
        refer(r#"{"role":"user","content":"no \"r2Key\": \"media/k/3.png\""}"#, &mut media);
        let mut media: Vec<_> = media.into_iter().collect();
        media.sort_unstable();
        assert_eq!(media, ["media/k/1.png", "media/k/2.png"]);
    }
}
