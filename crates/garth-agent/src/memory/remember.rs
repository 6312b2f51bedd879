//! Short way to store a fact: `remember` stores a text as a memory of the category `notes`, `forget` deletes
//! one and returns its remains.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::duplicates::{MOST, MOST_SIMILAR};
use super::meta::{Meta, Provenance};
use super::past::MAX_LOGGED;
use super::put::{Put, Written};
use super::state::State;
use super::uri::{Space, Uri};
use super::{META, Memories, layers, sha256};
use crate::boxed;
use crate::once::{Outcome, PENDING};
use crate::retry::retry;
use garth_engine::error::{Advice, Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::model::{Commit, HistoryPage, Page, Seq};
use garth_engine::path::Name;

/// Category of the memories that [`Memories::remember`] creates.
pub const NOTES: &str = "notes";

/// Limit on the bytes of a slug that repeat words of the text, for readers of lists of URIs.
const MAX_SLUG_WORDS: usize = 40;

/// Number of hexadecimal digits of the SHA-256 of the text in a slug. Two texts share a slug only if they
/// also begin with the same words; a number is then appended.
const SLUG_DIGITS: usize = 12;

/// Limit on the memories that share words and digits: earlier ones that were edited or replaced.
const MAX_NUMBER: usize = 100;

/// Fact to store. Start from [`Remember::new`] and set the options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remember {
    /// Text of the fact, Markdown. White space around it is ignored.
    #[doc(hidden)]
    pub text: String,
    /// Owner of the memory; `None` for the default of the handle.
    #[doc(hidden)]
    pub space: Option<Space>,
    /// Tags to add.
    #[doc(hidden)]
    pub tags: Vec<String>,
}

impl Remember {
    /// Returns a fact for the default owner of the handle.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Sets the owner of the memory.
    #[must_use]
    pub fn space(self, space: Space) -> Self {
        Self { space: Some(space), ..self }
    }

    /// Adds tags.
    #[must_use]
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.tags.extend(tags.into_iter().map(Into::into));
        self
    }
}

impl<T: Into<String>> From<T> for Remember {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// Remains of a memory that was deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Forgotten {
    /// URI of the memory.
    pub uri: Uri,
    /// Commit that deleted it.
    pub seq: Seq,
    /// Number of versions that can still be read, at most [`MAX_LOGGED`]; 0 if the tree has no history.
    pub versions: usize,
    /// True if there are more versions.
    pub more: bool,
    /// Messages that the memory was derived from. They are still in their session.
    pub provenance: Option<Provenance>,
}

impl Outcome for Forgotten {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: commit.seq, ..self }
    }
}

impl Forgotten {
    /// Returns the JSON form of the interfaces: `uri`, `seq`, and `left` with `versions`, `more` and
    /// `provenance`.
    pub fn to_json(&self) -> Value {
        let left = json!({"versions": self.versions, "more": self.more, "provenance": self.provenance});
        json!({"uri": self.uri.to_string(), "seq": self.seq.0, "left": left})
    }
}

