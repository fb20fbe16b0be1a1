//! `check`: verifies the checksums of a store that no node is serving.

use std::io::{IsTerminal, stderr};

use anyhow::{Context, Result, bail};
use pushdowndb_node::{CheckProgress, check as check_store};

use crate::args::CheckArgs;
use crate::print;
use crate::print::units;
use crate::progress::bar;

/// Checks the store. Damage is returned as an error.
pub async fn check(args: CheckArgs) -> Result<()> {
    let bar = stderr().is_terminal().then(|| bar("{elapsed_precise} {bar:40.cyan/dim} {percent:>3}% {msg}"));
    let shown = bar.clone();
    let mut watch = move |progress: CheckProgress| {
        if let Some(bar) = &shown {
            bar.set_length(progress.all_objects);
            bar.set_position(progress.objects);
            let (objects, all) = (progress.objects, progress.all_objects);
            bar.set_message(format!("{objects} of {all} objects, {}", units::bytes(progress.bytes)));
        }
    };
    let checked = tokio::task::spawn_blocking(move || check_store(&args.store, &mut watch)).await;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let report = checked.context("the check did not end")??;
    for (place, what) in &report.damaged {
        print::print_line(format_args!("damaged: {place}: {what}"))?;
    }
    let mut summary = format!("{} objects, {} read", report.objects, units::bytes(report.bytes));
    if report.without_checksums > 0 {
        summary.push_str(&format!(", {} of them have no checksums yet", report.without_checksums));
    }
    match report.damaged.len() {
        0 => print::print_line(format_args!("{summary}: no damage"))?,
        damaged => bail!("{summary}: {damaged} damaged"),
    }
    Ok(())
}
