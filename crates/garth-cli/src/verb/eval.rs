//! `garth eval`: measures recall on conversations with known evidence.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use garth_agent::eval::{BUDGETS, Conversations, Evaluation, Report, Store};
use garth_agent::recall::{MAX_BUDGET, MIN_BUDGET};
use garth_engine::{AccountStore, DataDir, Error, ErrorKind};

use crate::app::App;
use crate::args::Mode;
use crate::data_folder::builder;
use crate::fail::{Failure, Result};
use crate::model_args::{EmbedderArgs, OwnEmbedder};
use crate::progress;
use crate::size::parse_tokens;

/// Measure how much of the known evidence recall finds
///
/// Reads conversations and questions whose evidence is known, stores them in a temporary folder, asks each
/// question, and prints the mean share of the evidence that the answers contain: one row per --store, one
/// column per --tokens. R@10 is the share in the first ten hits of a search, and `unknown` the share of
/// questions without evidence for which nothing fits. The accounts of your data folder are neither read nor
/// changed.
///
/// --with-embedder also compares texts by the embedding service that garth.toml or the environment names, as
/// a server does; --embedder and the other options of the service imply it. Compare a run without and a run
/// with it to judge the service. Each text is sent once per --store, without a limit on tokens.
///
/// FILE has one conversation a line, as JSON: name, sessions (name, time, messages with id, role, content and
/// name), memories (id, user, text) and questions (id, question, evidence: a list of ids, user, kind).
///
/// With --json, prints one object per --store: store, questions, evidence (by budget), hits, unknown, kinds
/// (questions and evidence of each), recall and search (p50_ms, p95_ms), embedder_failed (questions for which
/// the embedding service failed; null without it).
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  garth eval questions.jsonl\n  \
                        garth eval questions.jsonl --with-embedder\n  \
                        garth eval questions.jsonl --store turns --store nodes --tokens 1000")]
pub(crate) struct Eval {
    /// File of conversations, JSON Lines; `-` for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    from: PathBuf,
    /// Way to store the conversations: a value, a session appended message by message or at once, a Markdown
    /// file, or a memory per message (repeatable)
    #[arg(
        long = "store", value_name = "WAY", default_values = ["turns"],
        value_parser = PossibleValuesParser::new(Store::ALL.map(Store::name))
    )]
    stores: Vec<String>,
    /// Compare texts by words alone, or also by meaning
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// Token limit for the answers, 100 to 32000 (repeatable) [default: 500, 1000, 2000 and 4000]
    #[arg(long = "tokens", value_name = "TOKENS", value_parser = parse_tokens)]
    budgets: Vec<u64>,
    /// Compare texts by the configured embedding service, too
    #[arg(long)]
    with_embedder: bool,
    #[command(flatten)]
    embedder: EmbedderArgs,
}

