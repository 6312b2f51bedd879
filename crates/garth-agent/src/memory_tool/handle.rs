//! Handle that carries out the commands of the memory tool on a tree.

use super::answer::{Answer, Failure};
use super::command::Command;
use super::listing;
use super::numbered_lines::{MAX_SHOWN, count, numbered, snippet};
use super::tool_path::{TOP, ToolPath, shown};
use crate::boxed;
use crate::files::{Edit, EditRefusal, MAX_EDITED, MAX_OLD};
use crate::once::Once;
use garth_engine::compute::working;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Author, Batch, ByteRange, Entry, Op, Precondition};
use garth_engine::path::TreePath;

/// Limit on the lines of a file that is shown.
pub const MAX_FILE_LINES: u64 = 999_999;
/// Room for the notes below lines that are cut.
const NOTES: usize = 256;
/// Attempts of a replacement that other writers of the file overtake.
const ATTEMPTS: usize = 10;

/// Memory tool of Claude models, on the tree of an agent: `/memories` is `/.user/memory` of the tree.
///
/// ```
/// use garth_agent::memory_tool::{Command, MemoryTool};
///
/// # futures::executor::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let data = garth::open(folder.path().join("data"))?;
/// let chat = data.agent("scout").user("ann").open().await?;
/// let tool = MemoryTool::new(&**chat.files());
///
/// let input = r#"{"command": "create", "path": "/memories/tea.md", "file_text": "Ann likes tea.\n"}"#;
/// let answer = tool.run(&serde_json::from_str(input)?).await?;
/// assert_eq!(answer.text, "File created successfully at: /memories/tea.md");
///
/// let view = Command::View { path: "/memories/tea.md".to_owned(), view_range: None };
/// let shown = "Here's the content of /memories/tea.md with line numbers:\n     1\tAnn likes tea.";
/// assert_eq!(tool.run(&view).await?.text, shown);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// Each command that changes something is one commit. A command that the model can correct is answered with a
/// text and [`Answer::is_error`]; an error is returned only if the program or the storage has to act.
#[derive(Clone)]
pub struct MemoryTool<'a> {
    fs: &'a dyn FileSystem,
    author: Author,
    once: Once,
    /// Limit on the bytes of an answer to `view` or `str_replace`.
    limit: usize,
}

impl<'a> MemoryTool<'a> {
    /// Returns the tool on the tree of an agent.
    pub fn new(fs: &'a dyn FileSystem) -> Self {
        Self { fs, author: Author::default(), once: Once::default(), limit: MAX_SHOWN }
    }

    /// Sets the author of commits.
    #[must_use]
    pub fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// Sets the request that the tool carries out with one command.
    #[must_use]
    #[doc(hidden)]
    pub fn once(self, once: Once) -> Self {
        Self { once, ..self }
    }

    /// Sets the limit on the bytes of an answer that shows lines or a directory, for an interface whose
    /// answers are shorter than [`MAX_SHOWN`]. It must leave room for the longest path.
    #[must_use]
    #[doc(hidden)]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Carries out a command.
    ///
    /// # Errors
    /// - `AccessDenied`, `IdempotencyMismatch`.
    /// - `WouldBlock`: other writers changed the tree at each attempt; try again.
    /// - Errors of the storage.
    #[boxed]
    pub async fn run(&self, command: &Command) -> Result<Answer> {
        let done = match command {
            Command::View { path, view_range } => self.view(path, *view_range).await,
            _ => self.once.run(self.write(command)).await,
        };
        match done {
            Ok(answer) => Ok(answer),
            Err(Failure::Model(text)) => Ok(Answer::failed(text)),
            Err(Failure::Program(error)) if is_for_model(&error) => Ok(Answer::failed(told(&error))),
            Err(Failure::Program(error)) => Err(error),
        }
    }

    async fn write(&self, command: &Command) -> Result<Answer, Failure> {
        match command {
            Command::Create { path, file_text } => self.create(path, file_text).await,
            Command::StrReplace { path, old_str, new_str } => {
                self.str_replace(path, old_str, new_str.as_deref().unwrap_or_default()).await
            }
            Command::Insert { path, insert_line, insert_text } => {
                self.insert(path, *insert_line, insert_text).await
            }
            Command::Delete { path } => self.delete(path).await,
            Command::Rename { old_path, new_path } => self.rename(old_path, new_path).await,
            Command::View { path, view_range } => self.view(path, *view_range).await,
        }
    }

