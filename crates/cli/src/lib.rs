//! The program `pushdowndb`: arguments and output on top of the libraries. [`main`] is the program
//! itself, which `bin/pushdowndb` and the Python package run.

#![forbid(unsafe_code)]

mod access;
mod args;
mod check;
mod cluster;
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
mod sql_server;
mod to_stdout;
mod worker;

use std::ffi::OsString;
use std::io::Write;
use std::time::Duration;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::log::LogFormat;
use crate::notice::Notices;

pub use crate::print::page as profile_page;

/// The stack size of each thread, of which only the used part takes memory. Plans are nested as
/// deeply as the statements, and the engine allows expressions of 400 operators.
const STACK_BYTES: usize = 32 << 20;

/// Disables huge pages, which the allocator requests and the kernel clears as a whole at the first
/// access. Without them TPC-H Q1, Q3 and Q6 over Parquet at scale 0.3 use 14 to 25 % less memory.
fn small_pages() {
    // An error means that the kernel lacks this setting.
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_thp_disable(true);
}

/// Runs the program with these arguments, the first of which is its own name, and returns its exit
/// code. It configures the whole process: its log, its signals and its memory.
pub fn main(arguments: &[OsString]) -> u8 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) if notice::refused_arguments(arguments, &error) => return 2,
        Err(error) => error.exit(),
    };
    small_pages();
    let notices = match &cli.command {
        Some(Command::Serve(args)) => {
            log::start_for_node(args.log.as_deref(), args.log_format);
            Notices::start(args.log_format)
        }
        Some(Command::Worker(args)) => {
            log::start_for_node(args.log.as_deref(), args.log_format);
            Notices::start(args.log_format)
        }
        Some(Command::SqlServer(args)) => {
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
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            notices.error(&anyhow::Error::new(error).context("starting the runtime"));
            return 1;
        }
    };
    let done = match cli.command {
        None => run::sql(&runtime, cli.sql),
        Some(Command::Sql(args)) => run::sql(&runtime, args),
        Some(Command::Serve(args)) => runtime.block_on(serve::serve(args, notices)),
        Some(Command::SqlServer(args)) => runtime.block_on(sql_server::serve(*args, notices)),
        Some(Command::Worker(args)) => runtime.block_on(worker::serve(*args, notices)),
        Some(Command::Check(args)) => runtime.block_on(check::check(args)),
        Some(Command::Health(args)) => health::health(&args),
        Some(Command::Generate { what }) => runtime.block_on(generate::generate(what)),
        Some(Command::Demo(args)) => runtime.block_on(demo::demo(args)),
    };
    // Tasks of a cancelled query end with the process.
    runtime.shutdown_timeout(Duration::from_millis(200));
    let code = match done {
        Ok(()) => 0,
        // The reader of the output has closed it, as `head` does, which is not an error.
        Err(error) if print::is_closed(&error) => 0,
        Err(error) => {
            notices.error(&error);
            exit_code::of(&error)
        }
    };
    let _ = std::io::stdout().flush();
    code
}
