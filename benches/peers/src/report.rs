//! The table: medians, ratios and goals.

use std::fmt::Write;

use crate::figures::Figures;
use crate::rows::{Goal, Row, Unit};

/// Returns the Markdown table of `docs/benchmarks.md`.
pub(crate) fn table<'a>(rows: impl Iterator<Item = (&'a Row, &'a Figures)>) -> String {
    let mut table = String::from(
        "| job | garth | peer | against | result | goal | met |\n|---|--:|--:|---|--:|--:|---|\n",
    );
    for (row, figures) in rows {
        let (own, peer) = (figures.median(row.figure), figures.median(row.peer));
        let shown = |figure: Option<f64>| figure.map_or("-".to_owned(), |it| row.unit.show(it));
        let reached = row.goal.reached(own, peer);
        let result = match row.goal {
            Goal::Faster(_) => ratio(peer, own),
            Goal::Within(_) => ratio(own, peer),
            Goal::None if !row.peer.is_empty() => ratio(own, peer),
            Goal::AtMost(_) | Goal::Below(_) | Goal::None => shown(own),
        };
        let met = match row.goal {
            Goal::None => "-",
            _ if own.is_none() || result == "-" => "not measured",
            _ if reached => "yes",
            _ => "**no**",
        };
        let goal = row.goal.show(row.unit);
        let (job, own, peer, against) = (row.job, shown(own), shown(peer), row.against);
        let _ = writeln!(table, "| {job} | {own} | {peer} | {against} | {result} | {goal} | {met} |");
    }
    table
}

fn ratio(of: Option<f64>, to: Option<f64>) -> String {
    of.zip(to).map_or("-".to_owned(), |(of, to)| format!("{:.2}×", of / to))
}

impl Goal {
    fn reached(self, own: Option<f64>, peer: Option<f64>) -> bool {
        let Some(own) = own else { return false };
        match self {
            Self::Faster(times) => peer.is_some_and(|peer| peer / own >= times),
            Self::Within(times) => peer.is_some_and(|peer| own / peer <= times),
            Self::AtMost(limit) => own <= limit,
            Self::Below(limit) => own < limit,
            Self::None => true,
        }
    }

    fn show(self, unit: Unit) -> String {
        match self {
            Self::Faster(times) => format!("≥ {times}×"),
            Self::Within(times) => format!("≤ {times}×"),
            Self::AtMost(limit) => format!("≤ {}", unit.show(limit)),
            Self::Below(limit) => format!("< {}", unit.show(limit)),
            Self::None => "-".to_owned(),
        }
    }
}

impl Unit {
    fn show(self, figure: f64) -> String {
        match self {
            Self::Time => scaled(figure, 1e3, &["ns", "µs", "ms", "s"]),
            Self::Bytes => scaled(figure, 1024.0, &["B", "KiB", "MiB", "GiB"]),
            Self::Share => format!("{figure:.2} B/B"),
            Self::Count => format!("{figure:.0}"),
        }
    }
}

/// Formats three digits with a suitable unit.
fn scaled(mut figure: f64, step: f64, units: &[&str]) -> String {
    let mut units = units.iter().peekable();
    while let Some(unit) = units.next() {
        if figure < step || units.peek().is_none() {
            let digits = if figure < 10.0 { 2 } else { usize::from(figure < 100.0) };
            return format!("{figure:.digits$} {unit}");
        }
        figure /= step;
    }
    unreachable!("the last unit takes what is left")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ROWS;

    fn line(goal: Goal, own: f64, peer: f64) -> String {
        let row = Row { goal, ..ROWS[0] };
        let mut figures = Figures::default();
        figures.add(row.figure, own);
        figures.add(row.peer, peer);
        table([(&row, &figures)].into_iter()).lines().last().unwrap_or_default().to_owned()
    }

    #[test]
    fn ratio_goal_compares_times() {
        let faster = line(Goal::Faster(1.5), 2_000.0, 3_000.0);
        assert!(
            faster.ends_with("| 2.00 µs | 3.00 µs | agentfs-sdk 0.6.4 (no fsync) | 1.50× | ≥ 1.5× | yes |")
        );
        assert!(line(Goal::Faster(1.6), 2_000.0, 3_000.0).ends_with("| 1.50× | ≥ 1.6× | **no** |"));
    }

    #[test]
    fn other_goals_bound_figure_or_multiple() {
        assert!(line(Goal::Within(2.0), 3e6, 2e6).ends_with("| 1.50× | ≤ 2× | yes |"));
        assert!(line(Goal::Within(1.4), 3e6, 2e6).ends_with("| 1.50× | ≤ 1.4× | **no** |"));
        assert!(line(Goal::Below(20e6), 20e6, 1.0).ends_with("| 20.0 ms | < 20.0 ms | **no** |"));
        assert!(line(Goal::AtMost(20e6), 20e6, 1.0).ends_with("| 20.0 ms | ≤ 20.0 ms | yes |"));
        assert!(line(Goal::None, 3e6, 2e6).ends_with("| 1.50× | - | - |"));
    }

    #[test]
    fn formats_sizes_in_binary_units() {
        assert_eq!(Unit::Bytes.show(8192.0), "8.00 KiB");
        assert_eq!(Unit::Bytes.show(33_554_432.0), "32.0 MiB");
        assert_eq!(Unit::Time.show(5e12), "5000 s");
    }

    #[test]
    fn reports_missing_measurements() {
        let nothing = Figures::default();
        let table = table(ROWS.iter().map(|row| (row, &nothing)));
        assert!(
            table
                .lines()
                .skip(2)
                .all(|line| line.ends_with("| not measured |") || line.ends_with("| - | - |"))
        );
    }
}
