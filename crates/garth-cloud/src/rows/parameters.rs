//! Parameters of statements: a column of several rows is an array, so that a statement has one parameter for
//! each column, whatever the number of rows.

use std::error::Error;

use bytes::{Bytes, BytesMut};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::columns::int;
use crate::client::{Param, param};

/// Bytes as a parameter, without a copy.
#[derive(Debug)]
pub(super) struct Blob(pub(super) Bytes);

impl ToSql for Blob {
    fn to_sql(&self, type_: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        <&[u8] as ToSql>::to_sql(&&*self.0, type_, out)
    }

    fn accepts(type_: &Type) -> bool {
        <&[u8] as ToSql>::accepts(type_)
    }

    to_sql_checked!();
}

/// Returns an array of a type.
pub(crate) fn list<T: ToSql + Sync + Send + 'static>(values: impl Iterator<Item = T>, type_: Type) -> Param {
    param(values.collect::<Vec<T>>(), type_)
}

/// Returns an array of numbers.
pub(crate) fn ints(values: impl Iterator<Item = u64>) -> Param {
    list(values.map(int), Type::INT8_ARRAY)
}

/// Returns an array of signed numbers.
pub(super) fn signed(values: impl Iterator<Item = i64>) -> Param {
    list(values, Type::INT8_ARRAY)
}

/// Returns an array of texts.
pub(crate) fn texts(values: impl Iterator<Item = String>) -> Param {
    list(values, Type::TEXT_ARRAY)
}
