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

/// Returns the products of each of `rows` with all of `vectors`, whose numbers are at most 127: those of the
/// first row, in the order of the vectors, then those of the next one.
pub(super) fn products<'a>(
    vectors: &[[i16; DIMENSIONS]],
    rows: impl ExactSizeIterator<Item = &'a Row>,
) -> Vec<i32> {
    dispatch!(*LEVEL, _simd => multiply_all(vectors, rows))
}

#[inline(always)]
fn multiply_all<'a>(vectors: &[[i16; DIMENSIONS]], rows: impl ExactSizeIterator<Item = &'a Row>) -> Vec<i32> {
    let mut products = Vec::with_capacity(rows.len() * vectors.len());
    for row in rows {
        // Widened once for all vectors.
        let mut wide = [0_i16; DIMENSIONS];
        for (wide, byte) in wide.iter_mut().zip(row) {
            *wide = i16::from(byte.cast_signed());
        }
        for vector in vectors {
            // 128 products of two bytes fit in 32 bits.
            let each = vector.iter().zip(&wide).map(|(a, b)| i32::from(*a) * i32::from(*b));
            products.push(each.fold(0_i32, i32::wrapping_add));
        }
    }
    products
}