impl Eval {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("eval")?;
        let budgets = self.budgets()?;
        let from: Box<dyn BufRead> = match self.from.as_os_str() == "-" {
            true => Box::new(io::stdin().lock()),
            false => Box::new(BufReader::new(open(&self.from)?)),
        };
        let embedder = self.embedder(app)?;
        let folder = TemporaryFolder::new(app)?;
        let data_dir =
            builder().env(app.env.clone()).open(&folder.0).map_err(Failure::data_dir(&folder.0))?;
        let trees = self.trees(&data_dir).await?;
        // An evaluation has accounts of its own, whose tokens of the day are nobody's.
        let embedding = embedder.as_ref().map(OwnEmbedder::unlimited);
        let mut evaluations: Vec<Evaluation<'_>> = trees
            .iter()
            .map(|(store, fs)| {
                let evaluation = Evaluation::new(fs, store.name(), *store).env(app.env.clone());
                evaluation.mode(self.mode.into()).budgets(budgets.clone()).embedding(embedding)
            })
            .collect();
        let mut questions = 0;
        for conversation in Conversations::new(from) {
            let conversation = conversation.map_err(|error| in_file(&self.from, &error))?;
            questions += conversation.questions.len();
            for evaluation in &mut evaluations {
                progress::waiting("storing", evaluation.add(&conversation)).await?;
            }
        }
        if questions == 0 {
            return Err(in_file(&self.from, &Error::invalid("has no questions; see `garth eval --help`")));
        }
        app.out.note(Report::header(&budgets))?;
        for evaluation in &evaluations {
            let report = progress::waiting("asking", evaluation.report()).await?;
            app.out.item(&report.to_json(), &report)?;
        }
        Ok(())
    }

    /// Returns the embedding service to compare by; `None` if the options ask for none.
    fn embedder(&self, app: &App) -> Result<Option<OwnEmbedder>> {
        if !self.with_embedder && !self.embedder.is_given() {
            return Ok(None);
        }
        if self.mode == Mode::Words {
            let message = "--mode words compares no meaning: remove it, or the embedding service";
            return Err(Failure::Usage(message.into()));
        }
        let opened = self.embedder.open(app)?;
        opened.map(Some).ok_or_else(|| {
            let message = "--with-embedder needs an embedding service: set embedder_endpoint and embedder in \
                           garth.toml, or name one with --embedder-endpoint and --embedder";
            Failure::Usage(message.into())
        })
    }

    /// Returns the budgets, each once.
    fn budgets(&self) -> Result<Vec<usize>> {
        let given = self.budgets.iter().map(|budget| usize::try_from(*budget).unwrap_or(usize::MAX));
        let mut budgets: Vec<usize> = Vec::new();
        for budget in given {
            // Before anything is stored: recall would refuse it only after that.
            if !(MIN_BUDGET..=MAX_BUDGET).contains(&budget) {
                let message = format!("--tokens {budget}: has to be {MIN_BUDGET} to {MAX_BUDGET}");
                return Err(Failure::Usage(message));
            }
            if !budgets.contains(&budget) {
                budgets.push(budget);
            }
        }
        Ok(if budgets.is_empty() { BUDGETS.to_vec() } else { budgets })
    }

    /// Returns an empty account for each way to store, in the order of [`Store::ALL`].
    async fn trees(&self, data_dir: &DataDir) -> Result<Vec<(Store, Arc<dyn AccountStore>)>> {
        let mut trees = Vec::new();
        for store in
            Store::ALL.into_iter().filter(|store| self.stores.iter().any(|name| name == store.name()))
        {
            data_dir.create_account(store.name()).await?;
            trees.push((store, data_dir.account(store.name()).await?));
        }
        Ok(trees)
    }
}

/// Opens the file of conversations.
fn open(file: &Path) -> Result<File> {
    let opened = File::open(file).map_err(Failure::host(file))?;
    // Some systems open a directory, and then fail to read it.
    if opened.metadata().map_err(Failure::host(file))?.is_dir() {
        return Err(Failure::host(file)(io::ErrorKind::IsADirectory.into()));
    }
    Ok(opened)
}

/// Adds the name of the file to an error of one of its lines.
fn in_file(file: &Path, error: &Error) -> Failure {
    if error.is(ErrorKind::Io) {
        // A failure to read the file, which is not in the data folder.
        return Failure::host(file)(io::Error::other(error.message().to_owned()));
    }
    Failure::Tree(Error::new(error.kind(), format!("{}: {}", file.display(), error.message())))
}

/// Folder that is removed in the end.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(app: &App) -> Result<Self> {
        let digits = garth_engine::model::hex(&app.env.random::<8>()?);
        let folder = std::env::temp_dir().join(format!("garth-eval-{digits}"));
        // Not an existing folder: it might be another user's.
        std::fs::create_dir(&folder).map_err(Failure::host(&folder))?;
        Ok(Self(folder))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Nobody waits for the result of a drop, and the operating system cleans such folders.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
