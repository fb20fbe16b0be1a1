//! The program `pushdowndb`: arguments and printing. What it can do, the libraries can do.

#![forbid(unsafe_code)]

mod access;
mod args;
mod check;
mod demo;
mod destination;
mod exit_code;
mod experiment;
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
use tokio::runtime::Runtime;

use crate::args::{Cli, Command, LogFormat};
use crate::experiment::args::Experiment;
use crate::notice::Notices;

/// Scans allocate and free large buffers all the time. The system's allocator gives them back to the kernel and faults
/// them in again, which took a third of the time of a scan of Parquet.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Takes memory from the kernel page by page. The allocator asks for huge pages, which the kernel clears whole when the
/// first byte is touched: scans hold 12 to 28 MB less without, and the first query takes up to a quarter less CPU time.
fn small_pages() {
    // Where the kernel does not know of this, nothing is lost but that.
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
    // Processes that are started take it over: contestants of an experiment decide for themselves.
    if !matches!(&cli.command, Some(Command::Experiment { what }) if !matches!(what, Experiment::Contestant)) {
        small_pages();
    }
    let notices = match &cli.command {
        Some(Command::Serve(args)) => {
            log::of_a_node(args.log.as_deref(), args.log_format);
            Notices::start(args.log_format)
        }
        _ => {
            log::of_a_client();
            Notices::start(LogFormat::Text)
        }
    };

    // A thread that decodes does not look at what came in: one more than there are cores does, so that storage has its next
    // split while the engine reads others itself.
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) + 1;
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            notices.error(&anyhow::Error::new(error).context("starting the runtime"));
            return ExitCode::FAILURE;
        }
    };
    let done = match cli.command {
        None => sql(&runtime, cli.sql),
        Some(Command::Sql(args)) => sql(&runtime, args),
        Some(Command::Serve(args)) => runtime.block_on(serve::serve(args, notices)),
        Some(Command::Check(args)) => runtime.block_on(check::check(args)),
        Some(Command::Health(args)) => health::health(&args),
        Some(Command::Generate { what }) => runtime.block_on(generate::generate(what)),
        Some(Command::Demo(args)) => runtime.block_on(demo::demo(args)),
        Some(Command::Experiment { what }) => runtime.block_on(experiment::experiment(what)),
    };
    // Whatever a cancelled query left running ends with the process.
    runtime.shutdown_timeout(Duration::from_millis(200));
    let code = match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough, as `head` does: nothing went wrong.
        Err(error) if print::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            notices.error(&error);
            ExitCode::from(exit_code::of(&error))
        }
    };
    let _ = std::io::stdout().flush();
    code
}

fn sql(runtime: &Runtime, args: args::SqlArgs) -> anyhow::Result<()> {
    if args.scripts.0.is_empty() { shell::shell(runtime, args) } else { on_a_worker(runtime, run::scripts(args)) }
}

/// Does the work on a thread of the runtime, not on this one: what it starts then has cores to itself, and this thread waits.
fn on_a_worker<T: Send + 'static>(runtime: &Runtime, work: impl Future<Output = T> + Send + 'static) -> T {
    match runtime.block_on(runtime.spawn(work)) {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
