//! Chores of the project: `cargo xtask tidy`, `prove`, `bench`.

fn main() {}
