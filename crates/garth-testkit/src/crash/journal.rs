//! Check after a crash, based on two things only: the journal of acknowledgements before it, and the data
//! read after it. Every workload, real or with a planted fault, is judged here.

use std::collections::{BTreeMap, BTreeSet};

use garth_engine::model::VersionId;

use super::attempts::{Attempt, WRITERS, Workload};

/// Journal of a round, kept in the memory of the harness.
#[derive(Debug, Default)]
pub struct Journal {
    /// Logs by writer.
    pub writers: Vec<WriterLog>,
}

/// Acknowledgements of one writer.
#[derive(Clone, Debug, Default)]
pub struct WriterLog {
    /// Acknowledged puts; the first has number 1.
    pub acknowledged: Vec<Acknowledged>,
    /// Puts started: as many as acknowledged, or one more that was in flight.
    pub attempted: u32,
}

/// Acknowledgement of a put.
#[derive(Clone, Debug)]
pub struct Acknowledged {
    /// Version of each file that it wrote.
    pub versions: Vec<VersionId>,
    /// True if the put must exist after the crash. Otherwise it counts as in flight: it may exist, as this
    /// version only.
    pub sure: bool,
}

impl Journal {
    /// Returns an empty journal.
    pub fn new() -> Self {
        Self { writers: vec![WriterLog::default(); WRITERS as usize] }
    }

    /// Returns the number of puts acknowledged for sure.
    pub fn acknowledged(&self) -> u64 {
        self.writers.iter().flat_map(|writer| &writer.acknowledged).map(|put| u64::from(put.sure)).sum()
    }

    /// Returns the number of puts whose outcome is unknown.
    pub fn in_flight(&self) -> u64 {
        self.writers.iter().map(|writer| u64::from(writer.attempted)).sum::<u64>() - self.acknowledged()
    }

    /// Returns every put that was started.
    pub fn attempts(&self, round: u32) -> impl Iterator<Item = Attempt> + '_ {
        (0..)
            .zip(&self.writers)
            .flat_map(move |(writer, log)| (1..=log.attempted).map(move |n| Attempt { round, writer, n }))
    }

    fn answer(&self, attempt: Attempt) -> Option<&Acknowledged> {
        self.writers.get(attempt.writer as usize)?.acknowledged.get(attempt.n as usize - 1)
    }

    /// Resolves puts in flight by the findings: one that was found must stay, one that was not found must
    /// never appear.
    pub fn settle(&mut self, found: &Findings) {
        for writer in &mut self.writers {
            // Doubtful ones are either among the findings or missing.
            writer.acknowledged.retain(|put| put.sure);
        }
        for (attempt, versions) in &found.kept {
            let put = Acknowledged { versions: versions.clone(), sure: true };
            self.writers[attempt.writer as usize].acknowledged.push(put);
        }
        for writer in &mut self.writers {
            writer.attempted = writer.acknowledged.len() as u32;
        }
    }
}

/// Versions read of one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Current value.
    pub current: Option<String>,
    /// All versions, newest first.
    pub versions: Vec<(VersionId, String)>,
}

/// Data read after a crash, by path.
pub type Observed = BTreeMap<String, Seen>;

/// Findings of the check.
#[derive(Debug, Default)]
pub struct Findings {
    /// Acknowledged puts that are missing or differ.
    pub lost: Vec<String>,
    /// Values that nobody wrote, and attempts that exist in part.
    pub partial: Vec<String>,
    /// Other contradictions of the promises: order, gaps.
    pub disorder: Vec<String>,
    /// In-flight puts that exist completely, with their versions.
    pub kept: Vec<(Attempt, Vec<VersionId>)>,
}

impl Findings {
    /// Returns true if everything is as promised.
    pub fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.partial.is_empty() && self.disorder.is_empty()
    }
}

/// Compares the observed data with those that must and may exist.
pub fn check(workload: Workload, round: u32, journal: &Journal, observed: &Observed) -> Findings {
    let mut found = Findings::default();
    let visible = visible(workload, round, journal, observed, &mut found);
    for attempt in journal.attempts(round) {
        let there: Vec<Option<VersionId>> = workload
            .paths(attempt)
            .iter()
            .map(|path| visible.get(&(attempt, path.as_str())).copied())
            .collect();
        let whole: Option<Vec<VersionId>> = there.iter().copied().collect();
        match (journal.answer(attempt), whole) {
            (Some(answer), Some(whole)) if answer.versions == whole => {
                if !answer.sure {
                    found.kept.push((attempt, whole));
                }
            }
            // A doubtful put may be missing.
            (Some(answer), None) if !answer.sure => {}
            (Some(answer), _) => found.lost.push(lost(attempt, answer, &there)),
            (None, Some(whole)) => found.kept.push((attempt, whole)),
            (None, None) => {}
        }
        // Independent of the acknowledgement: no batch may be applied in part.
        if there.contains(&None) && there.iter().any(Option::is_some) {
            found.partial.push(format!("{attempt}: only a part of it is there: {}", text(&there)));
        }
    }
    check_order(&visible, &mut found);
    found
}

