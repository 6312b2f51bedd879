//! Packs: what a model gets of a session now, within its budget. A pack is built of files and messages that
//! are kept, says of what, and can be built again, byte for byte.

mod build;
mod diff;
mod layers;
mod made;
mod replay;
mod window;

pub use self::diff::{Changed, Difference};
use self::made::FORM;
pub use self::made::{Digest, Item, Omitted, Pack, Prefix, Reserved, Window};

use self::layers::Part;
use super::Sessions;
use super::due::due_at;
use super::files::{BUDGET, PACK, PACK_TEXT, SWAPPED};
use super::message::Message;
use super::provider::{self, Format};
use super::swap_index::{Swapped, parse_index};
use crate::count::ENCODING;
use crate::small::{File, as_read, pretty, read_all, sha256};
use crate::tries::Tries;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{Op, Precondition};

/// Most tokens of a pack without a budget.
pub const MAX_TOKENS: u64 = 1_000_000;

/// Largest `pack.json`, 16 MiB.
const MAX_PACK: usize = (16 << 20) - 1;

/// What to build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackOptions {
    /// How many tokens there are for all; 0: as many as it takes. If it is not given, what `context/budget`
    /// says, else the context window of the session's model.
    pub budget: Option<u64>,
    /// What of them is for something else.
    pub reserved: Reserved,
    /// Whether to begin anew: with the derived files as they are now, and messages until half of the budget
    /// is free.
    pub fresh: bool,
    /// Entries of `refs.jsonl` whose content is to be in it.
    pub expand: Vec<String>,
    /// Whether nothing is to be written.
    pub dry: bool,
}

/// A pack that was built.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Packed {
    /// What it is made of.
    pub pack: Pack,
    /// `pack.md`: what the model gets as text.
    pub markdown: String,
    /// The files before the messages.
    pub(super) system: String,
    pub(super) messages: Vec<Message>,
    /// What comes behind them.
    pub(super) after: Vec<String>,
}

impl Packed {
    /// As a list of messages that a provider takes; JSON.
    pub fn list(&self, format: Format) -> String {
        provider::list(format, &self.system, &self.messages, &self.after)
    }

    /// Of its parts.
    fn of(front: &[Part], messages: window::Drawn, behind: &[Part]) -> (String, String, Self) {
        let system: String = front.iter().map(|part| part.text.as_str()).collect();
        let stays = format!("{system}{}", messages.text);
        let after: Vec<String> = behind.iter().map(|part| part.text.clone()).collect();
        let markdown = format!("{stays}{}", after.concat());
        let packed = Self {
            pack: Pack::empty(),
            markdown: markdown.clone(),
            system,
            messages: messages.messages,
            after,
        };
        (stays, markdown, packed)
    }

    /// Each form with its hash.
    fn forms(&self) -> std::collections::BTreeMap<String, Digest> {
        let digest = |text: &str| Digest { bytes: text.len() as u64, sha256: sha256(text.as_bytes()) };
        let lists = [Format::OpenAi, Format::Anthropic].map(|of| (of.to_string(), digest(&self.list(of))));
        lists.into_iter().chain([("markdown".to_owned(), digest(&self.markdown))]).collect()
    }
}

/// What the files of a session say that a pack is built by.
struct Files {
    before: Option<Pack>,
    /// As `pack.json` was read.
    pack: Option<File>,
    budget: Option<u64>,
    swap_file: Option<File>,
    swapped: Vec<Swapped>,
    /// The first line that may be in a pack: those before it were compacted away.
    first: u64,
}

