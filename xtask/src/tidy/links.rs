//! Rules for links: the target of a link in a document or comment exists. Each promise of `docs/semantics.md`
//! links its test.

use std::collections::BTreeMap;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::finding::{Files, Finding};
use super::rust;

/// Document in which every table row and list item is a promise with a link to its test.
const PROMISES: &str = "docs/semantics.md";

/// Finds links to missing files, headings and tests, and promises without a test.
pub(super) fn check(path: &str, content: &str, files: &Files) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (event, at) in parse(content) {
        if let Event::Start(Tag::Link { dest_url: to, .. } | Tag::Image { dest_url: to, .. }) = event {
            let broken = broken(path, &to, files);
            findings.extend(broken.map(|why| Finding::new(path, line_of(content, &at), why)));
        }
    }
    if path == PROMISES {
        findings.extend(promises(path, content));
    }
    findings
}

/// Finds missing documents that a comment names in backticks.
pub(super) fn check_comments(path: &str, content: &str, files: &Files) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in content.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//")) {
        let named = line.split('`').skip(1).step_by(2);
        for document in named.filter(|name| name.starts_with("docs/") && name.ends_with(".md")) {
            if !files.contains_key(document) {
                let why = format!("names `{document}`, but there is no such document: correct the path");
                findings.push(Finding::new(path, index + 1, why));
            }
        }
    }
    findings
}

fn parse(content: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(content, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES).into_offset_iter()
}

fn line_of(content: &str, at: &Range<usize>) -> usize {
    content[..at.start].matches('\n').count() + 1
}

/// Returns the reason for which a link is broken, or `None` if it is valid or leads out of the repository.
fn broken(from: &str, to: &str, files: &Files) -> Option<String> {
    if to.contains("://") || to.starts_with("mailto:") {
        return None;
    }
    // A link such as `#heading` leads to its own document.
    let (file, anchor) = to.split_once('#').map_or((to, None), |(file, anchor)| (file, Some(anchor)));
    let Some(target) = resolve(from, file) else {
        return Some(format!("links to `{to}`, outside the repository: bring it in or name it in words"));
    };
    let is_directory =
        || target.is_empty() || files.keys().any(|path| path.starts_with(&format!("{target}/")));
    let Some(content) = files.get(&target) else {
        let found = anchor.is_none() && is_directory();
        return (!found)
            .then(|| format!("links to `{to}`, but there is no file `{target}`: correct the link"));
    };
    let anchor = anchor?;
    if target.ends_with(".rs") {
        let missing = !rust::has_function(content, anchor);
        return missing
            .then(|| format!("links to `{to}`, but {target} has no `fn {anchor}`: name an existing test"));
    }
    let missing = target.ends_with(".md") && !anchors(content).any(|heading| heading == anchor);
    missing.then(|| format!("links to `{to}`, but {target} has no heading `#{anchor}`: correct the link"))
}

/// Returns the path of a link from the repository's root, or `None` if it leads out.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(from.to_owned());
    }
    let start = if link.starts_with('/') { "" } else { from.rsplit_once('/').map_or("", |(dir, _)| dir) };
    let mut segments: Vec<&str> = start.split('/').filter(|segment| !segment.is_empty()).collect();
    for segment in link.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                // Fails above the root of the repository.
                segments.pop()?;
            }
            name => segments.push(name),
        }
    }
    Some(segments.join("/"))
}

