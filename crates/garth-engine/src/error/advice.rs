//! Advice of errors that not every caller can follow. Interfaces tell it from what failed, and choose their
//! own words for it by its kind.

use super::Error;

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
    /// Find memories by recall.
    Recall;
}

impl Error {
    /// Puts advice after the message, in the words of the command line. An error has one advice.
    #[must_use]
    #[doc(hidden)]
    pub fn advising(mut self, advice: Advice, text: &str) -> Self {
        let failure = self.failure();
        // A message beyond the numbers of 32 bits counts as a failure without advice.
        let Ok(end) = u32::try_from(failure.len()) else { return self };
        self.message = format!("{failure}; {text}").into();
        self.advice = Some((advice, end));
        self
    }

    /// Returns the message without the advice of [`Error::advising`]: what failed, and what every caller can
    /// do.
    #[doc(hidden)]
    pub fn failure(&self) -> &str {
        let end = self.advice.map_or(self.message.len(), |(_, end)| end as usize);
        self.message.get(..end).unwrap_or(&self.message)
    }

    /// Returns the advice of [`Error::advising`]: its kind, and the words of the command line.
    #[doc(hidden)]
    pub fn advice(&self) -> Option<(Advice, &str)> {
        let (kind, end) = self.advice?;
        let text = self.message.get(end as usize..)?;
        Some((kind, text.strip_prefix("; ")?))
    }

    /// Replaces what failed. The advice stays.
    #[must_use]
    #[doc(hidden)]
    pub fn reworded(self, failure: impl FnOnce(&str) -> String) -> Self {
        let failure = failure(self.failure());
        let advice = self.advice().map(|(kind, text)| (kind, text.to_owned()));
        let reworded = Self { message: failure.into(), advice: None, ..self };
        match advice {
            Some((kind, text)) => reworded.advising(kind, &text),
            None => reworded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn advice_is_apart_from_the_failure() {
        // The failure may quote anything, also what separates the two.
        let error = Error::new(ErrorKind::Corrupt, "a; `ls` is damaged");
        assert_eq!((error.failure(), error.advice()), ("a; `ls` is damaged", None));
        let advised = error.advising(Advice::Command, "run `garth fsck`; then try again");
        assert_eq!(advised.message(), "a; `ls` is damaged; run `garth fsck`; then try again");
        assert_eq!(advised.failure(), "a; `ls` is damaged");
        assert_eq!(advised.advice(), Some((Advice::Command, "run `garth fsck`; then try again")));
    }

    #[test]
    fn other_words_keep_the_advice() {
        let error = Error::new(ErrorKind::TooLarge, "is long").advising(Advice::UploadLimit, "send parts");
        let advised = Some((Advice::UploadLimit, "send parts"));
        let prefixed = error.clone().prefixed("/a");
        assert_eq!((prefixed.message(), prefixed.advice()), ("/a: is long; send parts", advised));
        let after = error.after(1, 2);
        let due = "is long (1 of 2 operations were completed and remain); send parts";
        assert_eq!((after.message(), after.advice()), (due, advised));
        let plain = Error::new(ErrorKind::TooLarge, "is long").prefixed("/a");
        assert_eq!((plain.failure(), plain.advice()), ("/a: is long", None));
    }
}
