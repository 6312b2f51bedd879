//! Rules for manifests: every crate opts in to the workspace's lints, without which none of them applies, and
//! depends on lower crates only.

use super::finding::Finding;

/// Permitted dependencies between the crates of this repository: each crate, and those that it may depend on.
/// Tests may also use `garth-testkit`, and those of `garth-agent` the facade that its documentation shows.
const CRATES: [(&str, &str); 13] = [
    ("garth-tokens", ""),
    ("garth-engine", ""),
    ("garth-agent", "garth-engine garth-tokens"),
    ("garth", "garth-engine garth-agent"),
    ("garth-cloud", "garth-engine"),
    ("garth-server", "garth-engine garth-agent"),
    ("garth-fuse", "garth-engine"),
    ("garth-cli", "garth-engine garth-agent garth-cloud garth-server garth-fuse"),
    ("garth-testkit", "garth-engine"),
    ("garth-proofs", "garth-engine garth-agent garth-cloud garth-server garth-testkit"),
    ("xtask", "garth-proofs garth-testkit"),
    ("peers", "garth garth-engine garth-agent"),
    ("garth-fuzz", "garth-engine garth-agent"),
];

/// Finds packages of the workspace without `lints.workspace`, and dependencies on higher crates.
pub(super) fn check(path: &str, content: &str) -> Vec<Finding> {
    let has = |header: &str| content.lines().any(|line| line.trim() == header);
    if !has("[package]") {
        return Vec::new();
    }
    let mut findings = arrows(path, content);
    // A manifest with its own `[workspace]` belongs to another workspace: `benches/peers`, `fuzz`.
    if !has("[workspace]") && !section(content, "[lints]").any(|(_, line)| line == "workspace = true") {
        let message = "does not opt in to the workspace's lints: add `[lints]` with `workspace = true`";
        findings.push(Finding::new(path, 1, message));
    }
    findings
}

/// Returns the lines of a section with their line numbers.
fn section<'a>(content: &'a str, header: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let lines = content.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.skip_while(move |(_, line)| *line != header).skip(1).take_while(|(_, line)| !line.starts_with('['))
}

fn arrows(path: &str, content: &str) -> Vec<Finding> {
    let name = section(content, "[package]").find_map(|(_, line)| line.strip_prefix("name = "));
    let name = name.map_or("", |name| name.trim_matches('"'));
    let may_use = CRATES.into_iter().find(|(known, _)| *known == name).map(|(_, may_use)| may_use);
    let Some(may_use) = may_use else {
        let message = format!("`{name}` is not known: add it to CRATES in xtask/src/tidy/manifest.rs");
        return vec![Finding::new(path, 1, message)];
    };
    let dependencies = section(content, "[dependencies]").filter_map(|(number, line)| {
        // Both `name.workspace = true` and `name = { … }`.
        let used = line.split(['.', ' ', '=']).next()?;
        let ours = CRATES.into_iter().any(|(known, _)| known == used);
        (ours && !may_use.split(' ').any(|allowed| allowed == used)).then_some((number, used))
    });
    let found = |(number, used)| {
        let message =
            format!("`{name}` depends on `{used}`, which is not below it: turn the dependency round");
        Finding::new(path, number, message)
    };
    dependencies.map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_opt_in_to_workspace_lints() {
        let package = "[package]\nname = \"garth\"\n";
        assert_eq!(check("Cargo.toml", package).len(), 1);
        assert_eq!(
            check("Cargo.toml", &format!("{package}[lints]\n[features]\nworkspace = true\n")).len(),
            1
        );
        assert_eq!(check("Cargo.toml", &format!("{package}\n[lints]\nworkspace = true\n")), []);
    }

    #[test]
    fn other_workspace_has_its_own_lints() {
        assert_eq!(check("Cargo.toml", "[workspace]\n[package]\nname = \"peers\"\n"), []);
        assert_eq!(check("Cargo.toml", "[workspace]\nmembers = []\n"), []);
    }

    #[test]
    fn rejects_dependency_on_higher_layer() {
        let of = |name: &str, rest: &str| {
            check("Cargo.toml", &format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{rest}"))
        };
        assert_eq!(of("garth-server", "[dependencies]\nbytes = \"1\"\ngarth-agent.workspace = true\n"), []);
        assert_eq!(of("garth", "[dev-dependencies]\ngarth-testkit.workspace = true\n"), []);
        assert_eq!(of("garth", "[dependencies]\ngarth-testkit.workspace = true\n")[0].line, 6);
        assert_eq!(of("garth-server", "[dependencies]\ngarth-cli = { path = \"..\" }\n").len(), 1);
        assert_eq!(of("unheard-of", "").len(), 1);
    }
}
