//! Finds the spans of commits that contain a commit, in about log₂ of all commits, however many spans there
//! are.
//!
//! The sequence numbers are the nodes of a binary tree that exists only as arithmetic: odd numbers are the
//! leaves, and above two multiples of 2ᵏ is the multiple of 2ᵏ⁺¹ between them. A span is stored at its
//! *fork*, the highest node inside it. All spans that contain a commit have their forks on the path from its
//! node to the root, one node for each level. Of the spans of one name, which stands for one node at a time,
//! each fork has at most one that contains the commit. (The relational interval tree of Kriegel, Pötke and
//! Seidl, VLDB 2000.)

/// Returns the fork of the span from commit `since` up to but excluding commit `till`. For an empty span
/// returns 0, which is no fork.
pub const fn fork(since: u64, till: u64) -> u64 {
    if till <= since {
        return 0;
    }
    let last = till - 1;
    // The fork is `last`, cut below the highest bit in which it differs from the number before the span.
    let above_all_equal = (since.saturating_sub(1) ^ last).ilog2();
    last >> above_all_equal << above_all_equal
}

/// Returns the forks of all ended spans that contain commit `seq`, if the last commit is `head`.
pub fn forks_at(seq: u64, head: u64) -> impl Iterator<Item = u64> {
    // An ended span ends with `head` at the latest, so no fork is larger.
    (0..63).map(move |level| (seq >> level | 1) << level).filter(move |fork| seq > 0 && *fork <= head)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMITS: u64 = 70;

    #[test]
    fn every_commit_finds_its_spans() {
        for since in 1..COMMITS {
            for till in since + 1..=COMMITS {
                let kept = fork(since, till);
                assert!((since..till).contains(&kept), "{since}..{till} is kept at {kept}");
                for seq in 1..=COMMITS {
                    // A commit outside of a span may share its fork: the rows are filtered by `since` and
                    // `till`.
                    let found = forks_at(seq, COMMITS).filter(|fork| *fork == kept).count();
                    let holds = (since..till).contains(&seq);
                    assert!(found <= 1 && (found == 1 || !holds), "{since}..{till} at {seq}");
                }
            }
        }
        assert!(forks_at(40, 100_000).count() <= 17);
        assert_eq!((fork(5, 0), forks_at(0, COMMITS).count()), (0, 0));
    }
}