    async fn view(&self, path: &str, range: Option<[i64; 2]>) -> Result<Answer, Failure> {
        let path = ToolPath::parse(path)?;
        let missing =
            || Failure::model(format!("The path {} does not exist. Please provide a valid path.", path.text));
        match self.entry(&path.at).await? {
            None if path.is_top() => Ok(Answer::done(listing::empty(&path))),
            None => Err(missing()),
            Some(entry) if entry.is_dir() => {
                Ok(Answer::done(listing::listing(self.fs, &path, self.limit).await?))
            }
            Some(_) => {
                let (_, text) = self.file(&path).await?.ok_or_else(missing)?;
                content(&path, &text, range, self.limit).map(Answer::done)
            }
        }
    }

    async fn create(&self, path: &str, text: &str) -> Result<Answer, Failure> {
        let path = ToolPath::parse(path)?;
        let exists = || Failure::model(format!("Error: File {} already exists", path.text));
        if path.is_top() {
            return Err(exists());
        }
        if text.len() > MAX_EDITED {
            return Err(too_large());
        }
        let op = Op::write(&path.at, text.to_owned()).create_new().with_parents();
        let answer = Answer::done(format!("File created successfully at: {}", path.text));
        match self.commit("create", op.into(), answer).await {
            Err(error) if error.is(ErrorKind::AlreadyExists) => Err(exists()),
            done => self.told_about_link(done).await,
        }
    }

    async fn str_replace(&self, path: &str, old: &str, new: &str) -> Result<Answer, Failure> {
        let path = ToolPath::parse(path)?;
        if old.is_empty() {
            return Err(Failure::model("Error: `old_str` is empty. Give the text to replace."));
        }
        if old.len() > MAX_OLD {
            return Err(Failure::model(format!(
                "Error: `old_str` has more than {MAX_OLD} bytes. Give less of it."
            )));
        }
        let edit = Edit::replace(old, new);
        let refused = |refusal: EditRefusal| match refusal {
            EditRefusal::Several(_, lines) => {
                let lines = lines.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
                Failure::model(format!(
                    "No replacement was performed. Multiple occurrences of old_str `{old}` in lines: \
                     {lines}. Please ensure it is unique"
                ))
            }
            EditRefusal::TooLarge => too_large(),
            EditRefusal::NotFound | EditRefusal::NoSuchLine(_) => Failure::model(format!(
                "No replacement was performed, old_str `{old}` did not appear verbatim in {}.",
                path.text
            )),
        };
        let missing = || {
            let text = format!("Error: The path {} does not exist. Please provide a valid path.", path.text);
            Failure::model(text)
        };
        let answer = |text: &str, line: u64| {
            let edited = "The memory file has been edited.";
            Answer::done(format!(
                "{edited}{}",
                snippet(text, line, new, self.limit.saturating_sub(edited.len()))
            ))
        };
        for _ in 1..ATTEMPTS {
            match self.edited("str_replace", &path, &edit, &missing, &refused, &answer).await {
                // Another writer was faster, and the replacement may apply to what it wrote.
                Err(Failure::Program(error)) if error.is(ErrorKind::Conflict) => {}
                done => return done,
            }
        }
        self.edited("str_replace", &path, &edit, &missing, &refused, &answer).await
    }

    async fn insert(&self, path: &str, line: i64, text: &str) -> Result<Answer, Failure> {
        let path = ToolPath::parse(path)?;
        // A line before the first is refused by the file, which has fewer lines than this.
        let after = u64::try_from(line).unwrap_or(u64::MAX);
        let edit = Edit::insert(after, if text.is_empty() { "\n" } else { text });
        let refused = |refusal: EditRefusal| match refusal {
            EditRefusal::NoSuchLine(lines) => Failure::model(format!(
                "Error: Invalid `insert_line` parameter: {line}. It should be within the range of lines \
                 of the file: [0, {lines}]"
            )),
            _ => too_large(),
        };
        let missing = || does_not_exist(&path);
        let answer = |_: &str, _: u64| Answer::done(format!("The file {} has been edited.", path.text));
        // Not tried again: the number of the line is that of the content which the model has seen.
        self.edited("insert", &path, &edit, &missing, &refused, &answer).await
    }

