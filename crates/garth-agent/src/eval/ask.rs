//! Asks the questions of an evaluation.

use std::collections::HashMap;

use super::BUDGETS;
use super::contains::contains;
use super::conversation::Conversation;
use super::report::{HITS, QuestionResult, Report};
use super::store::{Group, Store, places, store};
use crate::boxed;
use crate::recall::{Embedding, Key, Recall, Recaller};
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, ByteRange, SearchMode, SearchQuery};
use garth_engine::path::TreePath;
use std::time::Duration;

/// Limit on the questions, which are held in memory until all texts are stored.
const MAX_QUESTIONS: usize = 100_000;
/// Time between two looks at the index, and number of looks: ten minutes in all.
const PAUSE: Duration = Duration::from_millis(50);
const LOOKS: usize = 12_000;
/// Key of the fences. It is always the same, so that answers have the same tokens in each run. Nobody reads
/// these answers, so no text can profit from it.
const KEY: [u8; 32] = [0; 32];

/// Evaluation of recall in one tree, which should be empty before.
///
/// ```
/// use garth_agent::eval::{Conversations, Evaluation, Store};
/// use garth_engine::Env;
/// use garth_engine::engine::sqlite::SqliteFs;
///
/// let lines = r#"{"name": "ann", "sessions": [{"name": "monday", "messages": [
///     {"id": "m1", "role": "user", "content": "The heating is dead again."},
///     {"id": "m2", "role": "assistant", "content": "Does the display show a code?"}]}],
///     "questions": [{"id": "q1", "question": "What is wrong with the heating?", "evidence": ["m1"]}]}"#;
/// let lines = lines.replace('\n', " ");
/// # futures::executor::block_on(async {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// let fs = SqliteFs::open(folder.path(), Env::system(), garth_agent::registry())?;
/// let mut evaluation = Evaluation::new(&*fs, "default", Store::Turns);
/// for conversation in Conversations::new(lines.as_bytes()) {
///     evaluation.add(&conversation?).await?;
/// }
/// let report = evaluation.report().await?;
/// assert_eq!(report.evidence(2_000), Some(1.0));
/// # Ok::<(), garth::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Evaluation<'a> {
    fs: &'a dyn FileSystem,
    account: String,
    env: Env,
    store: Store,
    mode: SearchMode,
    /// Service that compares texts with the questions.
    embedding: Option<Embedding<'a>>,
    budgets: Vec<usize>,
    /// Number of conversations that were added.
    conversations: usize,
    /// Number of each user, in the order in which they were named.
    users: HashMap<String, usize>,
    asked: Vec<Asked>,
}

/// Question to ask when all texts are stored.
#[derive(Clone, Debug)]
struct Asked {
    id: String,
    conversation: String,
    kind: Option<String>,
    question: String,
    within: [TreePath; 2],
    evidence: Vec<String>,
}

impl<'a> Evaluation<'a> {
    /// Returns an evaluation that stores conversations in the tree of `account` in this way.
    pub fn new(fs: &'a dyn FileSystem, account: &str, store: Store) -> Self {
        Self {
            fs,
            account: account.to_owned(),
            env: Env::system(),
            store,
            mode: SearchMode::default(),
            embedding: None,
            budgets: BUDGETS.to_vec(),
            conversations: 0,
            users: HashMap::new(),
            asked: Vec::new(),
        }
    }

    /// Sets the clock, the randomness and the threads to compute on. The default is those of the machine.
    #[must_use]
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Sets the features by which texts are compared (default: [`SearchMode::Meaning`]).
    #[must_use]
    pub fn mode(self, mode: SearchMode) -> Self {
        Self { mode, ..self }
    }

    /// Sets the embedding service of the recalls, which use it in the mode [`SearchMode::Meaning`]. A text is
    /// sent once while its cache has the vector.
    #[must_use]
    pub fn embedding(self, embedding: Option<Embedding<'a>>) -> Self {
        Self { embedding, ..self }
    }

    /// Sets the token budgets of the answers. Each question is asked once for each of them.
    #[must_use]
    pub fn budgets(self, budgets: impl IntoIterator<Item = usize>) -> Self {
        Self { budgets: budgets.into_iter().collect(), ..self }
    }

