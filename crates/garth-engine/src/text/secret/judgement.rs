//! Version of the rules by which a span is a secret, and the one that masks on this thread.

use std::cell::Cell;

/// Version of the rules by which a span is a secret. Text that was shown under one version is rebuilt under
/// the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judgement {
    /// Long words of random characters are secrets everywhere.
    First,
    /// They are secrets only next to a name that says so.
    Second,
    /// Values in brackets and objects, below columns of SQL and behind entities belong to their names; more
    /// services are known; ids of documentation and tokens that lock or repeat a request are shown.
    Third,
    /// Members of a JSON Web Key are private wherever its other members are, and however they are written;
    /// later arguments of a call, and passwords after a name, some words and a verb, are secrets. Names of
    /// other languages count in any case; subscripts, markup, adverbs, and JSON in URLs do not hide a value.
    Fourth,
}

impl Judgement {
    /// Judgement for text that is written and shown now.
    pub const CURRENT: Self = Self::Fourth;

    /// Returns the number under which records store it.
    pub const fn number(self) -> u32 {
        match self {
            Self::First => 1,
            Self::Second => 2,
            Self::Third => 3,
            Self::Fourth => 4,
        }
    }

    /// Returns the judgement of a record; the first for records without a number, and `None` for an unknown
    /// number.
    pub fn numbered(number: Option<u32>) -> Option<Self> {
        let all = [Self::First, Self::Second, Self::Third, Self::Fourth];
        all.into_iter().find(|it| it.number() == number.unwrap_or(1))
    }

    /// Returns the judgement under which text is masked on this thread.
    pub(super) fn shown() -> Self {
        SHOWN.get()
    }

    /// Runs `work`. In it, [`super::masked`] and [`super::masked_in_context`] mask under this judgement, so
    /// that a recorded text is rebuilt as it was. Search and rules always use the current one.
    pub fn during<T>(self, work: impl FnOnce() -> T) -> T {
        /// Restores the previous judgement, even if `work` panics.
        struct Before(Judgement);
        impl Drop for Before {
            fn drop(&mut self) {
                SHOWN.set(self.0);
            }
        }
        let _before = Before(SHOWN.replace(self));
        work()
    }
}

thread_local! {
    /// Judgement under which text is masked on this thread.
    static SHOWN: Cell<Judgement> = const { Cell::new(Judgement::CURRENT) };
}
