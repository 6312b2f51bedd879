//! `cargo xtask tidy`: rules of the repository that neither rustfmt nor clippy checks. Every finding names a
//! file, a line and a remedy.

mod finding;
mod lines;
mod links;
mod manifest;
mod messages;
mod modules;
mod rust;
mod text;
mod words;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use self::finding::{Files, Finding};

/// Checks the repository at `root` and prints the findings.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let files = files(root)?;
    let findings = check(&files);
    for Finding { path, line, message } in &findings {
        println!("{path}:{line}: {message}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing to do", files.len());
        return Ok(ExitCode::SUCCESS);
    }
    println!("tidy: {} findings in {} files", findings.len(), files.len());
    Ok(ExitCode::FAILURE)
}

fn check(files: &Files) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, content) in files {
        findings.extend(text::check(path, content));
        findings.extend(lines::check(path, content));
        if path.ends_with(".rs") {
            findings.extend(rust::check(path, content));
            findings.extend(messages::check(path, content));
            findings.extend(links::check_comments(path, content, files));
            findings.extend(words::check_comments(path, content));
        }
        if path.ends_with("Cargo.toml") {
            findings.extend(manifest::check(path, content));
        }
        if path.ends_with(".md") {
            findings.extend(links::check(path, content, files));
            findings.extend(words::check_document(path, content));
        }
    }
    findings.extend(modules::check(files));
    findings.sort();
    findings
}

/// Returns the tracked files and those that git would add, except files that are not UTF-8.
fn files(root: &Path) -> Result<Files> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let listed = git.output().context("cannot run git: install it")?;
    ensure!(listed.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr));
    let paths = String::from_utf8(listed.stdout).context("a file's name is not UTF-8")?;
    let read = |path: &str| match std::fs::read(root.join(path)) {
        Ok(bytes) => Some(Ok((path.to_owned(), String::from_utf8(bytes).ok()?))),
        // A file whose deletion is not committed yet.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => Some(Err(e).with_context(|| format!("cannot read {path}"))),
    };
    paths.split_terminator('\0').filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_findings_by_file_and_line() {
        let home = ["/", "root", "/x"].concat();
        let files = Files::from([
            ("b.rs".to_owned(), "fn f() {}\n".to_owned()),
            ("a.md".to_owned(), format!("[gone](no.md)\n\n{home}\n")),
        ]);
        let found: Vec<_> = check(&files).into_iter().map(|f| (f.path, f.line)).collect();
        assert_eq!(found, [("a.md".to_owned(), 1), ("a.md".to_owned(), 3), ("b.rs".to_owned(), 1)]);
    }

    #[test]
    fn lists_files_of_the_repository() {
        let files = files(&crate::cargo::root()).unwrap();
        assert!(
            files.contains_key("Cargo.toml") && files.contains_key("xtask/src/tidy.rs"),
            "{:?}",
            files.keys()
        );
        assert!(!files.keys().any(|path| path.starts_with("target/")));
    }
}
