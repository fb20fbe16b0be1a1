//! The fuzzer for the target named in `TARGET`, with the arguments of libFuzzer.

#![no_main]

use std::panic;
use std::process;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use pushdowndb_fuzz::Target;

static TARGET: OnceLock<Target> = OnceLock::new();

fn choose() {
    let name = std::env::var("TARGET").unwrap_or_default();
    let Some(target) = pushdowndb_fuzz::target(&name) else {
        let names: Vec<_> = pushdowndb_fuzz::TARGETS.iter().map(|target| target.name).collect();
        eprintln!("set TARGET to one of {}, not '{name}'", names.join(", "));
        process::exit(2);
    };
    TARGET.get_or_init(|| target);
    // The Parquet scan catches panics of its library, so they are not printed. Others end the
    // process anyway.
    if name == "parquet" {
        panic::set_hook(Box::new(|_| {}));
    }
}

fuzz_target!(init: choose(), |data: &[u8]| {
    if let Some(target) = TARGET.get() {
        (target.run)(data);
    }
});
