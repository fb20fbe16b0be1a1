//! The program `pushdowndb`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Scans allocate and free large buffers all the time. The system's allocator returns them to the
/// kernel each time and causes page faults when they are allocated again, which took a third of the
/// time of a scan of Parquet.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    ExitCode::from(pushdowndb::main(&arguments))
}
