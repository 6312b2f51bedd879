//! Limits of retries beside the specification, which are not in the package: nor is this file.

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
