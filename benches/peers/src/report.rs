//! The table: medians, ratios, goals.

use std::fmt::Write;

use crate::figures::Figures;
use crate::rows::{Goal, Row};

/// The Markdown table of `docs/benchmarks.md`.
pub(crate) fn table<'a>(rows: impl Iterator<Item = (&'a Row, &'a Figures)>) -> String {
    let mut table = String::from(
        "| job | garth | peer | against | result | goal | met |\n|---|--:|--:|---|--:|--:|---|\n",
    );
    for (row, figures) in rows {
        let cells = cells(row, figures);
        let met = if cells.met { "yes" } else { "**no**" };
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {} | {} | {met} |",
            row.job, cells.garth, cells.peer, row.against, cells.result, cells.goal
        );
    }
    table
}

struct Cells {
    garth: String,
    peer: String,
    result: String,
    goal: String,
    met: bool,
}

fn cells(row: &Row, figures: &Figures) -> Cells {
    let of = |side: &std::collections::BTreeMap<String, Vec<f64>>| {
        side.get(row.measure).and_then(|all| median(all))
    };
    let (garth, peer) = (of(&figures.garth), of(&figures.peer));
    let shown = |nanos: Option<f64>| nanos.map_or("-".to_owned(), time);
    match row.goal {
        Goal::Ratio(goal) => {
            let ratio = garth.zip(peer).map_or(0.0, |(garth, peer)| peer / garth);
            Cells {
                garth: shown(garth),
                peer: shown(peer),
                result: format!("{ratio:.2}×"),
                goal: format!("≥ {goal}×"),
                met: ratio >= goal,
            }
        }
        Goal::Millis(goal) => {
            let millis = garth.map_or(f64::INFINITY, |nanos| nanos / 1e6);
            Cells {
                garth: shown(garth),
                peer: shown(peer),
                result: format!("{millis:.1} ms"),
                goal: format!("< {goal} ms"),
                met: millis < goal,
            }
        }
        Goal::PeakMib(goal) => {
            let mib = |kib: &[f64]| median(kib).map_or(f64::INFINITY, |kib| kib / 1024.0);
            let (garth, peer) = (mib(&figures.peak_kib.0), mib(&figures.peak_kib.1));
            Cells {
                garth: format!("{garth:.0} MiB"),
                peer: format!("{peer:.0} MiB"),
                result: format!("{garth:.0} MiB"),
                goal: format!("< {goal} MiB"),
                met: garth < goal,
            }
        }
        Goal::Disk(goal) => {
            let times = median(&figures.disk).unwrap_or(f64::INFINITY);
            Cells {
                garth: format!("{times:.1} B/B"),
                peer: "1 B/B".to_owned(),
                result: format!("{times:.1}×"),
                goal: format!("≤ {goal}×"),
                met: times <= goal,
            }
        }
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[middle - 1], upper) } else { upper })
}

/// A time with three digits and its unit.
fn time(nanos: f64) -> String {
    let (value, unit) = match nanos {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "µs"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ROWS;

    #[test]
    fn the_median_is_the_middle_or_between_the_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_ratio_is_met_when_garth_takes_so_much_less_time() {
        let row = &ROWS[1];
        let mut figures = Figures::default();
        figures.garth.insert("read".into(), vec![2_000.0]);
        figures.peer.insert("read".into(), vec![3_000.0]);
        let table = table([(row, &figures)].into_iter());
        assert!(
            table.ends_with("| 2.00 µs | 3.00 µs | agentfs-sdk 0.6.4 (no fsync) | 1.50× | ≥ 1.5× | yes |\n"),
            "{table}"
        );
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        assert!(ROWS.iter().all(|row| !cells(row, &Figures::default()).met));
    }
}
