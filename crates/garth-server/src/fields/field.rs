//! Declaration of one field.

use serde_json::Value;

use super::kind::Kind;
use super::slot::Slot;

/// Declared field of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Returns the default, if the field has one.
    pub(crate) default: Option<fn() -> Value>,
    pub(crate) is_required: bool,
    /// Meaning, a sentence.
    pub(crate) meaning: &'static str,
}

impl Field {
    /// Declares a field that is read as `T`.
    ///
    /// # Panics
    /// When compiled, if `T` is not read from `kind`, or an optional field has a default.
    pub(crate) const fn of<'a, T: Slot<'a>>(
        name: &'static str,
        kind: Kind,
        default: Option<fn() -> Value>,
        meaning: &'static str,
    ) -> Self {
        // Compared as numbers, because `==` of an enum is not const.
        assert!(T::SHAPE as u8 == kind.shape() as u8, "the type of the field is not that of its kind");
        assert!(!(T::IS_OPTIONAL && default.is_some()), "an `Option` has no default");
        let is_required = !T::IS_OPTIONAL && default.is_none();
        Self { name, kind, default, is_required, meaning }
    }
}
