//! Groups of fields: declarations of the fields of a call, as types that its handler receives.

use std::borrow::Cow;

use serde_json::json;

use super::field::Field;
use super::kind::{integer, string_of};
use super::sent::Fields;
use crate::errors::Refusal;

/// Declared fields of a call, or a group of them that several calls share. A handler gets only this type, so
/// it cannot read a field that is not declared.
pub(crate) trait FieldGroup<'a>: Sized {
    /// Fields of the group itself.
    const OWN: &'static [Field];
    /// Fields of the group itself, and of each group in it.
    const FIELDS: &'static [&'static [Field]];
    /// Summary of the call, a sentence.
    const SUMMARY: &'static str;

    /// Reads the values of a request.
    fn read(fields: &Fields<'a>) -> Result<Self, Refusal>;
}

/// Declares the fields of a call: name, Rust type, kind with its bounds, and default. A field is required
/// unless its type is an `Option` or it has a default. The documentation becomes the reference of the API.
///
/// ```ignore
/// fields! {
///     /// Lists the keys below another key.
///     pub(super) struct ListFields<'a> {
///         /// Parent key.
///         prefix: Cow<'a, str> = string_of("key path"), or "/".into();
///         ..page: Page<500, 100>;
///     }
/// }
/// ```
macro_rules! fields {
    (
        $(#[doc = $summary:literal])+
        $vis:vis struct $group:ident<$life:lifetime> {
            $($(#[doc = $meaning:literal])+ $field:ident $(as $name:literal)?: $type:ty = $kind:expr $(, or $default:expr)?;)*
            $(..$inner:ident: $inner_type:ty;)*
        }
    ) => {
        $(#[doc = $summary])+
        #[derive(Debug)]
        $vis struct $group<$life> {
            $($(#[doc = $meaning])+ $vis $field: $type,)*
            $(
                #[doc = "Fields of the group."]
                $vis $inner: $inner_type,
            )*
            // A group without borrowed fields would leave its lifetime unused.
            _request: std::marker::PhantomData<&$life ()>,
        }

        impl<$life> $crate::fields::FieldGroup<$life> for $group<$life> {
            const OWN: &'static [$crate::fields::Field] = &[$($crate::fields::Field::of::<$type>(
                fields!(@name $field $($name)?),
                $kind,
                fields!(@default $type $(, $default)?),
                concat!($($meaning),+),
            )),*];
            const FIELDS: &'static [&'static [$crate::fields::Field]] =
                &[Self::OWN, $(<$inner_type as $crate::fields::FieldGroup<$life>>::OWN),*];
            const SUMMARY: &'static str = concat!($($summary),+);

            #[allow(unused_variables)] // of a call without fields
            fn read(fields: &$crate::fields::Fields<$life>) -> Result<Self, $crate::errors::Refusal> {
                Ok(Self {
                    $($field: fields.read::<$type>(
                        fields!(@name $field $($name)?),
                        &$kind,
                        fields!(@value $($default)?),
                    )?,)*
                    $($inner: $crate::fields::FieldGroup::read(fields)?,)*
                    _request: std::marker::PhantomData,
                })
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (@default $type:ty) => { None };
    (@default $type:ty, $default:expr) => {
        Some((|| {
            let default: $type = $default;
            serde_json::json!(default)
        }) as fn() -> serde_json::Value)
    };
    (@value) => { None };
    (@value $default:expr) => { Some($default) };
}
pub(crate) use fields;

/// Page of a list: at most `MAX` items, by default `DEFAULT`.
#[derive(Debug)]
pub(crate) struct Page<const MAX: usize, const DEFAULT: usize> {
    pub(crate) limit: usize,
    /// Position where the page begins.
    pub(crate) cursor: Option<String>,
}

impl<'a, const MAX: usize, const DEFAULT: usize> FieldGroup<'a> for Page<MAX, DEFAULT> {
    const OWN: &'static [Field] = &[
        Field::of::<usize>(
            "limit",
            integer(1, MAX as u64),
            Some(|| json!(DEFAULT)),
            " Limit on the items of the page.",
        ),
        Field::of::<Option<Cow<'_, str>>>(
            "cursor",
            string_of("cursor"),
            None,
            " `next_cursor` of the page before. Default: the first page.",
        ),
    ];
    const FIELDS: &'static [&'static [Field]] = &[Self::OWN];
    const SUMMARY: &'static str = "";

    fn read(fields: &Fields<'a>) -> Result<Self, Refusal> {
        let cursor = fields.read::<Option<Cow<'a, str>>>("cursor", &string_of("cursor"), None)?;
        Ok(Self {
            limit: fields.read("limit", &integer(1, MAX as u64), Some(DEFAULT))?,
            cursor: cursor.map(|cursor| fields.position(&cursor)).transpose()?,
        })
    }
}
