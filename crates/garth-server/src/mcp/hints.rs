//! Hints for models: texts that name a tool in backquotes. A client gets only those about tools that it sees.

use std::borrow::Cow;

use super::tools::{TOOLS, Tool};

/// Names of the tools that a client does not see.
#[derive(Debug, Default)]
pub(super) struct Unseen(Vec<&'static str>);

impl Unseen {
    pub(super) fn new(sees: impl Fn(&Tool) -> bool) -> Self {
        Self(TOOLS.iter().filter(|tool| !sees(tool)).map(|tool| tool.name).collect())
    }

    /// Returns a hint as the client can use it: of alternatives, such as "`ls` or `glob`", those that it
    /// sees. `None` if it needs a tool that the client does not see.
    pub(super) fn hint<'t>(&self, hint: &'t str) -> Option<Cow<'t, str>> {
        let mut hint = Cow::Borrowed(hint);
        for name in &self.0 {
            let tool = format!("`{name}`");
            if !hint.contains(&tool) {
                continue;
            }
            let rest = hint.replace(&format!("{tool} or "), "").replace(&format!(" or {tool}"), "");
            if rest.contains(&tool) {
                return None;
            }
            hint = Cow::Owned(rest);
        }
        Some(hint)
    }

    /// Returns a text of the program, of sentences that have clauses, without the clauses that the client
    /// cannot use. The text quotes nothing.
    pub(super) fn sentences(&self, text: &str) -> String {
        let sentences = text.trim_end_matches('.').split(". ").filter_map(|sentence| {
            let clauses: Vec<Cow<'_, str>> =
                sentence.split("; ").filter_map(|clause| self.hint(clause)).collect();
            (!clauses.is_empty()).then(|| clauses.join("; ") + ".")
        });
        sentences.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the tools that a client with these does not see.
    fn all_but(seen: &[&str]) -> Unseen {
        Unseen::new(|tool| seen.contains(&tool.name))
    }

    #[test]
    fn hints_name_tools_that_are_seen() {
        let hint = "find it with `ls` or `glob`";
        for (seen, due) in [
            (&["ls", "glob"][..], Some(hint)),
            (&["ls"][..], Some("find it with `ls`")),
            (&["glob"][..], Some("find it with `glob`")),
            (&["grep"][..], None),
        ] {
            assert_eq!(all_but(seen).hint(hint).as_deref(), due);
        }
        assert_eq!(all_but(&[]).hint("set recursive").as_deref(), Some("set recursive"));
    }

    #[test]
    fn sentences_stay_complete() {
        let text = "Reads a file; edits with `edit_file`. For lines use `grep`. Returns it.";
        assert_eq!(Unseen::default().sentences(text), text);
        assert_eq!(all_but(&["grep"]).sentences(text), "Reads a file. For lines use `grep`. Returns it.");
        assert_eq!(all_but(&[]).sentences(text), "Reads a file. Returns it.");
        assert_eq!(all_but(&[]).sentences("For lines use `grep`."), "");
    }

    #[test]
    fn descriptions_are_texts_of_sentences() {
        for tool in TOOLS {
            assert_eq!(Unseen::default().sentences(tool.description), tool.description);
        }
    }
}
