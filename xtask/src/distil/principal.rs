//! Principal directions of vectors: the eigenvectors of their second moments.

use super::model::WIDTH;

/// Share of the mean that is subtracted. The rest tells passages of many tokens from those of few, which
/// finds more evidence in conversations; the complete mean would find less of short facts.
const CENTRED: f64 = 0.25;
/// Limit on the rounds of rotations. Ten are enough for a matrix of this size.
const ROUNDS: usize = 30;

/// Returns `vectors` (of [`WIDTH`] numbers each) in their first `dimensions` principal directions.
pub(super) fn project(mut vectors: Vec<f32>, dimensions: usize) -> Vec<f32> {
    let count = (vectors.len() / WIDTH) as f64;
    let mut mean = vec![0.0; WIDTH];
    for vector in vectors.chunks_exact(WIDTH) {
        mean.iter_mut().zip(vector).for_each(|(mean, x)| *mean += f64::from(*x) / count);
    }
    for vector in vectors.chunks_exact_mut(WIDTH) {
        vector.iter_mut().zip(&mean).for_each(|(x, mean)| *x = (f64::from(*x) - CENTRED * mean) as f32);
    }
    let directions = directions(moments(&vectors), WIDTH);
    let mut projected = Vec::with_capacity(vectors.len() / WIDTH * dimensions);
    for vector in vectors.chunks_exact(WIDTH) {
        projected.extend(directions.iter().take(dimensions).map(|direction| {
            direction.iter().zip(vector).map(|(share, x)| share * f64::from(*x)).sum::<f64>() as f32
        }));
    }
    projected
}

/// Returns the sum of the products of each two coordinates, a symmetric matrix.
fn moments(vectors: &[f32]) -> Vec<f64> {
    let mut moments = vec![0.0; WIDTH * WIDTH];
    for vector in vectors.chunks_exact(WIDTH) {
        for (row, x) in moments.chunks_exact_mut(WIDTH).zip(vector) {
            row.iter_mut().zip(vector).for_each(|(sum, y)| *sum += f64::from(*x) * f64::from(*y));
        }
    }
    moments
}

/// Returns the eigenvectors of a symmetric matrix of `width` rows, that of the largest eigenvalue first.
/// Jacobi's method: each rotation makes one number off the diagonal zero.
fn directions(mut matrix: Vec<f64>, width: usize) -> Vec<Vec<f64>> {
    let mut vectors: Vec<f64> = (0..width * width).map(|at| f64::from(at % (width + 1) == 0)).collect();
    let total: f64 = matrix.iter().map(|x| x * x).sum();
    for _ in 0..ROUNDS {
        let off = |(at, x): (usize, &f64)| if at % (width + 1) == 0 { 0.0 } else { x * x };
        if matrix.iter().enumerate().map(off).sum::<f64>() <= total * 1e-24 {
            break;
        }
        for p in 0..width {
            for q in p + 1..width {
                rotate(&mut matrix, &mut vectors, width, (p, q));
            }
        }
    }
    let mut order: Vec<usize> = (0..width).collect();
    order.sort_by(|a, b| matrix[b * width + b].total_cmp(&matrix[a * width + a]));
    let direction = |row: usize| {
        let vector = &vectors[row * width..(row + 1) * width];
        // An eigenvector may point either way; its largest coordinate is made positive.
        let largest = vector.iter().copied().fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
        vector.iter().map(|x| x * largest.signum()).collect()
    };
    order.into_iter().map(direction).collect()
}

/// Rotates rows and columns `p` and `q` so that the number where they meet becomes zero.
fn rotate(matrix: &mut [f64], vectors: &mut [f64], width: usize, (p, q): (usize, usize)) {
    let meet = matrix[p * width + q];
    if meet == 0.0 {
        return;
    }
    let slope = (matrix[q * width + q] - matrix[p * width + p]) / (2.0 * meet);
    let tangent = slope.signum() / (slope.abs() + (slope * slope + 1.0).sqrt());
    let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
    let sine = tangent * cosine;
    let turn = |a: &mut f64, b: &mut f64| (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
    for row in matrix.chunks_exact_mut(width) {
        let (left, right) = row.split_at_mut(q);
        turn(&mut left[p], &mut right[0]);
    }
    for matrix in [matrix, vectors] {
        let (above, below) = matrix.split_at_mut(q * width);
        let rows = above[p * width..(p + 1) * width].iter_mut().zip(&mut below[..width]);
        rows.for_each(|(a, b)| turn(a, b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_eigenvectors_in_order() {
        // 2 and 1 across, 5 along the third axis.
        let found = directions(vec![1.5, 0.5, 0.0, 0.5, 1.5, 0.0, 0.0, 0.0, 5.0], 3);
        let half = 0.5_f64.sqrt();
        let expected = [[0.0, 0.0, 1.0], [half, half, 0.0], [half, -half, 0.0]];
        for (found, expected) in found.iter().zip(expected) {
            let product: f64 = found.iter().zip(expected).map(|(a, b)| a * b).sum();
            assert!((product.abs() - 1.0).abs() < 1e-12, "{found:?}");
        }
    }
}
