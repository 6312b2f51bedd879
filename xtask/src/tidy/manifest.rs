//! Rules for manifests: a crate that does not opt in to the workspace's lints is checked by none of them.

use super::Finding;

/// Finds packages of the workspace without `lints.workspace`. A manifest with a `[workspace]` of its own is
/// another workspace (`benches/peers`, `fuzz`) or this one's root.
pub(super) fn check(path: &str, content: &str) -> Vec<Finding> {
    let has = |header: &str| content.lines().any(|line| line.trim() == header);
    if !has("[package]") || has("[workspace]") {
        return Vec::new();
    }
    let opted_in = content
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != "[lints]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .any(|line| line == "workspace = true");
    if opted_in {
        return Vec::new();
    }
    vec![Finding::new(
        path,
        1,
        "does not opt in to the workspace's lints: add `[lints]` with `workspace = true`",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_opts_in_to_the_lints_of_its_workspace() {
        assert_eq!(check("Cargo.toml", "[package]\nname = \"a\"\n").len(), 1);
        assert_eq!(check("Cargo.toml", "[package]\n[lints]\n[dependencies]\nworkspace = true\n").len(), 1);
        assert_eq!(check("Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n"), []);
    }

    #[test]
    fn another_workspace_has_its_own_rules() {
        assert_eq!(check("Cargo.toml", "[workspace]\n[package]\nname = \"a\"\n"), []);
        assert_eq!(check("Cargo.toml", "[workspace]\nmembers = []\n"), []);
    }
}
