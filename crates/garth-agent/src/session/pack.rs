//! Packs: the context window of a session, within a token budget. A pack is built from stored files and
//! messages, records which, and can be built again, byte for byte.

mod build;
mod diff;
mod fill;
mod images;
mod layers;
mod long_result;
mod manifest;
mod options;
mod packed;
mod replay;
mod walk;
mod window;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

pub use self::diff::{Changed, Difference};
use self::manifest::FORM;
pub use self::manifest::{Digest, Item, Omitted, Pack, Prefix, Reserved, Window};
use self::options::{MAX_PACK, PackFiles};
pub use self::options::{MAX_TOKENS, PackOptions};
pub use self::packed::Packed;

use super::expiry::schedule::due_at;
use super::handle::Sessions;
use super::store::files::{BUDGET, PACK, PACK_TEXT, SWAPPED};
use super::store::meta::check_tokens;
use super::store::swap_index::{Swapped, parse_index};
use crate::boxed;
use crate::count::{ENCODING, parse_tokens};
use crate::once::Outcome;
use crate::retry::retry;
use crate::small_file::{File, as_read, pretty, read_all, sha256, unreadable};
use garth_engine::error::{Error, Result};
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::{Op, Precondition};

/// Outcome of a pack. Only its description is recorded: the text is built again from its sources.
#[derive(Serialize, Deserialize)]
struct PackOutcome {
    pack: Pack,
    #[serde(skip)]
    built: Option<Packed>,
}

impl Outcome for PackOutcome {}

impl From<Packed> for PackOutcome {
    fn from(packed: Packed) -> Self {
        Self { pack: packed.pack.clone(), built: Some(packed) }
    }
}

