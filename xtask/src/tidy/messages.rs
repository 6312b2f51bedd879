//! Rule for the messages of the libraries: a command or a route is the advice of an error, apart from what
//! failed, because models read messages as well.

use proc_macro2::{TokenStream, TokenTree};

use super::finding::Finding;

/// Sources of the libraries whose errors every interface shows.
const LIBRARIES: [&str; 2] = ["crates/garth-engine/src/", "crates/garth-agent/src/"];
/// Sources of reports, which only operators read.
const REPORTS: [&str; 2] =
    ["crates/garth-engine/src/engine/sqlite/maintain/fsck/", "crates/garth-agent/src/access/upgrade/"];
/// Beginnings of commands and routes.
const COMMANDS: [&str; 2] = ["`garth ", "/v1/"];
/// Mark of a line that logs, which only operators read.
const LOGS: &str = "tracing::";

/// Finds texts that name a command or route after what failed.
pub(super) fn check(path: &str, content: &str) -> Vec<Finding> {
    let is_in = |dirs: [&str; 2]| dirs.into_iter().any(|dir| path.starts_with(dir));
    if !is_in(LIBRARIES) || is_in(REPORTS) {
        return Vec::new();
    }
    // A file that does not parse has a finding of its own.
    let Ok(tokens) = content.parse::<TokenStream>() else { return Vec::new() };
    let mut lines = Vec::new();
    collect(tokens, &mut lines);
    let source: Vec<&str> = content.lines().collect();
    let logs = |line: usize| source.get(line - 1).is_some_and(|line| line.contains(LOGS));
    let message = "advises a command in the text of a failure: give it to `Error::advising`";
    lines.into_iter().filter(|line| !logs(*line)).map(|line| Finding::new(path, line, message)).collect()
}

/// Collects the lines of strings that advise a command. Attributes, and so comments, are left out.
fn collect(tokens: TokenStream, lines: &mut Vec<usize>) {
    let mut is_attribute = false;
    for token in tokens {
        match &token {
            TokenTree::Group(group) if !is_attribute => collect(group.stream(), lines),
            TokenTree::Literal(literal) => {
                let text = syn::parse_str::<syn::LitStr>(&literal.to_string());
                if text.is_ok_and(|text| advises(&text.value())) {
                    lines.push(literal.span().start().line);
                }
            }
            _ => {}
        }
        is_attribute = match &token {
            TokenTree::Punct(sign) => sign.as_char() == '#' || (is_attribute && sign.as_char() == '!'),
            _ => false,
        };
    }
}

fn advises(text: &str) -> bool {
    let rest = text.split_once("; ").map(|(_, rest)| rest);
    rest.is_some_and(|rest| COMMANDS.into_iter().any(|command| rest.contains(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, content: &str) -> Vec<usize> {
        check(path, content).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_commands_after_what_failed() {
        let path = "crates/garth-agent/src/a.rs";
        let content = r#"
/// Fails; run `garth fsck`.
fn f() {
    g("is damaged; run `garth fsck`");
    g(&format!("is damaged; \
        run `garth {command}`"));
    g("is damaged; send it to /v1/files");
    g("is damaged; try again");
    g("`garth fsck` found damage; try again");
    h("run `garth fsck`");
    tracing::warn!("is damaged; run `garth fsck`");
}
"#;
        assert_eq!(lines(path, content), [4, 5, 7]);
        assert_eq!(lines("crates/garth-cli/src/a.rs", content), [0; 0]);
        assert_eq!(lines("crates/garth-agent/src/access/upgrade/a.rs", content), [0; 0]);
    }
}