    /// Stores a conversation, and holds its questions until [`Evaluation::report`].
    ///
    /// # Errors
    /// `TooLarge` for too many questions; as the writes of the store.
    #[boxed]
    pub async fn add(&mut self, conversation: &Conversation) -> Result<()> {
        if self.asked.len() + conversation.questions.len() > MAX_QUESTIONS {
            let message = format!("an evaluation has at most {MAX_QUESTIONS} questions");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        self.conversations += 1;
        let (line, env) = (self.conversations, self.env.clone());
        // Numbers in place of names, so that every name is a valid part of a path.
        let own = format!("c{line}");
        for (number, group) in Group::sessions(conversation).iter().enumerate() {
            store((self.fs, &self.account, &env), self.store, (&own, number), group).await?;
        }
        for (user, group) in Group::memories(conversation) {
            let owner = self.owner(user);
            store((self.fs, &self.account, &env), self.store, (&owner, line), &group).await?;
        }
        for question in &conversation.questions {
            let owner = question.user.as_deref().map_or_else(|| own.clone(), |user| self.owner(user));
            let evidence = question.evidence.iter().filter_map(|id| conversation.evidence(question, id));
            self.asked.push(Asked {
                id: question.id.clone(),
                conversation: conversation.name.clone(),
                kind: question.kind.clone(),
                question: question.question.clone(),
                within: places(&owner)?,
                evidence: evidence.map(str::to_owned).collect(),
            });
        }
        Ok(())
    }

    /// Asks all questions.
    ///
    /// # Errors
    /// As [`Recaller::recall`]; `WouldBlock` if the texts are not indexed after ten minutes.
    #[boxed]
    pub async fn report(&self) -> Result<Report> {
        self.wait_for_index().await?;
        let mut report = Report::new(self.store, self.budgets.clone());
        report.with_embedder = self.embedding.is_some() && self.mode == SearchMode::Meaning;
        for asked in &self.asked {
            let result = self.ask(asked, &mut report).await?;
            report.results.push(result);
        }
        report.sort();
        Ok(report)
    }

    /// Returns the id under which the memories of a user are stored, in all conversations.
    fn owner(&mut self, user: &str) -> String {
        let next = self.users.len() + 1;
        format!("u{}", self.users.entry(user.to_owned()).or_insert(next))
    }

    /// Waits until all texts are indexed: questions about half of them would measure nothing.
    async fn wait_for_index(&self) -> Result<()> {
        for _ in 0..LOOKS {
            if self.fs.search(&SearchQuery::new("any").without_text()).await?.missing == 0 {
                return Ok(());
            }
            self.env.sleep(PAUSE);
        }
        Err(Error::new(ErrorKind::WouldBlock, "the texts are not indexed yet; try again"))
    }

    async fn ask(&self, asked: &Asked, report: &mut Report) -> Result<QuestionResult> {
        let recaller = Recaller::new(self.fs, &self.account).env(self.env.clone());
        let recaller = recaller.embedding(self.embedding);
        let mut result = QuestionResult {
            id: asked.id.clone(),
            conversation: asked.conversation.clone(),
            kind: asked.kind.clone(),
            has_evidence: !asked.evidence.is_empty(),
            shown: Vec::new(),
            hits: 0.0,
            is_nothing_found: true,
            embedder_failed: false,
        };
        for budget in &self.budgets {
            let mut recall = Recall::new(&asked.question).budget(*budget).mode(self.mode);
            recall.within = asked.within.to_vec();
            let start = self.env.instant();
            let answer = recaller.recall(&recall, &Key::new(KEY)).await?;
            report.recall.push(self.env.instant() - start);
            let texts: Vec<&str> = answer.items.iter().map(|item| &*item.text).collect();
            result.shown.push(share(&asked.evidence, &texts));
            result.is_nothing_found &= !answer.fits;
            result.embedder_failed |= answer.is_without_service;
        }
        let query = SearchQuery::new(&asked.question).within_any(asked.within.clone());
        let query = query.mode(self.mode).per_file(HITS).limit(HITS);
        let start = self.env.instant();
        let found = self.fs.search(&query).await?.hits;
        report.search.push(self.env.instant() - start);
        let mut texts = Vec::new();
        for hit in found {
            let bytes = self.fs.read(&At::Path(hit.path), ByteRange::from(hit.bytes)).await?;
            texts.push(String::from_utf8_lossy(&bytes).into_owned());
        }
        result.hits = share(&asked.evidence, &texts);
        Ok(result)
    }
}

/// Returns the share of the evidence that is complete in one of the texts; 0 without evidence.
fn share(evidence: &[String], texts: &[impl AsRef<str>]) -> f64 {
    let is_shown = |one: &&String| texts.iter().any(|text| contains(text.as_ref(), one));
    evidence.iter().filter(is_shown).count() as f64 / evidence.len().max(1) as f64
}