impl Sessions<'_> {
    /// Builds the pack of a session, and writes `pack.json` and `pack.md` in one commit. Writes nothing if
    /// the pack has not changed, and nothing in an overlay.
    ///
    /// # Errors
    /// `BudgetTooSmall` if the last message of the user and the unfinished step do not fit, with the least
    /// budget that does; `NotFound`; `InvalidArgument`; from the filesystem.
    #[boxed]
    pub async fn pack(&self, session: &str, options: &PackOptions) -> Result<Packed> {
        let mut first = true;
        let done = retry(|| self.pack_once(session, options, std::mem::take(&mut first)));
        // A dry run is a read, and has no record.
        let done = if options.dry { done.await? } else { self.once.run(done).await? };
        match done {
            PackOutcome { built: Some(packed), .. } => Ok(packed),
            PackOutcome { pack, .. } => self.pack_again(session, pack).await,
        }
    }

    async fn pack_once(&self, session: &str, options: &PackOptions, first: bool) -> Result<PackOutcome> {
        let (_, meta) = self.meta(session).await?;
        let files = self.pack_files(session, meta.compacted_to.unwrap_or(0) + 1).await?;
        let budget = options.budget.or(files.budget).or(meta.context_window).unwrap_or(0);
        let (packed, cut) = self.build(session, options, budget, &files).await?;
        let (pack_file, text_file) = (self.file(session, PACK)?, self.file(session, PACK_TEXT)?);
        // In an overlay, a retraction in the account would not reach the files.
        if options.dry || !self.has_history()? {
            return Ok(packed.into());
        }
        if files.before.as_ref().is_some_and(|before| before.is_same(&packed.pack)) {
            let text = read_all(self.fs, std::slice::from_ref(&text_file), packed.markdown.len()).await?;
            // Any program can write `pack.md`: only its text shows whether a write is needed.
            if text.first().and_then(|file| file.as_ref()?.text()) == Some(&packed.markdown) {
                let batch = self.batch(session, Vec::new(), "pack nothing new of session")?;
                return self.once.unchanged(self.fs, batch, packed.into()).await;
            }
        }
        let policy = self.policy_or_default(session).await?;
        let attrs = self.marked(&pack_file, Some(due_at(self.env.now(), policy.pack_ttl)));
        let mut ops =
            vec![Op::write(pack_file.clone(), pretty(&packed.pack)?).with_parents().with_attrs(attrs)];
        let text_as_read =
            files.text.as_ref().map_or(Precondition::Absent, |text| Precondition::Etag(text.etag));
        let mut conditions =
            vec![(pack_file, as_read(files.pack.as_ref())), (text_file.clone(), text_as_read)];
        // A text that continues the last one is appended, so that the history of `pack.md` grows only by the
        // new part.
        let before = files.before.as_ref().and_then(|before| before.forms.get("markdown"));
        let is_there = |before: &&Digest| {
            before.bytes > 0 && files.text.as_ref().is_some_and(|text| text.size == before.bytes)
        };
        // Only on the first attempt: the commit fails if the file has other bytes than `pack.json` says, and
        // the next attempt then writes all of it.
        let start = before.filter(|before| first && is_there(before)).and_then(|before| {
            let bytes = packed.markdown.as_bytes().get(..usize::try_from(before.bytes).ok()?)?;
            (sha256(bytes) == before.sha256).then(|| (bytes.len(), hash_of(bytes)))
        });
        match start {
            Some((length, hash)) => {
                conditions.push((text_file.clone(), Precondition::Sha256(hash)));
                if length < packed.markdown.len() {
                    ops.push(Op::append(text_file, packed.markdown[length..].to_owned()).must_exist());
                }
            }
            None => ops.push(Op::write(text_file, packed.markdown.clone()).with_parents()),
        }
        if !cut.is_empty() {
            // Entries of earlier packs would make the index grow with all that was ever said.
            let cuts: HashSet<&str> = packed.pack.window.cuts.iter().map(|cut| &*cut.swap).collect();
            let is_needed = |entry: &&Swapped| !entry.cut || cuts.contains(&*entry.id);
            let index: Vec<Swapped> = files.swapped.iter().filter(is_needed).cloned().collect();
            ops.extend(self.swap_ops(session, cut, &index, &policy)?);
            conditions.push((self.file(session, SWAPPED)?, as_read(files.swap_file.as_ref())));
        }
        let batch = self.batch(session, ops, "pack session")?;
        let batch = conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that));
        // `with_parents` would create the directory of a session that is removed at the same time.
        let batch = batch.require(self.is_there(session)?, Precondition::Exists);
        self.once.commit(self.fs, batch, packed.into()).await
    }

    async fn pack_files(&self, session: &str, first: u64) -> Result<PackFiles> {
        // Before the messages are read: a retraction after this, which empties the file, makes the commit
        // fail. Otherwise the pack would write the retracted messages into it again.
        let text = self.fs.lookup(&self.file(session, PACK_TEXT)?).await?;
        let names = [PACK, BUDGET, SWAPPED];
        let paths = names.map(|name| self.file(session, name)).into_iter().collect::<Result<Vec<_>>>()?;
        let mut read = read_all(self.fs, &paths, MAX_PACK).await?.into_iter();
        let (pack, budget, swap_file) = (read.next().flatten(), read.next().flatten(), read.next().flatten());
        let json = pack.as_ref().and_then(File::text).unwrap_or_default();
        // Any program can write `pack.json`. A file that is not a pack, or a pack of another form, is not
        // continued.
        let before = serde_json::from_str::<Pack>(json).ok();
        let before = before.filter(|pack| pack.form == FORM && pack.tokenizer == ENCODING);
        let budget = parse_budget(budget.as_ref().and_then(File::text).unwrap_or_default());
        let how = "write it again with the budget of the session";
        let budget = budget.map_err(|error| unreadable(&paths[1], error.message(), how))?;
        let swapped = parse_index(swap_file.as_ref().and_then(File::text).unwrap_or_default());
        Ok(PackFiles { before, pack, text, budget, swap_file, swapped, first })
    }
}

/// Parses `context/budget`.
///
/// # Errors
/// `InvalidArgument` for anything but a number of tokens.
fn parse_budget(text: &str) -> Result<Option<u64>> {
    match text.trim() {
        "" => Ok(None),
        number => {
            let bad = || {
                Error::invalid("must be empty, 0 for no limit, or a number of tokens, such as 32000 or 32k")
            };
            let tokens = parse_tokens(number).ok_or_else(bad)?;
            check_tokens("budget", tokens).map(|()| Some(tokens))
        }
    }
}

fn hash_of(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    garth_engine::compute::working(bytes.len());
    sha2::Sha256::digest(bytes).into()
}