/// Returns the anchors of a document's headings as code hosts generate them: lower case, `-` for spaces, no
/// punctuation, and a number after a repeated one.
fn anchors(content: &str) -> impl Iterator<Item = String> {
    let mut headings = Vec::new();
    let mut open: Option<String> = None;
    for (event, _) in parse(content) {
        match event {
            Event::Start(Tag::Heading { .. }) => open = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => headings.extend(open.take()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut open {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    let mut seen = BTreeMap::<String, usize>::new();
    headings.into_iter().map(move |heading| {
        // Punctuation is dropped before spaces become hyphens, so `a - b` has three of them.
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let slug = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let count = seen.entry(slug.clone()).and_modify(|count| *count += 1).or_insert(0);
        if *count == 0 { slug } else { format!("{slug}-{count}") }
    })
}

/// Finds table rows and list items that link no test.
fn promises(path: &str, content: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The line of each open promise, and whether it has linked a test.
    let mut open: Vec<(usize, bool)> = Vec::new();
    for (event, at) in parse(content) {
        match event {
            // Items may be nested, so the open ones form a stack.
            Event::Start(Tag::TableRow | Tag::Item) => open.push((line_of(content, &at), false)),
            Event::Start(Tag::Link { dest_url, .. }) if dest_url.contains(".rs#") => {
                // A link in a nested item is also evidence for the items around it.
                open.iter_mut().for_each(|promise| promise.1 = true);
            }
            Event::End(TagEnd::TableRow | TagEnd::Item) => {
                if let Some((line, false)) = open.pop() {
                    let why = "makes a promise without its test: link it as `path/to/file.rs#test_name`";
                    findings.push(Finding::new(path, line, why));
                }
            }
            _ => {}
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, content: &str) -> Vec<(usize, String)> {
        let files = Files::from(
            [
                ("README.md", "# One\n## Two `words`!\n# One\n"),
                ("docs/a.md", "# A\n"),
                ("tests/it.rs", "//! why\n#[test]\nfn a_note_survives() {}\n"),
            ]
            .map(|(path, content)| (path.to_owned(), content.to_owned())),
        );
        check(path, content, &files).into_iter().map(|finding| (finding.line, finding.message)).collect()
    }

    #[test]
    fn follows_links_to_files_and_folders() {
        let fine =
            "[a](a.md) [b](../README.md) [c](/README.md) [d](..) [e](https://example.org/x#y) [f](../docs)\n";
        assert_eq!(findings("docs/b.md", fine), []);
        let broken = findings("docs/b.md", "text\n[a](README.md)\n[b](../../x.md)\n");
        assert_eq!(broken.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 3]);
        assert!(broken[0].1.contains("no file `docs/README.md`") && broken[1].1.contains("outside"));
    }

    #[test]
    fn numbers_repeated_heading_anchors() {
        assert_eq!(findings("docs/b.md", "[a](../README.md#two-words) [b](../README.md#one-1)\n"), []);
        assert_eq!(findings("docs/b.md", "[a](../README.md#two) [b](../README.md#one-2)\n").len(), 2);
    }

    #[test]
    fn test_link_names_a_function() {
        assert_eq!(findings("README.md", "[yes](tests/it.rs#a_note_survives)\n"), []);
        let missing = findings("README.md", "\n[yes](tests/it.rs#a_note_is_lost)\n");
        assert!(missing[0].0 == 2 && missing[0].1.contains("no `fn a_note_is_lost`"), "{missing:?}");
    }

    #[test]
    fn ignores_links_in_code() {
        assert_eq!(findings("README.md", "```\n[a](gone.md)\n```\n`[a](gone.md)`\n"), []);
    }

    #[test]
    fn comments_name_existing_documents() {
        let files = Files::from([("docs/a.md".to_owned(), String::new())]);
        let content =
            "//! See `docs/a.md`.\n/// See `docs/b.md` and `docs/a.md`.\nlet text = \"`docs/b.md`\";\n";
        let lines: Vec<_> =
            check_comments("a.rs", content, &files).into_iter().map(|found| found.line).collect();
        assert_eq!(lines, [2]);
    }

    #[test]
    fn promises_link_their_tests() {
        let kept = "| promise | test |\n|---|---|\n| kept | [t](../tests/it.rs#a_note_survives) |\n";
        assert_eq!(findings(PROMISES, kept), []);
        let table = findings(PROMISES, "| promise | test |\n|---|---|\n| kept | soon |\n");
        assert!(table.len() == 1 && table[0].0 == 3 && table[0].1.contains("without its test"), "{table:?}");
        assert_eq!(findings(PROMISES, "- [t](../tests/it.rs#a_note_survives)\n- soon\n").len(), 1);
        assert_eq!(findings("docs/b.md", "- soon\n"), []);
    }
}
