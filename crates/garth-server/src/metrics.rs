//! Metrics of one server, in the text format of Prometheus. Labels come from fixed sets: paths of the table
//! of routes, methods, classes of statuses, codes of refusals and kinds of work. No label and no value names
//! an account, a key, a user, an agent or a path, so the number of series is bounded.
//!
//! Events are counted as they happen (`recorders`). What the home and the process count by themselves is read
//! when somebody asks (`snapshot`).

mod access;
mod process;
mod recorders;
mod services;
mod snapshot;

pub use self::access::{MetricsAccess, MetricsToken};
pub(crate) use self::process::ProcessStats;
pub use self::recorders::Metrics;
pub(crate) use self::recorders::{Answered, CONTENT_TYPE, Routed, WorkKind, method_label};
pub(crate) use self::snapshot::Snapshot;
