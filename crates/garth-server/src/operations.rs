//! State of the calls of operators, and of what they read.

use crate::metrics::{Metrics, MetricsAccess};
use crate::readiness::Readiness;

/// State of the calls of operators.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    pub(crate) metrics: Metrics,
    pub(crate) access: MetricsAccess,
    pub(crate) readiness: Readiness,
}
