//! Differences between two states of a path, or between two paths.

mod changed_lines;
mod difference;
mod differences;
mod hunks;
mod page;
mod side;

pub use self::difference::{Change, ContentDifference, DiffForm, Difference};
pub use self::differences::Differences;
pub use self::hunks::unified;
pub use self::page::{Diff, DiffPage};
pub use self::side::Side;
