//! The other process of the proofs that need one: does on an account what its arguments and standard input say.

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    Ok(garth_testkit::proof::worker::work(&arguments)?)
}
