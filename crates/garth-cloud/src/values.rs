//! Values of columns and parameters.
//!
//! - `columns`: columns of tables, and rows read from them;
//! - `labels`: labels as columns have them;
//! - `parameters`: parameters of statements;
//! - `sums`: checksums of stored content.

pub(crate) mod columns;
pub(crate) mod labels;
pub(crate) mod parameters;
pub(crate) mod sums;