    /// Edits a file in one commit on the content that was read. `answer` gets the text after the edit, and
    /// the first line of the change.
    async fn edited(
        &self,
        name: &str,
        path: &ToolPath,
        edit: &Edit,
        missing: &(dyn Fn() -> Failure + Sync),
        refused: &(dyn Fn(EditRefusal) -> Failure + Sync),
        answer: &(dyn Fn(&str, u64) -> Answer + Sync),
    ) -> Result<Answer, Failure> {
        let Some((entry, text)) = self.file(path).await? else { return Err(missing()) };
        let applied = edit.apply(&text).map_err(refused)?;
        if applied.text.len() > MAX_EDITED {
            return Err(too_large());
        }
        let answer = answer(&applied.text, applied.line);
        let batch = Batch::new([]).author(self.author.clone()).message(message(name));
        if applied.text == text {
            return Ok(self.once.unchanged(self.fs, batch, answer).await?);
        }
        let batch = batch.op(Op::write(&path.at, applied.text).must_exist());
        let batch = batch.require(&path.at, Precondition::Etag(entry.etag));
        Ok(self.once.commit(self.fs, batch, answer).await?)
    }

    async fn delete(&self, path: &str) -> Result<Answer, Failure> {
        let path = ToolPath::parse(path)?;
        if path.is_top() {
            return Err(Failure::model(format!("Error: {TOP} cannot be deleted. Delete the files in it.")));
        }
        if self.entry_or_link(&path.at).await?.is_none() {
            return Err(does_not_exist(&path));
        }
        let answer = Answer::done(format!("Successfully deleted {}", path.text));
        match self.commit("delete", Op::remove_tree(&path.at).into(), answer).await {
            Err(error) if error.is(ErrorKind::NotFound) => Err(does_not_exist(&path)),
            done => self.told_about_link(done).await,
        }
    }

    async fn rename(&self, old: &str, new: &str) -> Result<Answer, Failure> {
        let (from, to) = (ToolPath::parse(old)?, ToolPath::parse(new)?);
        let taken = || Failure::model(format!("Error: The destination {} already exists", to.text));
        if from.is_top() {
            return Err(Failure::model(format!("Error: {TOP} cannot be renamed. Rename the files in it.")));
        }
        if self.entry_or_link(&from.at).await?.is_none() {
            return Err(does_not_exist(&from));
        }
        if to.is_top() || self.entry_or_link(&to.at).await?.is_some() {
            return Err(taken());
        }
        let op = Op::rename(&from.at, &to.at).no_replace().with_parents();
        let answer = Answer::done(format!("Successfully renamed {} to {}", from.text, to.text));
        match self.commit("rename", op.into(), answer).await {
            Err(error) if error.is(ErrorKind::NotFound) => Err(does_not_exist(&from)),
            Err(error) if error.is(ErrorKind::AlreadyExists) => Err(taken()),
            Err(error) if error.is(ErrorKind::InvalidArgument) && to.at.is_within(&from.at) => {
                Err(Failure::model(format!("Error: {} cannot be moved into itself", from.text)))
            }
            done => self.told_about_link(done).await,
        }
    }

    /// Commits the batch of a command with its answer.
    async fn commit(&self, name: &str, batch: Batch, answer: Answer) -> Result<Answer> {
        let batch = batch.author(self.author.clone()).message(message(name));
        self.once.commit(self.fs, batch, answer).await
    }

    /// Returns the entry of a path; `None` if it does not exist. Refuses a link, at the end or on the way.
    async fn entry(&self, at: &TreePath) -> Result<Option<Entry>, Failure> {
        match self.entry_or_link(at).await? {
            Some(entry) if entry.is_symlink() => Err(over_link(at)),
            found => Ok(found),
        }
    }

