//! Figures of a proof: counts by name, in the order in which the proof lists them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;

/// Counts and notes of a proof. Printed as one line of counts, and one line for each group and note:
///
/// ```text
/// 20 histories, 4031 reads, 1480 writes, 889 conflicts
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    counts: Vec<(&'static str, u64)>,
    groups: BTreeMap<(&'static str, String), u64>,
    notes: Vec<String>,
}

impl Report {
    /// Returns a report with these counts, all zero. The name of a count is the counted thing, in the plural.
    pub fn of<const N: usize>(names: [&'static str; N]) -> Self {
        Self { counts: names.map(|name| (name, 0)).to_vec(), ..Self::default() }
    }

    /// Adds to a count.
    ///
    /// # Panics
    /// If the report has no such count: a misspelt name would get a count of its own.
    pub fn add(&mut self, name: &str, n: impl TryInto<u64>) {
        *self.count(name) += number(n);
    }

    /// Sets a count.
    ///
    /// # Panics
    /// As `add`.
    pub fn set(&mut self, name: &str, n: impl TryInto<u64>) {
        *self.count(name) = number(n);
    }

    /// Sets a count. For a report that is built in one expression.
    ///
    /// # Panics
    /// As `add`.
    #[must_use]
    pub fn with(mut self, name: &str, n: impl TryInto<u64>) -> Self {
        self.set(name, n);
        self
    }

    /// Adds to a count of a group whose names depend on the run, such as the kinds of steps.
    pub fn add_in(&mut self, group: &'static str, name: impl Into<String>, n: u64) {
        *self.groups.entry((group, name.into())).or_default() += n;
    }

    /// Returns a count of a group; 0 if nothing was added to it.
    pub fn in_group(&self, group: &'static str, name: &str) -> u64 {
        self.groups.get(&(group, name.to_owned())).copied().unwrap_or_default()
    }

    /// Returns the counts of a group, by name.
    pub fn group(&self, group: &str) -> impl Iterator<Item = (&str, u64)> {
        let of_group = self.groups.iter().filter(move |((of, _), _)| *of == group);
        of_group.map(|((_, name), n)| (name.as_str(), *n))
    }

    /// Adds a line of text.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    fn count(&mut self, name: &str) -> &mut u64 {
        let found = self.counts.iter_mut().find(|(of, _)| *of == name);
        found.map_or_else(|| panic!("the report does not count {name}"), |(_, n)| n)
    }
}

fn number(n: impl TryInto<u64>) -> u64 {
    n.try_into().unwrap_or_else(|_| panic!("a count is not negative"))
}

impl Index<&str> for Report {
    type Output = u64;

    /// Returns a count. Panics if the report does not have it.
    fn index(&self, name: &str) -> &u64 {
        let found = self.counts.iter().find(|(of, _)| *of == name);
        found.map_or_else(|| panic!("the report does not count {name}"), |(_, n)| n)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self.counts.iter().map(|(name, n)| format!("{n} {name}")).collect();
        let mut lines = vec![counts.join(", ")];
        let mut of = "";
        for ((group, name), n) in &self.groups {
            // Groups are sorted by name, so one group is in succession.
            match *group == of {
                true => lines.last_mut().into_iter().for_each(|line| *line += &format!(", {n} {name}")),
                false => lines.push(format!("{group}: {n} {name}")),
            }
            of = group;
        }
        lines.extend(self.notes.iter().cloned());
        lines.retain(|line| !line.is_empty());
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_counts_groups_and_notes() {
        let mut report = Report::of(["sessions", "packs"]).with("sessions", 2_u64);
        report.add("packs", 3_usize);
        report.add_in("steps", "append", 1);
        report.add_in("steps", "append", 1);
        report.add_in("steps", "swap", 1);
        report.note("built again after a restart");
        assert_eq!(
            report.to_string(),
            "2 sessions, 3 packs\nsteps: 2 append, 1 swap\nbuilt again after a restart"
        );
        assert_eq!((report["packs"], report.in_group("steps", "append")), (3, 2));
    }
}
