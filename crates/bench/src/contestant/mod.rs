//! Contestants: the measured programs and libraries, each measurement in a process of its own.
//!
//! ```text
//! kind      kinds of contestants, and formats of rows
//! task      the input and output of a contestant, on stdin and stdout
//! measure   CPU and wall time of a piece of work
//! process   cores, CPU time, peaks of memory
//! local     contestants over a local file: scan library, engine, DataFusion, inflate
//! remote    contestants of this program over tables in a bucket: engine, DataFusion
//! plain     DataFusion with its own readers
//! node      servers of the measured program: how they are started and reached
//! server    contestants that are servers: the node, MinIO
//! answer    results, and whether contestants agree
//! ```

pub mod answer;
mod kind;
mod local;
mod measure;
pub mod node;
mod plain;
pub mod process;
mod remote;
pub mod server;
pub mod task;

use std::io;

use anyhow::{Context, Result};

pub use kind::{DataFormat, Kind};
pub use plain::plain;

use task::Work;

/// Runs the task on stdin and writes the measurement to stdout.
pub async fn run() -> Result<()> {
    let work: Work = serde_json::from_reader(io::stdin().lock()).context("reading the task")?;
    let measured = match work {
        Work::Plan(task) => {
            let plan = remote::plan(&task).await?;
            serde_json::to_writer(io::stdout().lock(), &plan)?;
            return Ok(());
        }
        Work::Local(task) => local::run(&task).await,
        Work::Remote(task) => remote::run(&task).await,
    }?;
    serde_json::to_writer(io::stdout().lock(), &measured)?;
    Ok(())
}

/// Disables huge pages, as `pushdowndb` does. Only in a contestant's own process, since child
/// processes inherit the setting.
pub fn small_pages() {
    // An error means that the kernel lacks this setting.
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_thp_disable(true);
}
