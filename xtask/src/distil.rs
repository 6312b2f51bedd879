//! `cargo xtask distil`: makes the static token vectors that re-rank search results, from a sentence model.
//! Each token of the model's vocabulary passes through the model alone, as `[CLS] token [SEP]`; its last
//! hidden state is projected onto the principal directions of all tokens and rounded to a signed byte.
//! `crates/garth-engine/data/README.md` names the model and says how to get it.

#[cfg(feature = "distil")]
mod matrix;
#[cfg(feature = "distil")]
mod model;
#[cfg(feature = "distil")]
mod principal;
#[cfg(feature = "distil")]
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

#[cfg(not(feature = "distil"))]
use crate::{cargo, check};

/// Arguments of the command.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Folder with the model: `model.safetensors` and `tokenizer.json`
    model: PathBuf,
    /// File to write (default: crates/garth-engine/data/token-vectors.bin)
    #[arg(long)]
    output: Option<PathBuf>,
}

/// Starts an optimised build of this program that has the feature `distil`: the model takes 2 trillion
/// floating-point operations.
#[cfg(not(feature = "distil"))]
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let mut again = cargo();
    again.args(["run", "--release", "--package", "xtask", "--features", "distil", "--", "distil"]);
    again.arg(std::path::absolute(&options.model)?);
    if let Some(output) = &options.output {
        again.arg("--output").arg(std::path::absolute(output)?);
    }
    check(again.current_dir(root))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the model, computes the vectors and writes the table.
#[cfg(feature = "distil")]
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let path =
        options.output.clone().unwrap_or_else(|| root.join("crates/garth-engine/data/token-vectors.bin"));
    let vocabulary = table::Vocabulary::read(&options.model.join("tokenizer.json"))?;
    let model = model::Model::read(&options.model.join("model.safetensors"))?;
    println!("{} tokens", vocabulary.tokens.len());
    let states = vectors(&model, &vocabulary);
    let vectors = principal::project(states, table::DIMENSIONS);
    let bytes = table::encode(&vocabulary, &vectors);
    std::fs::write(&path, &bytes)?;
    println!("{}: {} bytes, SHA-256 {}", path.display(), bytes.len(), table::sha256(&bytes));
    Ok(ExitCode::SUCCESS)
}

/// Returns the vectors of all tokens, one after the other. The threads share no sum, so that their number
/// changes no bit.
#[cfg(feature = "distil")]
fn vectors(model: &model::Model, vocabulary: &table::Vocabulary) -> Vec<f32> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = vocabulary.tokens.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let shares: Vec<_> = vocabulary
            .tokens
            .chunks(share)
            .map(|tokens| {
                scope.spawn(move || {
                    let batches = tokens.chunks(model::BATCH);
                    batches.flat_map(|batch| model.states(batch.iter().map(|token| token.id))).collect()
                })
            })
            .collect();
        let joined = shares.into_iter().map(|share| share.join().expect("a thread computes without panic"));
        joined.flat_map(|states: Vec<f32>| states).collect()
    })
}
