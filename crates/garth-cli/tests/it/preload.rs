//! Libraries that are loaded before the program, as libfaketime is, and take the place of the clock: the
//! program's allocator takes the place of the system's, and the two meet before `main`.

use std::process::Command;

use super::garth::{Garth, bare, finish, text, utf8};

/// A clock in place of the system's, which looks that up by name when it is asked first. Looking up
/// allocates, and what is not found leaves an error message to free.
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