impl Memories<'_> {
    /// Stores a fact as a memory of the category `notes`. A fact that exists is not stored again.
    /// [`Written::near`] lists similar memories, which the fact may repeat or contradict; nothing is merged
    /// or replaced.
    ///
    /// # Errors
    /// As [`Memories::put`]; `InvalidArgument` for an empty text.
    #[boxed]
    pub async fn remember(&self, fact: &Remember) -> Result<Written> {
        let space = fact.space.clone().unwrap_or_else(|| self.space.clone());
        let text = fact.text.trim();
        if text.is_empty() {
            return Err(Error::invalid("the text is empty; give the fact as a sentence"));
        }
        let remember = retry(|| self.remember_once(&space, text, &fact.tags));
        self.once.run(remember).await
    }

    async fn remember_once(&self, space: &Space, text: &str, tags: &[String]) -> Result<Written> {
        let mut put = Put::new(format!("{text}\n"));
        let first = self.note(space, text, 1);
        self.check(&first)?;
        self.check_change(&first)?;
        put.check(&first)?;
        let (uri, meta) = match self.noted(space, text).await? {
            MemoryOfText::Exists(uri, meta) => (uri, meta),
            MemoryOfText::Free(Some(uri)) => {
                put.tags = (!tags.is_empty()).then(|| tags.to_vec());
                // Fails if another caller has created it since the read.
                put.if_version = Some(0);
                return self.put_once(&uri, &put).await.map_err(|error| match error.kind() {
                    // Another caller has stored it in between. With a path, `retry` tries again.
                    ErrorKind::Conflict => Error::at(ErrorKind::Conflict, &uri.dir(), error.message()),
                    _ => error,
                });
            }
            MemoryOfText::Free(None) => {
                let message = "too many memories share the slug of this text; put it under a URI of its own";
                return Err(Error::new(ErrorKind::Conflict, message));
            }
        };
        // Tags are added to those of the existing memory; without new ones the put changes nothing.
        let missing = tags.iter().any(|tag| !meta.tags.contains(tag));
        put.tags = missing.then(|| meta.tags.iter().chain(tags).cloned().collect());
        self.put_once(&uri, &put).await
    }

    /// Looks for the memory of a text under all numbers of its slug. Memories with another text were edited,
    /// replaced or damaged since, and stay as they are.
    async fn noted(&self, space: &Space, text: &str) -> Result<MemoryOfText> {
        let first = self.note(space, text, 1);
        let mut numbers = vec![1];
        // A number may be free while a higher one is in use: earlier memories can be deleted.
        if let (Some(notes), Some(name)) = (first.dir().parent(), first.dir().name()) {
            let page = Page::default().after(Name::parse(name)?).limit(MAX_NUMBER);
            let names = self.fs.list(&notes.into(), &page).await.optional()?.unwrap_or_default().items;
            let suffixes = names.iter().filter_map(|item| item.name.as_str().strip_prefix(name));
            numbers.extend(suffixes.filter_map(|suffix| suffix.strip_prefix('-')?.parse::<usize>().ok()));
        }
        numbers.sort_unstable();
        let mut used = Vec::new();
        for number in numbers.into_iter().filter(|number| (1..=MAX_NUMBER).contains(number)) {
            let uri = self.note(space, text, number);
            let state = State::read(self.fs, &uri).await?;
            if let Some(meta) = says(&state, text) {
                return Ok(MemoryOfText::Exists(uri, Box::new(meta)));
            }
            if state.meta.is_some() || state.content.is_some() {
                used.push(number);
            }
        }
        let free = (1..=MAX_NUMBER).find(|number| !used.contains(number));
        Ok(MemoryOfText::Free(free.map(|number| self.note(space, text, number))))
    }

    /// Returns the current memory that `remember` stored for a text, or another one of the same owner that
    /// has this text, such as one that was edited since.
    ///
    /// # Errors
    /// `NotFound`, with similar memories in its message; from the filesystem.
    #[boxed]
    pub async fn remembered(&self, fact: &Remember) -> Result<Uri> {
        let space = fact.space.clone().unwrap_or_else(|| self.space.clone());
        let text = fact.text.trim();
        self.check(&self.note(&space, text, 1))?;
        if let MemoryOfText::Exists(uri, _) = self.noted(&space, text).await? {
            return Ok(uri);
        }
        let similar =
            self.similar(&self.note(&space, text, 1), text, MOST_SIMILAR).await?.unwrap_or_default();
        for near in &similar {
            // The digits of its slug are those of an earlier text.
            if says(&State::read(self.fs, &near.uri).await?, text).is_some() {
                return Ok(near.uri.clone());
            }
        }
        let near: Vec<String> = similar.iter().take(MOST).map(|near| near.uri.to_string()).collect();
        let failure = "no memory has this text";
        Err(match near.is_empty() {
            true => Error::new(ErrorKind::NotFound, failure)
                .advising(Advice::Recall, "`recall` finds memories, and shows their URIs"),
            false => {
                let message = format!("{failure}; similar memories: {}", near.join(", "));
                Error::new(ErrorKind::NotFound, message)
            }
        })
    }

    /// Deletes a memory as [`Memories::delete`] does, and returns its remains. Its versions stay in the
    /// history, and the messages that it was derived from stay in their session; packs and prompts that were
    /// built with it keep their text.
    ///
    /// # Errors
    /// As [`Memories::delete`].
    #[boxed]
    pub async fn forget(&self, uri: &Uri) -> Result<Forgotten> {
        self.check_place(uri)?;
        self.check_change(uri)?;
        self.once.run(retry(|| self.forget_once(uri))).await
    }

    /// Returns the outcome of an earlier attempt of the request, if that has deleted the memory.
    ///
    /// # Errors
    /// `Corrupt` for a record of another call.
    #[doc(hidden)]
    pub fn forgotten(&self) -> Result<Option<Forgotten>> {
        self.once.recorded()
    }

    async fn forget_once(&self, uri: &Uri) -> Result<Forgotten> {
        // Before the deletion, after which the meta is only in the history.
        let provenance = State::read(self.fs, uri).await?.known().and_then(|meta| meta.provenance);
        let (mut versions, mut more) = (0, false);
        if self.fs.capabilities(&uri.dir()).log {
            let page = HistoryPage::default().limit(MAX_LOGGED);
            let log = self.fs.history(&uri.file(META).into(), &page).await.optional()?.unwrap_or_default();
            versions = log.items.iter().filter(|version| version.entry.is_some()).count();
            more = log.more;
        }
        let left = Forgotten { uri: uri.clone(), seq: PENDING, versions, more, provenance };
        self.delete_once(uri, left).await
    }

    /// Returns the URI of a fact: the beginning of its text, and digits of its hash, so that one text has one
    /// URI whoever stores it.
    fn note(&self, space: &Space, text: &str, number: usize) -> Uri {
        let words = layers::brief(text).to_lowercase();
        let words = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let mut slug = String::new();
        for word in words.take_while(|word| word.len() < MAX_SLUG_WORDS) {
            if slug.len() + word.len() > MAX_SLUG_WORDS {
                break;
            }
            slug.push_str(word);
            slug.push('-');
        }
        slug.extend(sha256(text.as_bytes()).chars().take(SLUG_DIGITS));
        if number > 1 {
            slug.push_str(&format!("-{number}"));
        }
        Uri::memory(&self.account, space.clone(), NOTES, Some(slug))
    }
}

/// Result of the search for the memory of a text.
enum MemoryOfText {
    Exists(Uri, Box<Meta>),
    /// First URI for it that is free, if any is.
    Free(Option<Uri>),
}

/// Returns the meta of a current memory that has this text.
fn says(state: &State, text: &str) -> Option<Meta> {
    let content = state.content.as_ref().and_then(|file| file.text())?;
    state.active().filter(|meta| meta.valid_to.is_none() && content.trim() == text)
}
