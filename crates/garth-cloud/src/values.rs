//! Values of columns and parameters.
//!
//! - `columns`: columns of tables, and rows read from them;
//! - `labels`: labels as columns have them;
//! - `parameters`: parameters of statements.

pub(crate) mod columns;
pub(crate) mod labels;
pub(crate) mod parameters;
