//! Page of a list in an answer.

use schemars::JsonSchema;
use serde::Serialize;

use crate::fields::Fields;

/// Page of a list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Page", deny_unknown_fields)]
pub(crate) struct ItemsPage<T> {
    /// Items of the page, in the order of the list. A page may have few items, or none, although more follow.
    items: Vec<T>,
    /// True if more items may follow. Missing on the last page.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    has_more: bool,
    /// Cursor of the next page, to be sent as `cursor`. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl<T> ItemsPage<T> {
    /// Returns a page of the answer to a request. `next` is the position of the next page; the last page has
    /// none.
    pub(super) fn of(items: Vec<T>, next: Option<&str>, request: &Fields<'_>) -> Self {
        Self::with_cursor(items, next.map(|next| request.cursor_of(next)))
    }

    fn with_cursor(items: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { items, has_more: next_cursor.is_some(), next_cursor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::respond::text;

    #[test]
    fn only_page_before_the_last_names_a_cursor() {
        let first = ItemsPage::with_cursor(vec![1, 2], Some("c1".to_owned()));
        assert_eq!(text(&first), r#"{"has_more":true,"items":[1,2],"next_cursor":"c1"}"#);
        assert_eq!(text(&ItemsPage::<u64>::with_cursor(Vec::new(), None)), r#"{"items":[]}"#);
    }
}
