//! Ways to break the engine's promises on purpose: negative controls, by which the crash tests prove that they would notice.
//! Only the feature `faults` can switch one on.

/// What is broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "faults"), allow(dead_code))]
pub(crate) enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Durable commits skip the fsync of the log.
    SyncNormal,
    /// No fsync at all.
    SyncOff,
    /// Commits are acknowledged before they are made.
    AckEarly,
    /// A batch is committed an operation at a time.
    SplitBatch,
}

impl Fault {
    /// The fault that `GARTH_FAULT` asks for.
    #[cfg(feature = "faults")]
    pub(crate) fn from_environment() -> Self {
        match std::env::var("GARTH_FAULT").as_deref() {
            Ok("sync-normal") => Self::SyncNormal,
            Ok("sync-off") => Self::SyncOff,
            Ok("ack-early") => Self::AckEarly,
            Ok("split-batch") => Self::SplitBatch,
            _ => Self::None,
        }
    }

    /// None: this build cannot break itself.
    #[cfg(not(feature = "faults"))]
    pub(crate) fn from_environment() -> Self {
        Self::None
    }
}
