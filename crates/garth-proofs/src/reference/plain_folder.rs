//! Memory tool on a folder of the host, written a second time from its specification: slow and simple. It
//! knows paths of plain names only, and takes every other one for a path that leads out.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use garth_agent::memory_tool::Command;

/// Answer: the text, and true if the command failed.
pub(crate) type Told = (String, bool);

/// Folder that `/memories` stands for. It need not exist.
pub(crate) struct PlainFolder {
    top: PathBuf,
}

/// Reason why a command failed.
enum Failed {
    /// Text for the model.
    Told(String),
    /// The machine failed.
    Machine(std::io::Error),
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self::Machine(error)
    }
}

fn told<T>(text: impl Into<String>) -> Result<T, Failed> {
    Err(Failed::Told(text.into()))
}

impl PlainFolder {
    pub(crate) fn new(top: PathBuf) -> Self {
        Self { top }
    }

    /// Carries out a command.
    ///
    /// # Errors
    /// Errors of the machine.
    pub(crate) fn run(&self, command: &Command) -> std::io::Result<Told> {
        let done = match command {
            Command::View { path, view_range } => self.view(path, *view_range),
            Command::Create { path, file_text } => self.create(path, file_text),
            Command::StrReplace { path, old_str, new_str } => {
                self.replace(path, old_str, new_str.as_deref().unwrap_or(""))
            }
            Command::Insert { path, insert_line, insert_text } => {
                self.insert(path, *insert_line, insert_text)
            }
            Command::Delete { path } => self.delete(path),
            Command::Rename { old_path, new_path } => self.rename(old_path, new_path),
            other => told(format!("no such command: {}", other.name())),
        };
        match done {
            Ok(text) => Ok((text, false)),
            Err(Failed::Told(text)) => Ok((text, true)),
            Err(Failed::Machine(error)) => Err(error),
        }
    }

    /// Returns the paths of all files and directories below the top, each file with its text.
    pub(crate) fn all(&self) -> std::io::Result<Vec<(String, Option<String>)>> {
        let mut all = Vec::new();
        if self.top.exists() {
            collect(&self.top, "", &mut all)?;
        }
        all.sort();
        Ok(all)
    }

    /// Returns the place of a path on the host.
    fn place(&self, path: &str) -> Result<PathBuf, Failed> {
        let outside = || {
            told(format!(
                "Error: The path {path} is outside /memories. Every path begins with /memories and has no `..`."
            ))
        };
        let Some(below) = path.strip_prefix("/memories") else { return outside() };
        let mut place = self.top.clone();
        for segment in below.split('/').skip(1) {
            let is_plain = segment.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
            if segment.is_empty() || segment == ".." || !is_plain {
                return outside();
            }
            place.push(segment);
        }
        if below.is_empty() || below.starts_with('/') { Ok(place) } else { outside() }
    }

    fn view(&self, path: &str, range: Option<[i64; 2]>) -> Result<String, Failed> {
        let place = self.place(path)?;
        if place.is_dir() || place == self.top {
            return Ok(self.listing(path, &place)?);
        }
        if !place.is_file() {
            return told(format!("The path {path} does not exist. Please provide a valid path."));
        }
        let text = std::fs::read_to_string(&place)?;
        let lines: Vec<&str> = text.lines().collect();
        let number = lines.len() as i64;
        let [first, last] = range.unwrap_or([1, -1]);
        let end = if last == -1 { number } else { last.min(number) };
        let is_valid =
            first >= 1 && (first <= number || (number == 0 && first == 1)) && (number == 0 || end >= first);
        if !is_valid {
            return told(format!(
                "Error: Invalid `view_range` parameter: [{first}, {last}]. It should be within the range of lines of \
                 the file: [1, {number}]"
            ));
        }
        let mut shown = format!("Here's the content of {path} with line numbers:");
        for at in first..=end {
            let _ = write!(shown, "\n{at:>6}\t{}", lines[at as usize - 1]);
        }
        Ok(shown)
    }

    fn listing(&self, path: &str, place: &Path) -> std::io::Result<String> {
        let mut shown = format!(
            "Here're the files and directories up to 2 levels deep in {path}, excluding hidden items and node_modules:"
        );
        let _ = write!(shown, "\n{}\t{path}", human(size(place)?));
        for one in names(place)? {
            let below = place.join(&one);
            let _ = write!(shown, "\n{}\t{path}/{one}", human(size(&below)?));
            for two in names(&below)? {
                let _ = write!(shown, "\n{}\t{path}/{one}/{two}", human(size(&below.join(&two))?));
            }
        }
        Ok(shown)
    }

    fn create(&self, path: &str, text: &str) -> Result<String, Failed> {
        let place = self.place(path)?;
        if place == self.top || place.exists() {
            return told(format!("Error: File {path} already exists"));
        }
        self.make_parent(&place)?;
        std::fs::write(&place, text)?;
        Ok(format!("File created successfully at: {path}"))
    }

