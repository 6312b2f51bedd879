//! Kinds of the advice of errors that not every caller can follow. Interfaces tell this advice from what
//! failed, and choose their own words for it by its kind.

/// Declares the kinds of advice from one list, so that [`Advice::ALL`] cannot lack one.
macro_rules! advice {
    ($($(#[$doc:meta])* $kind:ident;)*) => {
        /// Kind of the advice of an error. As with [`ErrorKind`](super::ErrorKind), each interface words every
        /// kind in a match without a wildcard arm.
        #[doc(hidden)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Advice {
            $($(#[$doc])* $kind,)*
        }

        impl Advice {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind),*];
        }
    };
}

advice! {
    /// Run a command, or send another option or field; the text names it. For users of the command line and
    /// of the HTTP API.
    Command;
    /// Use a caller outside of sessions.
    OtherCaller;
    /// Send content in parts of at most the limit of an upload.
    UploadLimit;
    /// Ask the lower layer of an overlay about the past.
    LowerLayer;
    /// Make room in an account that is full, or raise its limit on stored bytes.
    StoredBytes;
    /// Find memories by recall.
    Recall;
}
