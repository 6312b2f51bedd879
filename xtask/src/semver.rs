//! `cargo xtask prove semver`: compares the public items of the library with those of the last tagged
//! release. If an item was removed or has another signature, the version must declare a breaking change.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::surface::{self, LIST};

/// Compares the surface with the last tag before this commit.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let Some(tag) = git(root, &["describe", "--tags", "--abbrev=0", "HEAD^"])? else {
        bail!(
            "no tag before this commit, so there is no release to compare with: tag the released commit \
             (`git tag v0.1.0 COMMIT`), or fetch the tags (`git fetch --tags`)"
        );
    };
    let Some(then) = git(root, &["show", &format!("{tag}:{LIST}")])? else {
        bail!("{tag} has no {LIST}: compare with a later release, whose commit has the list");
    };
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let version = version_in(&manifest).context("Cargo.toml has no version of the workspace")?;
    let then: Vec<String> = then.lines().map(str::to_owned).collect();
    let removed = surface::missing(&then, &surface::current(root)?);
    removed.iter().for_each(|line| println!("- {line}"));
    println!("semver: {} of {} items of {tag} are gone or changed", removed.len(), then.len());
    ensure!(
        removed.is_empty() || is_breaking(&tag, version)?,
        "version {version} may take nothing away that {tag} had: bring it back, or raise the version in Cargo.toml"
    );
    Ok(ExitCode::SUCCESS)
}

/// Runs git; `None` if it fails.
fn git(root: &Path, arguments: &[&str]) -> Result<Option<String>> {
    let output = Command::new("git").args(arguments).current_dir(root).output().context("cannot run git")?;
    let text = String::from_utf8(output.stdout).context("git does not write UTF-8")?;
    Ok(output.status.success().then(|| text.trim_end().to_owned()))
}

/// Returns the version of the workspace.
fn version_in(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
}

/// Returns true if a version may take away what the version of a tag had: its first number that is not 0 is
/// greater.
fn is_breaking(tag: &str, version: &str) -> Result<bool> {
    let (then, now) = (numbers(tag)?, numbers(version)?);
    let compared = then.iter().position(|number| *number != 0).unwrap_or(then.len() - 1);
    Ok(now[..=compared] > then[..=compared])
}

fn numbers(version: &str) -> Result<[u64; 3]> {
    let version = version.trim_start_matches('v');
    let plain = version.split(['-', '+']).next().unwrap_or(version);
    let numbers: Vec<u64> = plain.split('.').filter_map(|number| number.parse().ok()).collect();
    let read = numbers.try_into();
    read.map_err(|_| anyhow::anyhow!("`{version}` is no version: a release is tagged as v0.1.0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_breaking_version_may_take_away() {
        let is = |tag, version| is_breaking(tag, version).unwrap();
        assert!(
            is("v0.1.3", "0.2.0") && is("v0.1.3", "1.0.0") && is("v1.2.3", "2.0.0") && is("v0.0.1", "0.0.2")
        );
        assert!(!is("v0.1.3", "0.1.4") && !is("v1.2.3", "1.3.0") && !is("v1.2.3", "1.2.3"));
        assert!(is_breaking("release", "0.1.0").unwrap_err().to_string().contains("v0.1.0"));
    }

    #[test]
    fn version_of_workspace_is_read() {
        let manifest = "[workspace]\n[workspace.package]\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        assert_eq!(version_in(manifest), Some("0.1.0"));
    }

    #[test]
    fn repository_without_tag_is_refused() {
        let folder = std::env::temp_dir().join(format!("garth-semver-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let init = Command::new("git").args(["init", "--quiet"]).current_dir(&folder).status().unwrap();
        let error = run(&folder).unwrap_err();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(init.success() && error.to_string().contains("git tag v0.1.0"), "{error}");
    }
}