    /// Returns the entry of a path, which may be a link; `None` if it does not exist. Refuses a link on the
    /// way.
    async fn entry_or_link(&self, at: &TreePath) -> Result<Option<Entry>, Failure> {
        match self.fs.stat(&At::from(at)).await {
            Ok(entry) => Ok(Some(entry)),
            Err(error) if error.is_absent() => match self.link_of(&error).await? {
                Some(link) => Err(over_link(&link)),
                None => Ok(None),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the link that an error is about, if it is one about a link that was not followed.
    async fn link_of(&self, error: &Error) -> Result<Option<TreePath>> {
        let Some(at) = error.path().filter(|_| error.is(ErrorKind::NotADirectory)) else { return Ok(None) };
        let entry = self.fs.stat(&At::from(at)).await.optional()?;
        Ok(entry.filter(Entry::is_symlink).map(|_| at.clone()))
    }

    /// Returns an outcome, with a refusal in place of an error about a link that was not followed.
    async fn told_about_link(&self, done: Result<Answer>) -> Result<Answer, Failure> {
        let error = match done {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        match self.link_of(&error).await? {
            Some(link) => Err(over_link(&link)),
            None => Err(error.into()),
        }
    }

    /// Reads a text file; `None` for a missing one and for a directory.
    async fn file(&self, path: &ToolPath) -> Result<Option<(Entry, String)>, Failure> {
        match self.entry(&path.at).await? {
            Some(entry) if entry.is_dir() => return Ok(None),
            Some(_) => {}
            None => return Ok(None),
        }
        let range = ByteRange { offset: 0, length: MAX_EDITED as u64 };
        let (entry, bytes) = match self.fs.fetch(&At::from(&path.at), range).await {
            Ok(read) => read,
            // It was removed since, or replaced by a directory.
            Err(error) if error.is_absent() || error.is(ErrorKind::IsADirectory) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if entry.size > MAX_EDITED as u64 {
            return Err(too_large());
        }
        working(bytes.len());
        match String::from_utf8(bytes.to_vec()) {
            Ok(text) => Ok(Some((entry, text))),
            Err(_) => Err(Failure::model(format!("Error: The file {} is not UTF-8 text", path.text))),
        }
    }
}

/// Returns the content of a file with the numbers of its lines, in at most `limit` bytes.
fn content(path: &ToolPath, text: &str, range: Option<[i64; 2]>, limit: usize) -> Result<String, Failure> {
    working(text.len());
    let lines = count(text);
    if lines > MAX_FILE_LINES {
        return Err(Failure::model(format!(
            "File {} exceeds maximum line limit of 999,999 lines.",
            path.text
        )));
    }
    let [first, last] = range.unwrap_or([1, -1]);
    let end = if last == -1 { lines } else { u64::try_from(last).unwrap_or(0).min(lines) };
    let first = u64::try_from(first).unwrap_or(0);
    // An empty file has no line, and is shown by any range from its beginning.
    if !(1..=lines.max(1)).contains(&first) || (end < first && lines > 0) {
        let [first, last] = range.unwrap_or([1, -1]);
        return Err(Failure::model(format!(
            "Error: Invalid `view_range` parameter: [{first}, {last}]. It should be within the range of \
             lines of the file: [1, {lines}]"
        )));
    }
    let mut content = format!("Here's the content of {} with line numbers:", path.text);
    let shown = numbered(text, first, end, limit.saturating_sub(content.len() + NOTES));
    content += &shown.text;
    if shown.is_cut {
        content += &format!("\n(Line {} is cut, because an answer has at most {limit} bytes.)", shown.last);
    }
    if shown.last < end && lines > 0 {
        let next = shown.last + 1;
        content += &format!("\n(The answer ends here. View the rest with `view_range`: [{next}, {end}].)");
    }
    Ok(content)
}

/// Returns the reason that a command gives for its commit.
fn message(name: &str) -> String {
    format!("memory tool: {name}")
}

fn does_not_exist(path: &ToolPath) -> Failure {
    Failure::model(format!("Error: The path {} does not exist", path.text))
}

fn too_large() -> Failure {
    Failure::model(format!("Error: A file has at most {MAX_EDITED} bytes. Use several files."))
}

fn over_link(link: &TreePath) -> Failure {
    Failure::model(format!("Error: The path {} is a link. Links are not followed.", shown(link)))
}

/// Returns true for errors that the model can avoid by another command.
fn is_for_model(error: &Error) -> bool {
    use ErrorKind::{
        AlreadyExists, Busy, Conflict, CrossesMounts, InvalidArgument, IsADirectory, NameTooLong,
        NotADirectory, NotEmpty, NotFound, NotPermitted, QuotaExceeded, ReadOnly, RuleViolation, TooLarge,
    };
    matches!(
        error.kind(),
        AlreadyExists
            | Busy
            | Conflict
            | CrossesMounts
            | InvalidArgument
            | IsADirectory
            | NameTooLong
            | NotADirectory
            | NotEmpty
            | NotFound
            | NotPermitted
            | QuotaExceeded
            | ReadOnly
            | RuleViolation
            | TooLarge
    )
}

/// Returns the text of an error for the model.
fn told(error: &Error) -> String {
    let at = error.path().map(shown);
    match (at, error.kind()) {
        (Some(at), ErrorKind::Conflict) => {
            format!("Error: {at} was changed by another writer. View it and try again.")
        }
        // Its advice may be to run a command.
        (Some(at), _) => format!("Error: {at}: {}", error.failure()),
        (None, _) => format!("Error: {}", error.failure()),
    }
}