impl Sessions<'_> {
    /// Builds what a model gets now, and writes `pack.json` and `pack.md` in one commit. If nothing changed
    /// since the last time, nothing is written.
    ///
    /// # Errors
    /// `BudgetTooSmall` if the last message of the user and the step that is not finished do not fit, with
    /// the least budget that does; `NotFound`; `InvalidArgument`; from the filesystem.
    pub async fn pack(&self, session: &str, options: &PackOptions) -> Result<Packed> {
        let (mut tries, mut first) = (Tries::default(), true);
        loop {
            match self.pack_once(session, options, first).await {
                Err(error) if tries.again(&error) => first = false,
                done => return done,
            }
        }
    }

    async fn pack_once(&self, session: &str, options: &PackOptions, first: bool) -> Result<Packed> {
        let (_, meta) = self.meta(session).await?;
        let files = self.pack_files(session, meta.compacted_to.unwrap_or(0) + 1).await?;
        let budget = options.budget.or(files.budget).or(meta.context_window).unwrap_or(0);
        let (packed, cut) = self.build(session, options, budget, &files).await?;
        let (pack_file, text_file) = (self.file(session, PACK)?, self.file(session, PACK_TEXT)?);
        if options.dry {
            return Ok(packed);
        }
        if files.before.as_ref().is_some_and(|before| before.is_same(&packed.pack)) {
            let text = read_all(self.fs, std::slice::from_ref(&text_file), packed.markdown.len()).await?;
            // somebody else may have written there
            if text.first().and_then(|file| file.as_ref()?.text()) == Some(&packed.markdown) {
                return Ok(packed);
            }
        }
        let policy = self.policy_or_default(session).await?;
        let attrs = self.marked(&pack_file, Some(due_at(self.env.now(), policy.pack_ttl)));
        let mut ops =
            vec![Op::write(pack_file.clone(), pretty(&packed.pack)).with_parents().with_attrs(attrs)];
        let mut conditions = vec![(pack_file, as_read(files.pack.as_ref()))];
        // what goes on as it was is appended, and so not stored again
        let before = files.before.as_ref().and_then(|before| before.forms.get("markdown"));
        let start = before.filter(|before| first && before.bytes > 0).and_then(|before| {
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
            ops.extend(self.swap_ops(session, cut, &files.swapped, &policy)?);
            conditions.push((self.file(session, SWAPPED)?, as_read(files.swap_file.as_ref())));
        }
        let batch = self.batch(session, ops, "pack session");
        let batch = conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that));
        self.fs.commit(batch.require(self.is_there(session)?, Precondition::Exists)).await?;
        Ok(packed)
    }

    async fn pack_files(&self, session: &str, first: u64) -> Result<Files> {
        let names = [PACK, BUDGET, SWAPPED];
        let paths = names.map(|name| self.file(session, name)).into_iter().collect::<Result<Vec<_>>>()?;
        let mut read = read_all(self.fs, &paths, MAX_PACK).await?.into_iter();
        let (pack, budget, swap_file) = (read.next().flatten(), read.next().flatten(), read.next().flatten());
        let text = pack.as_ref().and_then(File::text).unwrap_or_default();
        // what somebody else put there is built anew
        let before = serde_json::from_str::<Pack>(text).ok();
        let before = before.filter(|pack| pack.form == FORM && pack.tokenizer == ENCODING);
        let budget = parse_budget(budget.as_ref().and_then(File::text).unwrap_or_default())?;
        let swapped = parse_index(swap_file.as_ref().and_then(File::text).unwrap_or_default());
        Ok(Files { before, pack, budget, swap_file, swapped, first })
    }
}

/// What `context/budget` says.
///
/// # Errors
/// `InvalidArgument` for what is no number.
fn parse_budget(text: &str) -> Result<Option<u64>> {
    match text.trim() {
        "" => Ok(None),
        number => number.parse().map(Some).map_err(|_| {
            Error::invalid(format!("{BUDGET}: is empty, 0 for no limit, or a number of tokens"))
        }),
    }
}

fn hash_of(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

/// That a pack has no room for what has to be in it.
fn too_small(session: &str, least: u64) -> Error {
    let message = format!(
        "{session}: the last message of the user and the step that is not finished take {least} tokens with \
         what is reserved; give a budget of {least} or more"
    );
    Error::new(ErrorKind::BudgetTooSmall, message)
}
