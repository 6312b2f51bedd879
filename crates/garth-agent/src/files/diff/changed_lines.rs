//! Lines in which two texts differ, in a bounded number of steps.
//!
//! This is the algorithm of Myers (*An O(ND) Difference Algorithm and Its Variations*, 1986), in linear
//! space: it looks from both ends for a point in the middle of a shortest edit script, and goes on in the two
//! halves. Its time grows with the product of the lines and of the differences. Therefore a search for the
//! middle ends after [`MAX_EDITS`] differences at the furthest point that it has reached: a result with more
//! than twice as many in one place may not be the shortest.

use std::collections::HashMap;
use std::ops::Range;

use garth_engine::compute::{go_on, working};
use garth_engine::error::Result;

/// Differences after which a search for the middle ends.
const MAX_EDITS: isize = 512;

/// Diagonal that no path has reached.
const NOWHERE: isize = isize::MIN / 2;

/// Lines of the older text that lines of the newer text replace. One of the two ranges may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangedLines {
    pub(super) old: Range<usize>,
    pub(super) new: Range<usize>,
}

/// Returns the changes between two texts, in their order, with equal lines between them.
///
/// # Errors
/// `TimedOut` once the work may not go on.
pub(super) fn changed_lines(old: &[&str], new: &[&str]) -> Result<Vec<ChangedLines>> {
    let mut numbers = HashMap::new();
    let mut texts = [old, new].map(|lines| {
        let number = lines.iter().map(|line| {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            *numbers.entry(*line).or_insert(next)
        });
        Numbered { lines: number.collect(), shared: Vec::new() }
    });
    let [removed, added] = script(&mut texts)?;
    let changes = ranges(&removed, &added);
    Ok(slid(changes, &texts[0].lines, &texts[1].lines))
}

/// Text as numbers of its lines; equal lines have one number.
struct Numbered {
    lines: Vec<u32>,
    /// Indices of the lines that the other text has, too.
    shared: Vec<usize>,
}

impl Numbered {
    /// Returns true for each line that the other text lacks. They are changed whatever else is, so the search
    /// leaves them out.
    fn without_other(&mut self, other: &Self) -> Vec<bool> {
        let last = self.lines.iter().chain(&other.lines).max().map_or(0, |number| *number as usize);
        let mut is_there = vec![false; last + 1];
        other.lines.iter().for_each(|number| is_there[*number as usize] = true);
        let lacks: Vec<bool> = self.lines.iter().map(|number| !is_there[*number as usize]).collect();
        self.shared = (0..lacks.len()).filter(|index| !lacks[*index]).collect();
        lacks
    }

    fn shared_lines(&self) -> Vec<u32> {
        self.shared.iter().map(|index| self.lines[*index]).collect()
    }
}

/// Returns for each line of both texts whether it is changed.
fn script([old, new]: &mut [Numbered; 2]) -> Result<[Vec<bool>; 2]> {
    let mut changed = [old.without_other(new), new.without_other(old)];
    let (a, b) = (old.shared_lines(), new.shared_lines());
    let mut search = MiddleSearch::new();
    let mut todo = vec![(0..a.len(), 0..b.len())];
    while let Some((mut in_a, mut in_b)) = todo.pop() {
        while !in_a.is_empty() && !in_b.is_empty() && a[in_a.start] == b[in_b.start] {
            (in_a.start, in_b.start) = (in_a.start + 1, in_b.start + 1);
        }
        while !in_a.is_empty() && !in_b.is_empty() && a[in_a.end - 1] == b[in_b.end - 1] {
            (in_a.end, in_b.end) = (in_a.end - 1, in_b.end - 1);
        }
        if in_a.is_empty() || in_b.is_empty() {
            in_a.for_each(|index| changed[0][old.shared[index]] = true);
            in_b.for_each(|index| changed[1][new.shared[index]] = true);
            continue;
        }
        let (x, y) = search.middle(&a[in_a.clone()], &b[in_b.clone()])?;
        let (x, y) = (in_a.start + x, in_b.start + y);
        todo.push((x..in_a.end, y..in_b.end));
        todo.push((in_a.start..x, in_b.start..y));
    }
    Ok(changed)
}

/// Search for a point in the middle. Its memory is used for all of them.
struct MiddleSearch {
    /// For each diagonal `x - y` the furthest `x` of a path from the start, with as many edits as steps were
    /// made; and the same from the end.
    furthest: [Vec<isize>; 2],
}

impl MiddleSearch {
    fn new() -> Self {
        // Diagonals from one before the first to one after the last.
        let diagonals = vec![NOWHERE; 2 * slot(0) + 1];
        Self { furthest: [diagonals.clone(), diagonals] }
    }