fn lost(attempt: Attempt, answer: &Acknowledged, there: &[Option<VersionId>]) -> String {
    let promised: Vec<_> = answer.versions.iter().copied().map(Some).collect();
    format!("{attempt}: acknowledged as {}, found {}", text(&promised), text(there))
}

/// Returns the versions of the files of an attempt as text; `nothing` for a missing one.
fn text(versions: &[Option<VersionId>]) -> String {
    let version = |version: &Option<VersionId>| version.map_or("nothing".to_owned(), |id| id.to_string());
    versions.iter().map(version).collect::<Vec<_>>().join(", ")
}

/// Returns the version of each attempt at each path. Any other value is recorded as a finding.
fn visible<'a>(
    workload: Workload,
    round: u32,
    journal: &Journal,
    observed: &'a Observed,
    found: &mut Findings,
) -> BTreeMap<(Attempt, &'a str), VersionId> {
    let attempted: BTreeSet<Attempt> = journal.attempts(round).collect();
    let mut visible = BTreeMap::new();
    for (path, seen) in observed {
        for (version, value) in &seen.versions {
            let known = workload
                .recognise(value)
                .filter(|attempt| attempted.contains(attempt) && workload.paths(*attempt).contains(path));
            match known {
                None => found.partial.push(format!("{path} {version}: nobody wrote `{value:.120}`")),
                Some(attempt) => {
                    // Each attempt writes a path once, so a second version would be a commit applied twice.
                    if visible.insert((attempt, path.as_str()), *version).is_some() {
                        found.disorder.push(format!("{path} {version}: {attempt} is there twice"));
                    }
                }
            }
        }
        if !seen.versions.is_sorted_by(|newer, older| newer.0.seq > older.0.seq) {
            found.disorder.push(format!("{path}: its history is not newest first"));
        }
        if seen.current.as_ref() != seen.versions.first().map(|(_, value)| value) {
            found.disorder.push(format!("{path}: its value is not its newest version"));
        }
    }
    visible
}

/// Checks that the tree is a prefix of the commit order: no commit of a round is missing before a later one,
/// and those of one writer are in the order of their requests.
fn check_order(visible: &BTreeMap<(Attempt, &str), VersionId>, found: &mut Findings) {
    // Several files of a batch share a commit.
    let commits: BTreeSet<u64> = visible.values().map(|version| version.seq.0).collect();
    // During a round nothing else commits, so the sequence numbers have no gaps.
    if let (Some(first), Some(last)) = (commits.first(), commits.last())
        && last - first + 1 != commits.len() as u64
    {
        let missing = (*first..*last).find(|seq| !commits.contains(seq));
        found.disorder.push(format!("commit {missing:?} is missing though {last} is there"));
    }
    // The keys are sorted by writer and number, so neighbours are successive attempts of a writer.
    let mut last: Option<(Attempt, u64)> = None;
    for ((attempt, _), version) in visible {
        if let Some((before, seq)) = last
            && before.writer == attempt.writer
            && (attempt.n > before.n + 1 || (attempt.n > before.n && version.seq.0 <= seq))
        {
            found.disorder.push(format!("{attempt} does not follow {before} in the commit order"));
        }
        last = Some((*attempt, version.seq.0));
    }
}

#[cfg(test)]
mod tests {
    use garth_engine::model::{Ino, Seq};

    use super::*;

    const WORKLOAD: Workload = Workload { seed: 1, files: 2 };

    fn put(observed: &mut Observed, attempt: Attempt, path: &str, seq: u64) -> VersionId {
        let version = VersionId { seq: Seq(seq), ino: Ino(path.len() as u64) };
        let value = WORKLOAD.value(attempt);
        let seen = observed.entry(path.to_owned()).or_default();
        seen.versions.insert(0, (version, value.clone()));
        seen.current = Some(value);
        version
    }

