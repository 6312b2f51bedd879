//! Preloaded libraries that replace the clock, as libfaketime does. The program's allocator replaces that of
//! the system, and both are used before `main`.

use std::process::Command;

use super::garth::{Garth, bare, finish, text, utf8};

/// A replacement for the clock of the system, which it looks up by name at its first use. The lookup
/// allocates, and a failed one leaves an error message to free.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
static int (*real)(clockid_t, struct timespec *);
static void find(void) {
    dlsym(RTLD_NEXT, "no_such_function");
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    dlsym(RTLD_NEXT, "no_such_function");
}
__attribute__((constructor)) static void start(void) { find(); }
int clock_gettime(clockid_t id, struct timespec *time) {
    if (!real) find();
    return real ? real(id, time) : -1;
}
"#;

#[test]
fn starts_under_a_preloaded_clock() {
    let garth = Garth::unmade();
    let (source, library) = (garth.beside("clock.c"), garth.beside("clock.so"));
    std::fs::write(&source, CLOCK).unwrap();
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o", utf8(&library), utf8(&source), "-ldl"]).output();
    let built = built.expect("cc, a C compiler: install gcc");
    assert!(built.status.success(), "{}", text(&built.stderr));
    let mut command = bare(&["--version"]);
    command.env("LD_PRELOAD", &library);
    let output = finish(command, b"");
    assert!(output.status.success(), "{:?} {}", output.status, text(&output.stderr));
    assert!(text(&output.stdout).starts_with("garth "), "{}", text(&output.stdout));
}
