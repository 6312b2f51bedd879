//! Rules for every text file: no paths or hosts of the machine on which it was written.

use super::finding::Finding;

/// Index that every lock file of cargo names.
const CARGO_INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Finds machine paths and registry hosts.
pub(super) fn check(path: &str, content: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in content.lines().enumerate() {
        let mut found = |message: String| findings.push(Finding::new(path, index + 1, message));
        if let Some(home) = homes().iter().find(|home| names_path(line, home)) {
            found(format!(
                "names a path of one machine (`{home}`): use a path inside the repository or $HOME"
            ));
        }
        if let Some(host) = hosts().iter().find(|host| line.replace(CARGO_INDEX, "").contains(host.as_str()))
        {
            found(format!("names the host of a registry (`{host}`): name the package instead"));
        }
    }
    findings
}

/// Returns machine paths. They are composed here, so that this file does not violate its own rule.
fn homes() -> [String; 2] {
    ["work", "root"].map(|dir| format!("/{dir}/"))
}

fn hosts() -> [String; 7] {
    [
        ("://crates", "io"),
        ("static.crates", "io"),
        ("index.crates", "io"),
        ("pypi", "org"),
        ("files.pythonhosted", "org"),
        ("registry.npmjs", "org"),
        ("deb.debian", "org"),
    ]
    .map(|(host, domain)| format!("{host}.{domain}"))
}

/// Returns true if `dir` begins an absolute path in the line, as it does not in `crates/work/`.
fn names_path(line: &str, dir: &str) -> bool {
    line.match_indices(dir).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-./}$*>~:".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(content: &str) -> Vec<usize> {
        check("f", content).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_absolute_machine_paths() {
        let home = ["/", "root", "/.cache"].concat();
        assert_eq!(lines(&format!("fine\ncp x {home}\n\"{home}\"\n")), [2, 3]);
        assert_eq!(lines(&format!("crates{home}\n../..{home}\n$HOME{home}\n")), [0; 0]);
    }

    #[test]
    fn finds_registry_hosts_outside_lock_file() {
        let host = ["https://pypi", "org/simple"].join(".");
        assert_eq!(lines(&format!("pip install -i {host} x")), [1]);
        assert_eq!(lines(&format!("source = \"{CARGO_INDEX}\"\nfrom crates.io\n")), [0; 0]);
    }
}