    fn replace(&self, path: &str, old: &str, new: &str) -> Result<String, Failed> {
        let place = self.place(path)?;
        if old.is_empty() {
            return told("Error: `old_str` is empty. Give the text to replace.");
        }
        if !place.is_file() {
            return told(format!("Error: The path {path} does not exist. Please provide a valid path."));
        }
        let text = std::fs::read_to_string(&place)?;
        let found: Vec<usize> =
            (0..text.len()).filter(|at| text.as_bytes()[*at..].starts_with(old.as_bytes())).collect();
        let [at] = found[..] else {
            if found.is_empty() {
                return told(format!(
                    "No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
                ));
            }
            let mut lines: Vec<usize> =
                found.iter().map(|at| text[..*at].matches('\n').count() + 1).collect();
            lines.dedup();
            let lines: Vec<String> = lines.iter().take(100).map(usize::to_string).collect();
            return told(format!(
                "No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {}. Please ensure it \
                 is unique",
                lines.join(", ")
            ));
        };
        let first = text[..at].matches('\n').count() + 1;
        let edited = format!("{}{new}{}", &text[..at], &text[at + old.len()..]);
        std::fs::write(&place, &edited)?;
        let lines: Vec<&str> = edited.lines().collect();
        let last = (first + new.lines().count().max(1) - 1 + 4).min(lines.len());
        let from = first.min(lines.len()).saturating_sub(4).max(1);
        let mut shown = "The memory file has been edited.".to_owned();
        for number in from..=last {
            let _ = write!(shown, "\n{number:>6}\t{}", lines[number - 1]);
        }
        Ok(shown)
    }

    fn insert(&self, path: &str, line: i64, inserted: &str) -> Result<String, Failed> {
        let place = self.place(path)?;
        if !place.is_file() {
            return told(format!("Error: The path {path} does not exist"));
        }
        let text = std::fs::read_to_string(&place)?;
        let number = text.lines().count() as i64;
        if line < 0 || line > number {
            return told(format!(
                "Error: Invalid `insert_line` parameter: {line}. It should be within the range of lines of the file: \
                 [0, {number}]"
            ));
        }
        let inserted = if inserted.is_empty() { "\n" } else { inserted };
        let (mut edited, mut at) = (String::new(), 0);
        for kept in text.split_inclusive('\n').take(line as usize) {
            edited += kept;
            at += kept.len();
        }
        // The last line of the file has no end: it gets one, and the new last line has none.
        let is_after_open_end = !edited.is_empty() && !edited.ends_with('\n');
        if is_after_open_end {
            edited += "\n";
        }
        edited += inserted;
        if !inserted.ends_with('\n') && !is_after_open_end && !text.is_empty() {
            edited += "\n";
        }
        edited += &text[at..];
        std::fs::write(&place, edited)?;
        Ok(format!("The file {path} has been edited."))
    }

    fn delete(&self, path: &str) -> Result<String, Failed> {
        let place = self.place(path)?;
        if place == self.top {
            return told("Error: /memories cannot be deleted. Delete the files in it.");
        }
        match (place.is_dir(), place.is_file()) {
            (true, _) => std::fs::remove_dir_all(&place)?,
            (_, true) => std::fs::remove_file(&place)?,
            _ => return told(format!("Error: The path {path} does not exist")),
        }
        Ok(format!("Successfully deleted {path}"))
    }

    fn rename(&self, old: &str, new: &str) -> Result<String, Failed> {
        let (from, to) = (self.place(old)?, self.place(new)?);
        if from == self.top {
            return told("Error: /memories cannot be renamed. Rename the files in it.");
        }
        if !from.exists() {
            return told(format!("Error: The path {old} does not exist"));
        }
        if to == self.top || to.exists() {
            return told(format!("Error: The destination {new} already exists"));
        }
        if from.is_dir() && to.starts_with(&from) {
            return told(format!("Error: {old} cannot be moved into itself"));
        }
        self.make_parent(&to)?;
        std::fs::rename(&from, &to)?;
        Ok(format!("Successfully renamed {old} to {new}"))
    }

    /// Creates the directories above a place, unless one of them is a file.
    fn make_parent(&self, place: &Path) -> Result<(), Failed> {
        let above: Vec<&Path> =
            place.ancestors().skip(1).take_while(|above| above.starts_with(&self.top)).collect();
        if let Some(file) = above.iter().rev().find(|above| above.is_file()) {
            let below = file.strip_prefix(&self.top).unwrap_or(file);
            return told(format!("Error: /memories/{}: not a directory", below.display()));
        }
        match above.first() {
            Some(parent) => Ok(std::fs::create_dir_all(parent)?),
            None => Ok(()),
        }
    }
}

/// Returns the names in a directory that a listing shows, sorted; none if it is missing.
fn names(place: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    if place.is_dir() {
        for entry in std::fs::read_dir(place)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
    }
    names.retain(|name| !name.starts_with('.') && name != "node_modules");
    names.sort();
    Ok(names)
}

/// Returns the bytes of a file, or of all files below a directory that a listing may show.
fn size(place: &Path) -> std::io::Result<u64> {
    if place.is_file() {
        return Ok(place.metadata()?.len());
    }
    names(place)?.iter().map(|name| size(&place.join(name))).sum()
}

fn human(bytes: u64) -> String {
    let (mut size, mut units) = (bytes as f64, ["K", "M", "G"].into_iter());
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    loop {
        size /= 1024.0;
        let tenths = (size * 10.0).round() / 10.0;
        let unit = units.next().unwrap_or("T");
        if tenths < 1024.0 || unit == "T" {
            return format!("{tenths:.1}{unit}");
        }
    }
}

fn collect(dir: &Path, above: &str, all: &mut Vec<(String, Option<String>)>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = format!("{above}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            all.push((path.clone(), None));
            collect(&entry.path(), &path, all)?;
        } else {
            all.push((path, Some(std::fs::read_to_string(entry.path())?)));
        }
    }
    Ok(())
}
