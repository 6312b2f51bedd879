//! Choice of the tools that a client sees.

use super::tools::{TOOLS, Tool};

/// Tools that a client sees only if it asks for them by name.
const ASKED_FOR: [&str; 1] = ["memory"];
/// Name of the choice of all tools.
const ALL: &str = "all";

/// Choice of tools. The default has all but those that are to be asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolChoice {
    /// Chosen tools; `None` for the default.
    names: Option<Vec<&'static str>>,
    /// True for tools that change nothing.
    read_only: bool,
}

impl ToolChoice {
    /// Parses a choice: names separated by commas, or `all`. `read_only` leaves out the tools that change
    /// something.
    ///
    /// # Errors
    /// A message for a name that no tool has, for a list without names, and for one that leaves no tool to a
    /// client that only reads.
    pub(super) fn parse(names: Option<&str>, read_only: bool) -> Result<Self, String> {
        let names = names.map(parsed).transpose()?;
        let choice = Self { names, read_only };
        match &choice.names {
            Some(names) if !TOOLS.iter().any(|tool| choice.has(tool)) => {
                let readers = TOOLS.iter().filter(|tool| !tool.effect.writes()).map(|tool| tool.name);
                let (names, readers) = (names.join(", "), readers.collect::<Vec<_>>().join(", "));
                Err(format!("a client that only reads cannot have {names}; name at least one of {readers}"))
            }
            _ => Ok(choice),
        }
    }

    /// Returns true if the client sees the tool.
    pub(super) fn has(&self, tool: &Tool) -> bool {
        let is_chosen = match &self.names {
            Some(names) => names.contains(&tool.name),
            None => !ASKED_FOR.contains(&tool.name),
        };
        is_chosen && !(self.read_only && tool.effect.writes())
    }
}

fn parsed(names: &str) -> Result<Vec<&'static str>, String> {
    let known = || TOOLS.iter().map(|tool| tool.name);
    let names: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return Err("name at least one tool, or `all`".to_owned());
    }
    if names == [ALL] {
        return Ok(known().collect());
    }
    let find = |name: &str| {
        let found = known().find(|known| *known == name);
        found.ok_or_else(|| {
            let shown: String = name.chars().take(100).collect();
            let known = known().collect::<Vec<_>>().join(", ");
            format!("{shown:?} is not a tool; the tools are {known}")
        })
    };
    names.into_iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: Option<&str>, read_only: bool) -> Vec<&'static str> {
        let choice = ToolChoice::parse(names, read_only).unwrap();
        TOOLS.iter().filter(|tool| choice.has(tool)).map(|tool| tool.name).collect()
    }

    #[test]
    fn only_named_tools_are_seen() {
        assert_eq!(chosen(Some("ls"), false), ["ls"]);
        assert_eq!(chosen(Some(" ls ,"), false), ["ls"]);
        assert_eq!(chosen(Some("all"), false).len(), TOOLS.len());
        assert!(chosen(None, false).contains(&"ls") && !chosen(None, false).contains(&"memory"));
    }

    #[test]
    fn read_only_leaves_out_tools_that_write() {
        let read_only = chosen(Some("all"), true);
        let due: Vec<&str> =
            TOOLS.iter().filter(|tool| !tool.effect.writes()).map(|tool| tool.name).collect();
        assert_eq!(read_only, due);
    }

    #[test]
    fn unknown_tools_are_refused_with_the_known_ones() {
        let error = ToolChoice::parse(Some("ls,rm"), false).unwrap_err();
        assert!(error.starts_with("\"rm\" is not a tool; the tools are ls"), "{error}");
        assert!(ToolChoice::parse(Some(" ,"), false).unwrap_err().contains("at least one"));
    }

    #[test]
    fn choice_that_leaves_no_tool_is_refused() {
        let error = ToolChoice::parse(Some("write_file,move"), true).unwrap_err();
        let due = "a client that only reads cannot have write_file, move; name at least one of ls, read_file";
        assert!(error.starts_with(due), "{error}");
        assert_eq!(chosen(Some("write_file,ls"), true), ["ls"]);
    }
}
