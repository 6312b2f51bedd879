//! Text before the sources of an answer.

use std::borrow::Cow;

use crate::count::count;

/// Returns the text before the sources: `first`, and the notes while they take at most half of the budget.
pub(super) fn head(first: &str, notes: &[Cow<'_, str>], budget: usize) -> String {
    let mut head = first.to_owned();
    for note in notes {
        let longer = format!("{head}{note}\n");
        // At least half of the budget is left for the pieces.
        if count(&longer) <= budget / 2 {
            head = longer;
        }
    }
    head
}