    /// Returns a point that a shortest, or at least a short, edit script passes: neither the start nor the
    /// end. Neither text is empty, and both their first and their last lines differ.
    fn middle(&mut self, a: &[u32], b: &[u32]) -> Result<(usize, usize)> {
        let (n, m) = (a.len() as isize, b.len() as isize);
        // Diagonal of the end. The search from there has diagonals of its own, which begin with it.
        let delta = n - m;
        for edits in 0..=MAX_EDITS {
            go_on()?;
            let mut steps = 2 * edits.unsigned_abs() + 2;
            for from_end in [false, true] {
                let [start, end] = &mut self.furthest;
                let (here, there) = if from_end { (end, start) } else { (start, end) };
                (here[slot(-edits - 1)], here[slot(edits + 1)]) = (NOWHERE, NOWHERE);
                for diagonal in (-edits..=edits).step_by(2) {
                    let (x, equal) = step(a, b, here, edits, diagonal, from_end);
                    here[slot(diagonal)] = x;
                    steps += equal;
                    let opposite = delta - diagonal;
                    // The search from the start is one step ahead.
                    let reached = if from_end { edits } else { edits - 1 };
                    let may_meet = (delta % 2 != 0) != from_end && opposite.abs() <= reached;
                    if x >= 0 && may_meet && there[slot(opposite)] >= 0 && x + there[slot(opposite)] >= n {
                        working(steps);
                        return Ok(point(x, diagonal, (n, m), from_end));
                    }
                }
            }
            working(steps);
        }
        let [(sum, x, diagonal), back] = [0, 1].map(|side| {
            let reached = (-MAX_EDITS..=MAX_EDITS).step_by(2);
            let reached = reached.map(|diagonal| (self.furthest[side][slot(diagonal)], diagonal));
            let sums = reached.filter(|(x, _)| *x >= 0).map(|(x, diagonal)| (2 * x - diagonal, x, diagonal));
            // There is one: each step of a search reaches at least one diagonal.
            sums.max().unwrap_or((1, 1, 1))
        });
        let forward = sum >= back.0;
        Ok(if forward { point(x, diagonal, (n, m), false) } else { point(back.1, back.2, (n, m), true) })
    }
}

/// Returns the furthest `x` of a path with a number of edits on a diagonal, and the number of equal lines on
/// the last part of this path.
fn step(
    a: &[u32],
    b: &[u32],
    furthest: &[isize],
    edits: isize,
    diagonal: isize,
    from_end: bool,
) -> (isize, usize) {
    let (n, m) = (a.len() as isize, b.len() as isize);
    let mut x = 0;
    if edits > 0 {
        // One line of `a` more, or one of `b`.
        let (left, above) = (furthest[slot(diagonal - 1)], furthest[slot(diagonal + 1)]);
        let right = if (0..n).contains(&left) { left + 1 } else { NOWHERE };
        let down = if above >= 0 && above - diagonal <= m { above } else { NOWHERE };
        x = right.max(down);
        if x < 0 {
            return (NOWHERE, 0);
        }
    }
    let (start, mut y) = (x, x - diagonal);
    while x < n && y < m {
        let (in_a, in_b) = if from_end { (n - 1 - x, m - 1 - y) } else { (x, y) };
        if a[in_a.unsigned_abs()] != b[in_b.unsigned_abs()] {
            break;
        }
        (x, y) = (x + 1, y + 1);
    }
    (x, (x - start).unsigned_abs())
}

/// Returns a point as counted from the start.
fn point(x: isize, diagonal: isize, (n, m): (isize, isize), from_end: bool) -> (usize, usize) {
    let (x, y) = (x, x - diagonal);
    let (x, y) = if from_end { (n - x, m - y) } else { (x, y) };
    (x.unsigned_abs(), y.unsigned_abs())
}

/// Returns the place of a diagonal in a list.
fn slot(diagonal: isize) -> usize {
    (diagonal + MAX_EDITS + 1).unsigned_abs()
}

/// Returns the ranges of changed lines between equal ones.
fn ranges(removed: &[bool], added: &[bool]) -> Vec<ChangedLines> {
    let (mut changes, mut old, mut new) = (Vec::new(), 0, 0);
    while old < removed.len() || new < added.len() {
        let from = (old, new);
        while removed.get(old) == Some(&true) {
            old += 1;
        }
        while added.get(new) == Some(&true) {
            new += 1;
        }
        if (old, new) != from {
            changes.push(ChangedLines { old: from.0..old, new: from.1..new });
        }
        // A pair of equal lines.
        (old, new) = (old + 1, new + 1);
    }
    changes
}

