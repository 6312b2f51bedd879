//! Sums and products of vectors of small integers, with the widest instructions of the processor. All
//! results are integers, so that they are the same on every machine.

use std::sync::LazyLock;

use fearless_simd::{Level, dispatch};

use super::table::DIMENSIONS;

/// Vector of a token, as signed bytes.
pub(super) type Row = [u8; DIMENSIONS];

/// Instructions of this processor.
static LEVEL: LazyLock<Level> = LazyLock::new(Level::new);

/// Returns the sum of vectors, each multiplied by a weight. It must fit in 32 bits.
pub(super) fn weighted_sum<'a>(rows: impl Iterator<Item = (&'a Row, i16)>) -> [i32; DIMENSIONS] {
    dispatch!(*LEVEL, _simd => add_all(rows))
}

#[inline(always)]
fn add_all<'a>(rows: impl Iterator<Item = (&'a Row, i16)>) -> [i32; DIMENSIONS] {
    let mut sums = [0_i32; DIMENSIONS];
    for (row, weight) in rows {
        for (sum, byte) in sums.iter_mut().zip(row) {
            // Sums that are not checked are added many at once.
            *sum = sum.wrapping_add(i32::from(byte.cast_signed()) * i32::from(weight));
        }
    }
    sums
}

/// Returns the product of a vector, whose numbers are at most 127, with each of `rows`.
pub(super) fn products<'a>(
    vector: &[i16; DIMENSIONS],
    rows: impl ExactSizeIterator<Item = &'a Row>,
) -> Vec<i32> {
    dispatch!(*LEVEL, _simd => multiply_all(vector, rows))
}

#[inline(always)]
fn multiply_all<'a>(vector: &[i16; DIMENSIONS], rows: impl ExactSizeIterator<Item = &'a Row>) -> Vec<i32> {
    let mut products = Vec::with_capacity(rows.len());
    for row in rows {
        // 128 products of two bytes fit in 32 bits.
        let each = vector.iter().zip(row).map(|(a, b)| i32::from(*a) * i32::from(i16::from(b.cast_signed())));
        products.push(each.fold(0_i32, i32::wrapping_add));
    }
    products
}
