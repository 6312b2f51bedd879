//! Writes the table of merges that the crate embeds, from the published tokens.
//!
//! `cargo run -p garth-tokens --example make_table crates/garth-tokens/data/o200k_base.pairs`

use std::collections::HashMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::DeflateEncoder;

fn main() -> std::io::Result<()> {
    let path = std::env::args_os().nth(1).expect("the path of the table is given");
    let published = &bpe_openai::o200k_base().bpe;
    let tokens: Vec<&[u8]> = (0..published.num_tokens() as u32).map(|id| published.token_bytes(id)).collect();
    let ids: HashMap<&[u8], u32> = tokens.iter().copied().zip(0..).collect();
    let (single, merged) = tokens.split_at(256);
    let halves: Vec<(u32, u32)> = merged.iter().map(|token| halves(token, &ids)).collect();

    let mut table: Vec<u8> = single.iter().map(|token| token[0]).collect();
    for plane in 0..3 {
        table.extend(halves.iter().map(|(left, _)| left.to_le_bytes()[plane]));
    }
    for plane in 0..3 {
        table.extend(halves.iter().map(|(_, right)| right.to_le_bytes()[plane]));
    }
    let mut file = DeflateEncoder::new(std::fs::File::create(path)?, Compression::best());
    file.write_all(&table)?;
    file.finish()?;
    Ok(())
}

/// Returns the two tokens that a token is merged from: those that remain if all merges but the last are done.
fn halves(token: &[u8], ids: &HashMap<&[u8], u32>) -> (u32, u32) {
    let mut ends: Vec<usize> = (0..=token.len()).collect();
    while ends.len() > 3 {
        let merge = |at: usize| ids.get(&token[ends[at - 1]..ends[at + 1]]);
        let first = (1..ends.len() - 1).filter(|at| merge(*at).is_some()).min_by_key(|at| merge(*at));
        ends.remove(first.expect("a token results from merges"));
    }
    (ids[&token[..ends[1]]], ids[&token[ends[1]..]])
}
