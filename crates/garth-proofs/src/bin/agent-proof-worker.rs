//! Second process of proofs: runs the command of its arguments.

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    Ok(garth_proofs::worker::work(&arguments)?)
}
