//! Lines of a summary that name the messages it covers.

/// Prefix of the line that names the last message of a summary.
const COVERED: &str = "<!-- covers messages:1-";
/// Note in an extractive summary, before its excerpts.
pub(crate) const MARK: &str = "Excerpts, made without a model: first sentences as they were said.";

/// Returns the line that names the last message of a summary.
pub(crate) fn covers(last: u64) -> String {
    format!("{COVERED}{last} -->\n")
}

/// Returns the last message that a summary covers; 0 if it names none.
pub(crate) fn covered(text: &str) -> u64 {
    let line = text.lines().next().unwrap_or_default();
    let number = line.strip_prefix(COVERED).and_then(|rest| rest.strip_suffix(" -->"));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Returns a summary without the excerpts of some lines; `None` if it is not extractive.
pub(crate) fn without(text: &str, is_gone: impl Fn(u64) -> bool) -> Option<String> {
    text.contains(MARK).then(|| {
        // Sentences of a model do not name their messages: only excerpts can be removed one by one.
        let line = |excerpt: &str| excerpt.strip_prefix("- messages:")?.split_once(' ')?.0.parse().ok();
        let left = text.split_inclusive('\n').filter(|excerpt| !line(excerpt).is_some_and(&is_gone));
        left.collect()
    })
}
