//! Compares the limits of retries with the specification. This file is not packaged, as it is not.

use super::*;

#[test]
fn the_specification_states_the_limits() {
    let specification = include_str!("../../../../../docs/specs/kv-api.md");
    for limit in
        [format!("one token of 1 to {MAX_KEY} characters"), format!("within {} hours", SECONDS / 3600)]
    {
        assert!(specification.contains(&limit), "{limit}");
    }
}