    /// Returns two acknowledged batches of writer 0, and one in flight that was committed.
    fn sound() -> (Journal, Observed) {
        let (mut journal, mut observed) = (Journal::new(), Observed::new());
        for n in 1..=3 {
            let attempt = Attempt { round: 0, writer: 0, n };
            let versions = WORKLOAD
                .paths(attempt)
                .iter()
                .map(|path| put(&mut observed, attempt, path, n.into()))
                .collect();
            if n < 3 {
                journal.writers[0].acknowledged.push(Acknowledged { versions, sure: true });
            }
        }
        journal.writers[0].attempted = 3;
        (journal, observed)
    }

    fn path(n: u32, file: usize) -> String {
        WORKLOAD.paths(Attempt { round: 0, writer: 0, n }).swap_remove(file)
    }

    #[test]
    fn sound_tree_passes_journal_check() {
        let (mut journal, mut observed) = sound();
        let found = check(WORKLOAD, 0, &journal, &observed);
        assert!(found.is_clean(), "{found:?}");
        assert_eq!((found.kept.len(), journal.acknowledged(), journal.in_flight()), (1, 2, 1));
        journal.settle(&found);
        assert_eq!((journal.acknowledged(), journal.in_flight()), (3, 0));
        for file in 0..2 {
            let seen = observed.get_mut(&path(3, file)).unwrap();
            seen.versions.remove(0);
            seen.current = seen.versions.first().map(|(_, value)| value.clone());
        }
        assert_eq!(check(WORKLOAD, 0, &journal, &observed).lost.len(), 1);
    }

    #[test]
    fn only_doubtful_acknowledgements_may_be_lost() {
        let (mut journal, mut observed) = sound();
        let doubtful: Vec<_> = (0..2).map(|file| observed[&path(3, file)].versions[0].0).collect();
        journal.writers[0].acknowledged.push(Acknowledged { versions: doubtful, sure: false });
        assert_eq!((journal.acknowledged(), journal.in_flight()), (2, 1));
        let there = check(WORKLOAD, 0, &journal, &observed);
        assert!(there.is_clean() && there.kept.len() == 1, "{there:?}");
        let mut other = observed.clone();
        other.get_mut(&path(3, 0)).unwrap().versions[0].0.ino = Ino(99);
        assert_eq!(check(WORKLOAD, 0, &journal, &other).lost.len(), 1, "there as something else");
        for file in 0..2 {
            let seen = observed.get_mut(&path(3, file)).unwrap();
            seen.versions.remove(0);
            seen.current = seen.versions.first().map(|(_, value)| value.clone());
        }
        let gone = check(WORKLOAD, 0, &journal, &observed);
        assert!(gone.is_clean() && gone.kept.is_empty(), "{gone:?}");
        journal.settle(&gone);
        assert_eq!((journal.acknowledged(), journal.in_flight()), (2, 0));
    }

    #[test]
    fn journal_finds_every_broken_promise() {
        let broken = |change: &dyn Fn(&mut Observed)| {
            let (journal, mut observed) = sound();
            change(&mut observed);
            let found = check(WORKLOAD, 0, &journal, &observed);
            (found.lost.len(), found.partial.len(), found.disorder.len())
        };
        let lost = broken(&|seen| drop((seen.remove(&path(2, 0)), seen.remove(&path(2, 1)))));
        assert_eq!(lost, (1, 0, 2), "an acknowledged batch that is gone, and so a gap");
        let half = broken(&|seen| {
            let seen = seen.get_mut(&path(3, 1)).unwrap();
            seen.versions.remove(0);
            seen.current = seen.versions.first().map(|(_, value)| value.clone());
        });
        assert_eq!(half, (0, 1, 0), "half of a batch");
        let torn = broken(&|seen| {
            let value = &mut seen.get_mut(&path(2, 0)).unwrap().versions[0].1;
            value.truncate(value.len() / 2);
        });
        assert_eq!(torn, (1, 2, 1), "a torn value");
        let stale = broken(&|seen| seen.get_mut(&path(3, 0)).unwrap().current = None);
        assert_eq!(stale, (0, 0, 1), "a value that is not the newest version");
        let gap = broken(&|seen| {
            for file in 0..2 {
                seen.get_mut(&path(3, file)).unwrap().versions[0].0.seq = Seq(4);
            }
        });
        assert_eq!(gap, (0, 0, 1), "a commit that is missing in between");
        let renamed = broken(&|seen| seen.get_mut(&path(2, 0)).unwrap().versions[0].0.ino = Ino(99));
        assert_eq!(renamed, (1, 0, 0), "another version id than acknowledged");
    }
}
