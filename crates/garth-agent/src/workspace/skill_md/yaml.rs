//! Reads YAML of front matter, within bounds.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_saphyr::Error as YamlError;
use serde_saphyr::budget::BudgetBreach;

use crate::workspace::reading::Reading;

/// Most values of front matter, keys and lists included, and how deep they may be nested. Within these bounds
/// the costliest front matter is read in about a millisecond.
pub(super) const MAX_VALUES: usize = 2000;
/// See [`MAX_VALUES`].
pub(super) const MAX_DEPTH: usize = 16;

/// Why front matter gives no fields.
pub(super) enum Flaw {
    /// It asks for more than is read of any.
    Refused(String),
    Malformed(String),
}

impl Flaw {
    fn alias() -> Self {
        let why = "the front matter has an anchor or alias (`&name`, `*name`, `<<`); write the value out";
        Self::Refused(why.to_owned())
    }
}

/// Reads a mapping. An alias makes a short text as costly as a long one, so there are none, nor anchors and
/// merge keys, which mean nothing without.
pub(super) fn mapping(front: &str, reading: Reading) -> Result<BTreeMap<String, Value>, Flaw> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_anchors: 0,
            max_aliases: 0,
            max_merge_keys: 0,
            max_documents: 1,
            max_depth: MAX_DEPTH,
            max_nodes: MAX_VALUES,
            max_events: 4 * MAX_VALUES,
        },
        with_snippet: false,
        // `yes` is text, as it is for who wrote it
        strict_booleans: reading != Reading::First,
    };
    #[allow(clippy::disallowed_methods)] // this is the one place
    let read = serde_saphyr::from_str_with_options::<BTreeMap<String, Value>>(front, options);
    read.map_err(|error| match &error {
        YamlError::UnknownAnchor { .. } => Flaw::alias(),
        YamlError::DuplicateMappingKey { key: Some(key), .. } => {
            Flaw::Malformed(format!("`{key}` is repeated"))
        }
        YamlError::Budget { breach, .. } => match breach {
            BudgetBreach::Aliases { .. } | BudgetBreach::Anchors { .. } | BudgetBreach::MergeKeys { .. } => {
                Flaw::alias()
            }
            _ => Flaw::Refused(format!(
                "the front matter has more than {MAX_VALUES} values, or more than {MAX_DEPTH} within each \
                 other; shorten it"
            )),
        },
        _ => {
            let why = error.to_string();
            let why = why.lines().find(|line| !line.trim().is_empty()).unwrap_or("it is malformed");
            Flaw::Malformed(why.trim().to_owned())
        }
    })
}
