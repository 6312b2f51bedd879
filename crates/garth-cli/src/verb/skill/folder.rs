//! Skill in a folder of this machine.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use garth_agent::workspace::{InstallFile, MAX_SKILL_FILE, MAX_SKILL_FILES, SkillText};

use crate::fail::{Failure, Result};

/// Limit on the depth of folders.
const MAX_DEPTH: usize = 16;

/// Returns the folder of a `SKILL.md`; other paths unchanged.
pub(super) fn of(path: &Path) -> Result<PathBuf> {
    let is_file = fs::metadata(path).map_err(Failure::host(path))?.is_file();
    if is_file && path.file_name() == Some(OsStr::new("SKILL.md")) {
        return Ok(path.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new(".")).to_owned());
    }
    Ok(path.to_owned())
}

/// Returns the files of a folder, each with its path in the folder and its bytes.
pub(super) fn read(folder: &Path) -> Result<Vec<InstallFile>> {
    if fs::metadata(folder).map_err(Failure::host(folder))?.is_file() {
        let message = format!("{}: is neither the folder of a skill nor its SKILL.md", folder.display());
        return Err(Failure::Usage(message));
    }
    let mut files = Vec::new();
    walk(folder, "", 0, &mut files)?;
    files.sort_by(|one: &InstallFile, other| one.name().cmp(other.name()));
    Ok(files)
}

fn walk(dir: &Path, within: &str, depth: usize, files: &mut Vec<InstallFile>) -> Result {
    let usage = |what: &str| Failure::Usage(format!("{}: {what}", dir.display()));
    if depth > MAX_DEPTH {
        return Err(usage("its folders are nested too deep for a skill"));
    }
    for entry in fs::read_dir(dir).map_err(Failure::host(dir))? {
        let entry = entry.map_err(Failure::host(dir))?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(Failure::host(dir))?);
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| usage("has a name that is not UTF-8"))?;
        let inner = if within.is_empty() { name.to_owned() } else { format!("{within}/{name}") };
        if kind.is_dir() {
            walk(&path, &inner, depth + 1, files)?;
        } else if kind.is_file() {
            files.push(file(inner, &path)?);
        } else {
            return Err(usage(&format!("{name} is neither a file nor a folder; remove links and devices")));
        }
        if files.len() > MAX_SKILL_FILES {
            return Err(usage(&format!("has more than {MAX_SKILL_FILES} files, too many for a skill")));
        }
    }
    Ok(())
}

fn file(name: String, path: &Path) -> Result<InstallFile> {
    let metadata = fs::metadata(path).map_err(Failure::host(path))?;
    if metadata.len() > MAX_SKILL_FILE as u64 {
        let message =
            format!("{}: a file of a skill may have at most {MAX_SKILL_FILE} bytes", path.display());
        return Err(Failure::Usage(message));
    }
    let bytes = fs::read(path).map_err(Failure::host(path))?;
    Ok(InstallFile::new(name, bytes).executable(metadata.permissions().mode() & 0o111 != 0))
}

/// Parses the `SKILL.md` of a folder.
pub(super) fn skill_text(folder: &Path, files: &[InstallFile]) -> Result<SkillText> {
    let usage = |what: &str| Failure::Usage(format!("{}: {what}", folder.display()));
    let text = files.iter().find(|file| file.name() == "SKILL.md");
    let is_near = |file: &&InstallFile| file.name().eq_ignore_ascii_case("SKILL.md");
    let text = text.ok_or_else(|| match files.iter().find(is_near) {
        Some(file) => usage(&format!("has no SKILL.md; rename {} to SKILL.md", file.name())),
        None => usage("has no SKILL.md, so it is not a skill"),
    })?;
    Ok(SkillText::parse(std::str::from_utf8(text.bytes()).map_err(|_| usage("its SKILL.md is not UTF-8"))?))
}

/// Returns the name of a folder.
pub(super) fn name(folder: &Path) -> Result<String> {
    let whole = fs::canonicalize(folder).map_err(Failure::host(folder))?;
    let name = whole.file_name().and_then(OsStr::to_str).map(str::to_owned);
    name.ok_or_else(|| Failure::Usage(format!("{}: has no name; give one with --as", folder.display())))
}
