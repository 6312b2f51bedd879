//! The command line of garth.

fn main() {}
