//! Multiplication of matrices, and the row-wise functions of a transformer.

/// Weights and bias of a linear layer.
pub(super) struct Linear {
    /// One row per input, so that the inner loop runs over neighbouring outputs.
    pub(super) weights: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

impl Linear {
    /// Takes weights with one row per output, as models store them.
    pub(super) fn new(stored: &[f32], bias: Vec<f32>) -> Self {
        let (outputs, inputs) = (bias.len(), stored.len() / bias.len());
        let mut weights = vec![0.0; stored.len()];
        for output in 0..outputs {
            for input in 0..inputs {
                weights[input * outputs + output] = stored[output * inputs + input];
            }
        }
        Self { weights, bias }
    }

    /// Returns the layer of each row of `rows`. The sums are in a fixed order, so that each run gives
    /// the same bits.
    pub(super) fn of(&self, rows: &[f32]) -> Vec<f32> {
        const BLOCK: usize = 4;
        let outputs = self.bias.len();
        let inputs = self.weights.len() / outputs;
        let count = rows.len() / inputs;
        let mut made = Vec::with_capacity(count * outputs);
        for _ in 0..count {
            made.extend_from_slice(&self.bias);
        }
        // Four rows of weights at a time: they stay in the nearest cache while all rows pass.
        for (block, weights) in self.weights.chunks_exact(BLOCK * outputs).enumerate() {
            let (a, rest) = weights.split_at(outputs);
            let (b, rest) = rest.split_at(outputs);
            let (c, d) = rest.split_at(outputs);
            for (row, sums) in rows.chunks_exact(inputs).zip(made.chunks_exact_mut(outputs)) {
                let x = &row[block * BLOCK..(block + 1) * BLOCK];
                let (p, q, r, s) = (x[0], x[1], x[2], x[3]);
                for ((((sum, a), b), c), d) in sums.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    *sum += p * a + q * b + r * c + s * d;
                }
            }
        }
        made
    }
}

/// Scale and shift of a normalization.
pub(super) struct Norm {
    pub(super) scale: Vec<f32>,
    pub(super) shift: Vec<f32>,
}

impl Norm {
    /// Normalizes each row of `rows` to mean 0 and variance 1, then scales and shifts it.
    pub(super) fn apply(&self, rows: &mut [f32]) {
        for row in rows.chunks_exact_mut(self.scale.len()) {
            let count = row.len() as f32;
            let mean = row.iter().sum::<f32>() / count;
            let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / count;
            let by = 1.0 / (variance + 1e-12).sqrt();
            for ((x, scale), shift) in row.iter_mut().zip(&self.scale).zip(&self.shift) {
                *x = (*x - mean) * by * scale + shift;
            }
        }
    }
}

/// Gaussian error linear unit. The error function is approximated to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
pub(super) fn gelu(x: f32) -> f32 {
    let z = f64::from(x.abs()) / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let factors = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let polynomial = factors.iter().fold(0.0, |sum, factor| sum * t + factor) * t;
    let erf = (1.0 - polynomial * (-z * z).exp()).copysign(f64::from(x));
    (f64::from(x) * 0.5 * (1.0 + erf)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_layer_multiplies_and_adds_bias() {
        let layer = Linear::new(&[1.0, 2.0, 3.0, 4.0, 0.0, 1.0, 0.0, -1.0], vec![10.0, 20.0]);
        assert_eq!(layer.of(&[1.0, 1.0, 1.0, 1.0, 0.0, 2.0, 0.0, 3.0]), [20.0, 20.0, 26.0, 19.0]);
    }

    #[test]
    fn gelu_equals_known_values() {
        for (x, expected) in [(0.0, 0.0), (1.0, 0.841_344_7), (-1.0, -0.158_655_26), (3.0, 2.995_95)] {
            assert!((gelu(x) - expected).abs() < 1e-5, "{x}: {}", gelu(x));
        }
    }
}
