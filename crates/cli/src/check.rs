//! `check`: reads a store that nobody serves and compares it with its checksums.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use pushdowndb_node::{CheckProgress, check as check_store};

use crate::print;
use crate::print::units;
use crate::progress::bar;

/// Checking a store.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pushdowndb check --store /var/lib/pushdowndb/store

Reads every object, every part of an upload under way and the index, compares them with the
checksums that were made when they were stored, and changes nothing. Objects that a version without
checksums stored are compared with their ETags until a node has made some. Damage goes to stdout, a
line each: what is damaged (s3://bucket/key), and which bytes of it.

The node must be stopped; while it runs it checks itself, see serve --scrub-rate. What to do about
damage is in docs/operations.md. Exit codes: 0 no damage, 1 damage, 2 no store of this version, or
in use.")]
pub struct CheckArgs {
    /// The folder of the store, as it is given to serve
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
}

/// Checks it; damage is an error.
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
        print::say(format_args!("damaged: {place}: {what}"))?;
    }
    let mut summary = format!("{} objects, {} read", report.objects, units::bytes(report.bytes));
    if report.without_checksums > 0 {
        summary.push_str(&format!(", {} of them have no checksums yet", report.without_checksums));
    }
    match report.damaged.len() {
        0 => print::say(format_args!("{summary}: no damage"))?,
        damaged => bail!("{summary}: {damaged} damaged"),
    }
    Ok(())
}

/// A number of bytes, with K, M or G for powers of 1024.
pub fn size(text: &str) -> Result<u64, String> {
    let expected = || format!("'{text}' is no number of bytes, such as 0, 16M or 1G");
    let (number, shift) = match text.char_indices().last() {
        Some((at, unit)) if unit.is_ascii_alphabetic() => {
            let shift = "KMG".find(unit.to_ascii_uppercase()).ok_or_else(expected)?;
            (text.get(..at).unwrap_or_default(), 10 * (shift as u32 + 1))
        }
        _ => (text, 0),
    };
    let number: u64 = number.parse().map_err(|_| expected())?;
    number.checked_mul(1 << shift).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("0", 0), ("16M", 16 << 20), ("3k", 3 << 10), ("2G", 2 << 30), ("77", 77)] {
            assert_eq!(size(text), Ok(bytes));
        }
        assert!(size("99999999999G").is_err() && size("").is_err() && size("1 M").is_err());
    }
}
