//! A tenure that can't kill.

use super::{Bench, Process};
use std::process::Stdio;

/// A process that hangs in the kernel can't be killed. None can be made to everywhere, so it is tenure that can't kill here: a library
/// before the system's own swallows its SIGKILL, and those of the watchdogs if they are to be toothless, too.
const TOOTHLESS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int is_tenure(void) {
    char name[32] = "";
    int file = open("/proc/self/comm", O_RDONLY);
    if (file < 0 || read(file, name, sizeof name - 1) < 0) return 0;
    close(file);
    return getenv("TOOTHLESS_DOGS") ? strncmp(name, "tenure", 6) == 0 : strcmp(name, "tenure\n") == 0;
}
int kill(pid_t pid, int signal) {
    if (signal == SIGKILL && is_tenure()) return 0;
    return ((int (*)(pid_t, int))dlsym(RTLD_NEXT, "kill"))(pid, signal);
}
int killpg(pid_t group, int signal) {
    if (signal == SIGKILL && is_tenure()) return 0;
    return ((int (*)(pid_t, int))dlsym(RTLD_NEXT, "killpg"))(group, signal);
}
"#;

/// Starts it; what it says goes into the file `errors`.
pub fn start(bench: &Bench, arguments: &[&str], with_watchdogs: bool) -> Process {
    bench.write("toothless.c", TOOTHLESS);
    let mut compiler = std::process::Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-o", "toothless.so", "toothless.c", "-ldl"])
        .current_dir(bench.path("."));
    assert!(compiler.status().unwrap().success(), "a C compiler, which SQLite needs as well");
    let mut command = bench.tenure(arguments);
    command.env("LD_PRELOAD", bench.path("toothless.so"));
    if with_watchdogs {
        command.env("TOOTHLESS_DOGS", "1");
    }
    let errors = std::fs::File::create(bench.path("errors")).unwrap();
    command.stdout(Stdio::null()).stderr(errors).spawn().unwrap().into()
}
