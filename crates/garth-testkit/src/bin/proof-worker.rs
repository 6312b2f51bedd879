//! Second process of proofs: runs the commands of its arguments and standard input.

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    Ok(garth_testkit::worker::work(&arguments)?)
}
