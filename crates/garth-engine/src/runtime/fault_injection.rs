//! Faults: deliberate violations of the promises of the engine. They are negative controls, by which the
//! crash tests prove that they would notice. Only debug builds can enable one; in a release build every
//! method is a constant `false`.

/// A broken promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault.
    #[default]
    None,
    /// Durable commits skip the fsync of the WAL.
    #[cfg(debug_assertions)]
    SyncNormal,
    /// No fsync at all.
    #[cfg(debug_assertions)]
    SyncOff,
    /// Commits are acknowledged before they are written.
    #[cfg(debug_assertions)]
    AckEarly,
    /// Host folders do not sync the content of files.
    #[cfg(debug_assertions)]
    ContentUnsynced,
    /// Host folders do not sync names.
    #[cfg(debug_assertions)]
    NamesUnsynced,
}

#[cfg(debug_assertions)]
impl Fault {
    /// Returns the fault that `GARTH_FAULT` names.
    pub(crate) fn from_environment() -> Self {
        match std::env::var("GARTH_FAULT").as_deref() {
            Ok("sync-normal") => Self::SyncNormal,
            Ok("sync-off") => Self::SyncOff,
            Ok("ack-early") => Self::AckEarly,
            Ok("content-unsynced") => Self::ContentUnsynced,
            Ok("names-unsynced") => Self::NamesUnsynced,
            _ => Self::None,
        }
    }

    pub(crate) fn skips_wal_sync(self) -> bool {
        self == Self::SyncNormal
    }

    pub(crate) fn skips_every_sync(self) -> bool {
        self == Self::SyncOff
    }

    pub(crate) fn acknowledges_early(self) -> bool {
        self == Self::AckEarly
    }

    pub(crate) fn skips_content_sync(self) -> bool {
        matches!(self, Self::ContentUnsynced | Self::SyncOff)
    }

    pub(crate) fn skips_name_sync(self) -> bool {
        matches!(self, Self::NamesUnsynced | Self::SyncOff)
    }
}

#[cfg(not(debug_assertions))]
impl Fault {
    pub(crate) const fn from_environment() -> Self {
        Self::None
    }

    pub(crate) const fn skips_wal_sync(self) -> bool {
        false
    }

    pub(crate) const fn skips_every_sync(self) -> bool {
        false
    }

    pub(crate) const fn acknowledges_early(self) -> bool {
        false
    }

    pub(crate) const fn skips_content_sync(self) -> bool {
        false
    }

    pub(crate) const fn skips_name_sync(self) -> bool {
        false
    }
}
