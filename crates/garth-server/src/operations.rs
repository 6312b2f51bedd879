//! State of the calls of operators, and of what they read.

use tokio::sync::Mutex;

use crate::metrics::{Metrics, MetricsAccess};
use crate::readiness::Readiness;

/// State of the calls of operators.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    pub(crate) metrics: Metrics,
    pub(crate) access: MetricsAccess,
    pub(crate) readiness: Readiness,
    /// Held while the metrics are read. Where they are open, anybody may ask for them at any rate, and each
    /// reading takes a thread and asks the disk.
    pub(crate) scraping: Mutex<()>,
}
