//! The pass in progress, and its place.

use garth_engine::Result;
use garth_engine::engine::relational::fold_pass::{Pass, Phase};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::client::param;
use crate::collect::step::{Statement, Step};
use crate::values::columns::{int, number};

const PASS: &str = "SELECT till, phase, at FROM garth.fold WHERE account = $1";
const PUT: &str = "INSERT INTO garth.fold (account, till, phase, at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (account) DO UPDATE SET till = excluded.till, phase = excluded.phase, at = excluded.at";

/// Returns the statement that reads the pass. Each step runs it behind the lock.
pub(super) fn statement() -> Statement {
    (PASS, Vec::new())
}

/// Returns the pass in progress, from the rows of [`statement`].
///
/// # Errors
/// `Corrupt` for an unknown phase.
pub(super) fn read(rows: &[Row]) -> Result<Option<Pass>> {
    let Some(row) = rows.first() else { return Ok(None) };
    let phase = Phase::of_number(number(row, 1)?)?;
    Ok(Some(Pass { till: number(row, 0)?, phase, at: number(row, 2)? }))
}

/// Returns true if a pass is in progress up to the same commit and in the same phase, at whatever place.
///
/// # Errors
/// As [`read`].
pub(super) fn is_at(rows: &[Row], pass: Pass) -> Result<bool> {
    Ok(read(rows)?.is_some_and(|found| found.is_in(pass)))
}

/// Writes the pass with a step.
pub(super) fn put(step: &mut Step, pass: Pass) {
    let numbers = [int(pass.till), i64::from(pass.phase.number()), int(pass.at)];
    step.add(PUT, numbers.map(|number| param(number, Type::INT8)).into());
}