/// Moves changes towards the end, as far as the lines after them equal their first ones, and joins those that
/// meet. So a paragraph that was added is shown as one, and not as the end of one and the beginning of the
/// next.
fn slid(changes: Vec<ChangedLines>, old: &[u32], new: &[u32]) -> Vec<ChangedLines> {
    let mut slid: Vec<ChangedLines> = Vec::with_capacity(changes.len());
    for mut change in changes.into_iter().rev() {
        let end = slid.last().map_or(old.len(), |next| next.old.start);
        let equal = |lines: &[u32], range: &Range<usize>| lines[range.start] == lines[range.end];
        while change.old.end < end
            && (change.new.is_empty() && equal(old, &change.old)
                || change.old.is_empty() && equal(new, &change.new))
        {
            change.old = change.old.start + 1..change.old.end + 1;
            change.new = change.new.start + 1..change.new.end + 1;
        }
        match slid.last_mut() {
            Some(next) if change.old.end == end => {
                (next.old.start, next.new.start) = (change.old.start, change.new.start);
            }
            _ => slid.push(change),
        }
    }
    slid.reverse();
    slid
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use garth_engine::Env;
    use proptest::prelude::*;

    use super::*;

    /// Returns the number of lines that differ in the shortest edit script, by dynamic programming.
    fn shortest(old: &[&str], new: &[&str]) -> usize {
        let mut row: Vec<usize> = (0..=new.len()).collect();
        for line in old {
            let mut diagonal = row[0];
            row[0] += 1;
            for (at, other) in new.iter().enumerate() {
                let here = if line == other { diagonal } else { 1 + row[at].min(row[at + 1]) };
                diagonal = row[at + 1];
                row[at + 1] = here;
            }
        }
        row[new.len()]
    }

    /// Applies changes to the older lines. Checks that they are in order, apart, and that the lines between
    /// them are equal.
    fn applied<'a>(changes: &[ChangedLines], old: &[&'a str], new: &[&'a str]) -> Vec<&'a str> {
        let (mut lines, mut at) = (Vec::new(), 0);
        for (index, change) in changes.iter().enumerate() {
            assert!(index == 0 || change.old.start > at, "{changes:?}");
            assert!(!change.old.is_empty() || !change.new.is_empty(), "{changes:?}");
            lines.extend_from_slice(&old[at..change.old.start]);
            assert_eq!(lines.len(), change.new.start, "{changes:?}");
            lines.extend_from_slice(&new[change.new.clone()]);
            at = change.old.end;
        }
        lines.extend_from_slice(&old[at..]);
        lines
    }

    fn count(changes: &[ChangedLines]) -> usize {
        changes.iter().map(|change| change.old.len() + change.new.len()).sum()
    }

    proptest! {
        #[test]
        fn changed_lines_are_fewest_and_lead_to_the_newer_text(
            old in prop::collection::vec("[a-d]", 0..12), new in prop::collection::vec("[a-d]", 0..12),
        ) {
            let [old, new] = [&old, &new].map(|lines| lines.iter().map(String::as_str).collect::<Vec<_>>());
            let changes = changed_lines(&old, &new).unwrap();
            prop_assert_eq!(applied(&changes, &old, &new), new.clone());
            prop_assert_eq!(count(&changes), shortest(&old, &new));
        }
    }

    #[test]
    fn texts_with_many_differences_take_bounded_steps() {
        // The newer text has the lines of the older one in another order.
        let lines: Vec<String> = (0..8000_u64).map(|n| (n * 7919 % 8000).to_string()).collect();
        let [mut old, new] = [(); 2].map(|()| lines.iter().map(String::as_str).collect::<Vec<_>>());
        old.sort_unstable();
        let changes = changed_lines(&old, &new).unwrap();
        assert_eq!(applied(&changes, &old, &new), new);
        let other: Vec<String> = (0..8000).map(|n| format!("other {n}")).collect();
        let other: Vec<&str> = other.iter().map(String::as_str).collect();
        assert_eq!(changed_lines(&old, &other).unwrap(), [ChangedLines { old: 0..8000, new: 0..8000 }]);
    }

    #[test]
    fn equal_lines_count_as_steps() {
        const EQUAL: usize = 10_000;
        let env = Env::system();
        let work = async {
            let [old, new] = [["b", "c"], ["c", "b"]]
                .map(|[first, last]| [vec![first], vec!["a"; EQUAL], vec![last]].concat());
            changed_lines(&old, &new).unwrap().len()
        };
        assert_eq!(block_on(env.compute("account", 0, work)).unwrap(), 2);
        assert!(env.computed().steps >= EQUAL as u64);
    }

    #[test]
    fn added_paragraph_is_shown_as_one() {
        let old = ["a", "", "b", ""];
        let new = ["a", "", "x", "", "b", ""];
        assert_eq!(changed_lines(&old, &new).unwrap(), [ChangedLines { old: 2..2, new: 2..4 }]);
    }
}
