//! Faults that the proof must detect.

/// Fault to plant: a negative control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Files are written without `if_version`.
    Unchecked,
    /// A step is counted as acknowledged and not sent.
    Lost,
}
