//! Progress bars on stderr: only on terminals, and for queries only once they take long.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pushdowndb_engine::Progress;

use crate::print::units;

/// A query that ends sooner shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// The interval between updates of a bar.
pub const TICK: Duration = Duration::from_millis(100);

/// The bar of one query.
pub struct QueryBar {
    started: Instant,
    enabled: bool,
    bar: Option<ProgressBar>,
}

impl QueryBar {
    /// Creates a bar that appears if the query takes long.
    pub fn new() -> Self {
        Self { started: Instant::now(), enabled: stderr().is_terminal(), bar: None }
    }

    /// Shows the progress of a query; `None` while it is planned.
    pub fn tick(&mut self, progress: Option<&Progress>) {
        if !self.enabled || self.started.elapsed() < PATIENCE {
            return;
        }
        let elapsed = self.started.elapsed();
        let bar = self.bar.get_or_insert_with(|| {
            bar("{elapsed_precise} {bar:40.cyan/dim} {percent:>3}% {msg}").with_elapsed(elapsed)
        });
        let (done, total) = progress.map(Progress::bytes).unwrap_or_default();
        let (splits_done, splits) = progress.map(Progress::splits).unwrap_or_default();
        if total == 0 {
            bar.set_message(if progress.is_some() { "running" } else { "planning" });
            return;
        }
        bar.set_length(total);
        bar.set_position(done.min(total));
        // Work after the last byte may take longer than reading.
        bar.set_message(match done >= total {
            true => format!("{} read, computing", units::bytes(total)),
            false => format!("{} of {}, {splits_done} of {splits} splits", units::bytes(done), units::bytes(total)),
        });
    }

    /// Removes the bar, so that rows can be printed in its place.
    pub fn clear(&mut self) {
        self.enabled = false;
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for QueryBar {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Creates a bar on stderr, which is hidden if stderr is not a terminal.
pub fn bar(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(style.progress_chars("━╸─"));
    bar
}
