//! Common parts of records: dates, tables, pictures.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use crate::args::PlotArgs;
use crate::machine::Machine;

/// The script that draws pictures.
const PLOT: &str = include_str!("../../../experiments/plot.py");

/// Formats a time in UTC.
pub fn date(time: SystemTime, form: &str) -> String {
    chrono::DateTime::<chrono::Utc>::from(time).format(form).to_string()
}

/// Writes `text` to `folder` as today's record of an experiment of this `kind` on `machine`.
pub fn write_csv(folder: &Path, machine: &Machine, kind: &str, text: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let record = folder.join(format!("{}-{}-{kind}.csv", date(SystemTime::now(), "%F"), machine.slug()));
    fs::write(&record, text).with_context(|| record.display().to_string())?;
    eprintln!("written to {}", record.display());
    Ok(())
}

/// Formats a Markdown table with aligned columns.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .map(|width| width.max(3))
        .collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "| {cell:<width$} ");
        }
        text.push_str("|\n");
        if index == 0 {
            for width in &widths {
                let _ = write!(text, "| {} ", "-".repeat(*width));
            }
            text.push_str("|\n");
        }
    }
    text
}

/// Draws each record as a picture. The repository contains no pictures, since a record has all the
/// data.
pub fn plot(args: &PlotArgs) -> Result<()> {
    for record in &args.records {
        let beside = record.with_extension("svg");
        let picture = match (&args.into, beside.file_name()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => beside,
        };
        draw(record, &picture).with_context(|| record.display().to_string())?;
        eprintln!("written to {}", picture.display());
    }
    Ok(())
}

fn draw(record: &Path, picture: &Path) -> Result<()> {
    record.metadata()?;
    let mut python = Command::new("python3");
    let output = python.arg("-c").arg(PLOT).arg(record).arg(picture).stdin(Stdio::null()).output();
    let output = output.context("pictures need Python with matplotlib")?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("no picture, which needs Python with matplotlib: {}", stderr.lines().last().unwrap_or_default());
    }
    Ok(())
}
