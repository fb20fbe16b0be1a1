//! The program `pushdowndb`: arguments and printing, over the libraries.

#![forbid(unsafe_code)]

mod access;
mod args;
mod check;
mod demo;
mod destination;
mod exit_code;
mod generate;
mod health;
mod interrupt;
mod log;
mod notice;
mod print;
mod profiles;
mod progress;
mod run;
mod serve;
mod session;
mod shell;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::log::LogFormat;
use crate::notice::Notices;

/// Scans allocate and free large buffers all the time. The system's allocator returns them to the
/// kernel and faults them in again, which took a third of the time of a scan of Parquet.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Disables huge pages, which the allocator asks for and the kernel clears as a whole at the first
/// touch. Without them TPC-H Q1, Q3 and Q6 over Parquet at scale 0.3 hold 14 to 25 % less memory.
fn small_pages() {
    // An error means that the kernel has no such setting.
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_thp_disable(true);
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) if notice::refused_arguments(&arguments, &error) => return ExitCode::from(2),
        Err(error) => error.exit(),
    };
    small_pages();
    let notices = match &cli.command {
        Some(Command::Serve(args)) => {
            log::start_for_node(args.log.as_deref(), args.log_format);
            Notices::start(args.log_format)
        }
        _ => {
            log::start_for_client();
            Notices::start(LogFormat::Text)
        }
    };

    // One extra worker keeps network I/O responsive while all others decode. With one per core,
    // TPC-H Q1, Q3 and Q6 on a node of this machine took 1.1 to 1.4 times as long.
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) + 1;
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            notices.error(&anyhow::Error::new(error).context("starting the runtime"));
            return ExitCode::FAILURE;
        }
    };
    let done = match cli.command {
        None => run::sql(&runtime, cli.sql),
        Some(Command::Sql(args)) => run::sql(&runtime, args),
        Some(Command::Serve(args)) => runtime.block_on(serve::serve(args, notices)),
        Some(Command::Check(args)) => runtime.block_on(check::check(args)),
        Some(Command::Health(args)) => health::health(&args),
        Some(Command::Generate { what }) => runtime.block_on(generate::generate(what)),
        Some(Command::Demo(args)) => runtime.block_on(demo::demo(args)),
    };
    // Tasks of a cancelled query end with the process.
    runtime.shutdown_timeout(Duration::from_millis(200));
    let code = match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed it, as `head` does; that is not an error.
        Err(error) if print::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            notices.error(&error);
            ExitCode::from(exit_code::of(&error))
        }
    };
    let _ = std::io::stdout().flush();
    code
}
