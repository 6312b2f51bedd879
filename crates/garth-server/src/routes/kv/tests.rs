//! Compares the limits of the key-value calls with the specification. This file is not packaged, as it is
//! not.

use super::*;

#[test]
fn the_specification_states_the_limits() {
    use garth_agent::kv::{
        DEFAULT_HITS, MAX_HITS, MAX_KEY_CHARS, MAX_KEY_SEGMENT, MAX_KEY_SEGMENTS, MAX_PAGE_VALUES,
        MAX_QUERY_CHARS, MAX_TAG_CHARS, MAX_TAGS_ANY, MAX_VALUE,
    };
    let specification =
        include_str!("../../../../../docs/specs/kv-api.md").replace(',', "").replace('\n', " ");
    for limit in [
        format!("has at most {MAX_KEY_CHARS} characters and {MAX_KEY_SEGMENTS} segments"),
        format!("each of at most {MAX_KEY_SEGMENT} bytes"),
        format!("({MAX_VALUE} bytes)"),
        format!("({MAX_PAGE_VALUES} bytes) of values"),
        format!("array of 1 to {MAX_PUTS} objects"),
        format!("array of at most {MAX_GETS} strings"),
        format!("integer -{MAX_BY} to {MAX_BY} | `1`"),
        format!("integer 1 to {MAX_LISTED} | `{MAX_LISTED}`"),
        format!("integer 1 to {MAX_HISTORY} | `{DEFAULT_HISTORY}`"),
        format!("integer 1 to {MAX_HITS} | `{DEFAULT_HITS}`"),
        format!("1 to {MAX_QUERY_CHARS} characters"),
        format!("array of at most {MAX_TAGS} strings of at most {MAX_TAG_CHARS} characters"),
        format!("array of at most {MAX_TAGS_ANY} strings"),
    ] {
        assert!(specification.contains(&limit), "{limit}");
    }
}
