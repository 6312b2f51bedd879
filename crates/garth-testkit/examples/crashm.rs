//! m
use garth_testkit::crash::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let f: Option<&'static str> =
        if a[2] == "none" { None } else { Some(Box::leak(a[2].clone().into_boxed_str())) };
    let w = if a.len() > 5 { Writers::Batches(a[5].clone().into()) } else { Writers::Http };
    let c = Config {
        seed: a[4].parse().unwrap(),
        rounds: a[3].parse().unwrap(),
        garth: std::env::var("GARTH_BIN").unwrap().into(),
        writers: w,
        fault: f,
    };
    match if a[1] == "kill" { kill_rounds(&c) } else { cut_rounds(&c) } {
        Ok(r) => println!("OK {r}"),
        Err(v) => println!("VIOLATION {v}"),
    }
}
