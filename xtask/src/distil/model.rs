//! The forward pass of a BERT encoder with three input tokens, which is all that the distillation needs.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::matrix::{Linear, Norm, gelu};
use super::table::sha256;

/// Hash of the weights that the table was made of: those of `sentence-transformers/all-MiniLM-L6-v2`.
const SHA256: &str = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db";
/// Tokens that pass through the model together.
pub(super) const BATCH: usize = 64;
/// Length of a hidden state.
pub(super) const WIDTH: usize = 384;
const LAYERS: usize = 6;
const HEADS: usize = 12;
const HEAD: usize = WIDTH / HEADS;
/// Inputs of a pass: `[CLS]`, the token, `[SEP]`.
const INPUTS: usize = 3;
const CLS: usize = 101;
const SEP: usize = 102;

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attended: Linear,
    attended_norm: Norm,
    inner: Linear,
    outer: Linear,
    outer_norm: Norm,
}

/// Weights of the model.
pub(super) struct Model {
    words: Vec<f32>,
    /// Position and type, added to the vectors of the words.
    places: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
}

impl Model {
    /// Reads the weights. Fails if they are not those that the data's README names.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let hash = sha256(&bytes);
        ensure!(hash == SHA256, "{}: SHA-256 is {hash}, expected {SHA256}", path.display());
        let file = SafeTensors::parse(&bytes)?;
        let mut places = file.floats("embeddings.position_embeddings.weight")?;
        places.truncate(INPUTS * WIDTH);
        let kind = file.floats("embeddings.token_type_embeddings.weight")?;
        for place in places.chunks_exact_mut(WIDTH) {
            place.iter_mut().zip(&kind).for_each(|(x, kind)| *x += kind);
        }
        let layer = |number: usize| {
            let name = |part: &str| format!("encoder.layer.{number}.{part}");
            Ok(Layer {
                query: file.linear(&name("attention.self.query"))?,
                key: file.linear(&name("attention.self.key"))?,
                value: file.linear(&name("attention.self.value"))?,
                attended: file.linear(&name("attention.output.dense"))?,
                attended_norm: file.norm(&name("attention.output.LayerNorm"))?,
                inner: file.linear(&name("intermediate.dense"))?,
                outer: file.linear(&name("output.dense"))?,
                outer_norm: file.norm(&name("output.LayerNorm"))?,
            })
        };
        Ok(Self {
            words: file.floats("embeddings.word_embeddings.weight")?,
            places,
            norm: file.norm("embeddings.LayerNorm")?,
            layers: (0..LAYERS).map(layer).collect::<Result<_>>()?,
        })
    }

    /// Returns the last hidden states of tokens, each between `[CLS]` and `[SEP]`, one after the other.
    pub(super) fn states(&self, ids: impl Iterator<Item = usize>) -> Vec<f32> {
        let mut rows = Vec::new();
        for id in ids {
            for (input, place) in [CLS, id, SEP].into_iter().zip(self.places.chunks_exact(WIDTH)) {
                let word = &self.words[input * WIDTH..(input + 1) * WIDTH];
                rows.extend(word.iter().zip(place).map(|(word, place)| word + place));
            }
        }
        self.norm.apply(&mut rows);
        for layer in &self.layers {
            layer.apply(&mut rows);
        }
        rows.chunks_exact(INPUTS * WIDTH).flat_map(|pass| pass[WIDTH..2 * WIDTH].iter().copied()).collect()
    }
}

impl Layer {
    fn apply(&self, rows: &mut [f32]) {
        let (query, key, value) = (self.query.of(rows), self.key.of(rows), self.value.of(rows));
        let mut mixed = vec![0.0; rows.len()];
        for start in (0..rows.len()).step_by(INPUTS * WIDTH) {
            let pass = start..start + INPUTS * WIDTH;
            attend(&query[pass.clone()], &key[pass.clone()], &value[pass.clone()], &mut mixed[pass]);
        }
        add(rows, &self.attended.of(&mixed));
        self.attended_norm.apply(rows);
        let mut inner = self.inner.of(rows);
        inner.iter_mut().for_each(|x| *x = gelu(*x));
        add(rows, &self.outer.of(&inner));
        self.outer_norm.apply(rows);
    }
}

fn add(rows: &mut [f32], others: &[f32]) {
    rows.iter_mut().zip(others).for_each(|(x, other)| *x += other);
}

/// Mixes the values of one pass by the similarity of queries and keys.
fn attend(query: &[f32], key: &[f32], value: &[f32], mixed: &mut [f32]) {
    for head in 0..HEADS {
        let part = |input: usize| -> Range<usize> {
            let start = input * WIDTH + head * HEAD;
            start..start + HEAD
        };
        for to in 0..INPUTS {
            let mut shares = [0.0_f32; INPUTS];
            for (from, share) in shares.iter_mut().enumerate() {
                let products = query[part(to)].iter().zip(&key[part(from)]).map(|(q, k)| q * k);
                *share = products.sum::<f32>() / (HEAD as f32).sqrt();
            }
            // Less the largest, so that no power overflows.
            let most = shares.into_iter().fold(f32::MIN, f32::max);
            shares = shares.map(|share| (share - most).exp());
            let total: f32 = shares.iter().sum();
            for (from, share) in shares.into_iter().enumerate() {
                let values = mixed[part(to)].iter_mut().zip(&value[part(from)]);
                values.for_each(|(mixed, value)| *mixed += share / total * value);
            }
        }
    }
}

/// File of named tensors: the length of its header, the header in JSON, the numbers.
struct SafeTensors<'a> {
    header: HashMap<String, Value>,
    data: &'a [u8],
}

impl<'a> SafeTensors<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let (length, rest) = bytes.split_first_chunk::<8>().context("the file has no header")?;
        let length = usize::try_from(u64::from_le_bytes(*length))?;
        let (header, data) = rest.split_at_checked(length).context("the header is cut off")?;
        Ok(Self { header: serde_json::from_slice(header)?, data })
    }

    fn floats(&self, name: &str) -> Result<Vec<f32>> {
        let tensor = self.header.get(name).with_context(|| format!("the model has no {name}"))?;
        ensure!(tensor["dtype"] == "F32", "{name} is {}, not F32", tensor["dtype"]);
        let at = |end: usize| tensor["data_offsets"][end].as_u64().map(|at| at as usize);
        let range = at(0).zip(at(1)).with_context(|| format!("{name} has no offsets"))?;
        let bytes = self.data.get(range.0..range.1).with_context(|| format!("{name} is cut off"))?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    fn linear(&self, name: &str) -> Result<Linear> {
        Ok(Linear::new(&self.floats(&format!("{name}.weight"))?, self.floats(&format!("{name}.bias"))?))
    }

    fn norm(&self, name: &str) -> Result<Norm> {
        let (scale, shift) = (self.floats(&format!("{name}.weight"))?, self.floats(&format!("{name}.bias"))?);
        Ok(Norm { scale, shift })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_prefers_the_most_similar_key() {
        let mut query = vec![0.0; INPUTS * WIDTH];
        query[..HEAD].fill(4.0);
        let mut value = vec![0.0; INPUTS * WIDTH];
        value[0] = 1.0;
        let mut mixed = vec![0.0; INPUTS * WIDTH];
        attend(&query, &query, &value, &mut mixed);
        assert!(mixed[0] > 0.999, "{}", mixed[0]);
        // The other inputs are alike to all, so that each value counts a third.
        assert!((mixed[WIDTH] - 1.0 / 3.0).abs() < 1e-6, "{}", mixed[WIDTH]);
    }
}
