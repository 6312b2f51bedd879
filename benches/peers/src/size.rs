//! Size of a run: all counts are fractions of those in the table.

/// Fraction of the full sizes.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct Size {
    /// Percent of the full sizes: below 100 the figures only show that the program runs
    #[arg(id = "size", long = "size", value_name = "PERCENT", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) percent: u8,
}

impl Size {
    /// Returns the fraction of `full`, as a multiple of `step` and at least one.
    pub(crate) fn of(self, full: usize, step: usize) -> usize {
        (full * usize::from(self.percent) / 100 / step).max(1) * step
    }

    /// Returns the arguments that give another run the same size.
    pub(crate) fn arguments(self) -> [String; 2] {
        ["--size".to_owned(), self.percent.to_string()]
    }
}
