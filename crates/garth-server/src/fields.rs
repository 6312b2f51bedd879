//! Fields of requests. A call declares its fields once, with [`fields!`]; parser, refusals and the reference
//! are made from the declaration.

mod bounded;
mod cursor;
mod field;
mod group;
mod kind;
mod path;
mod sent;
mod slot;

pub(crate) use self::bounded::items;
pub(crate) use self::field::Field;
pub(crate) use self::group::{FieldGroup, Page, fields};
pub(crate) use self::kind::{
    Kind, MAX_INTEGER, array, end_time, flag, integer, json, moment, number_in, object, pair, signed, string,
    string_of, strings, time, words,
};
pub(crate) use self::path::{path_field, path_fields, shell_path_field, stored_path};
pub(crate) use self::sent::{Fields, of_field, reworded};
pub(crate) use self::slot::Slot;
