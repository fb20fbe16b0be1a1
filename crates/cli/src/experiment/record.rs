//! What is left of an experiment: a table for the terminal and for people, figures for programs.

use std::fmt::Write as _;

use super::definition::{DataFormat, Definition};
use super::machine::Machine;
use super::summary::{Figure, Summary, Verdict};

/// Who measured what, and where.
#[derive(Clone, Debug)]
pub struct Setting {
    pub machine: Machine,
    pub date: String,
    /// The program and the contestants.
    pub versions: Vec<String>,
    /// Contestants that are missing, and why.
    pub absent: Vec<String>,
    pub scale: f64,
}

/// All figures, one line a cell.
pub fn csv(summary: &Summary) -> String {
    let mut text =
        "format,query,contestant,runs,bytes,rows,cpu_s,cpu_s_min,cpu_s_max,wall_s,wall_s_min,wall_s_max,mb_per_s,\
                    cpu_s_per_gb,peak_mb\n"
            .to_owned();
    for (cell, figure) in &summary.figures {
        let (cpu, wall) = (figure.cpu_s, figure.wall_s);
        let peak = figure.peak_bytes.map(|bytes| format!("{:.1}", bytes as f64 / 1e6)).unwrap_or_default();
        let _ = writeln!(
            text,
            "{},{},\"{}\",{},{},{},{:.4},{:.4},{:.4},{:.4},{:.4},{:.4},{:.1},{:.4},{peak}",
            cell.format,
            cell.query,
            cell.contestant,
            figure.runs,
            figure.bytes,
            figure.rows,
            cpu.median,
            cpu.min,
            cpu.max,
            wall.median,
            wall.min,
            wall.max,
            figure.mb_per_s(),
            figure.cpu_s_per_gb().median,
        );
    }
    text
}

/// The whole record as Markdown, which also reads well in a terminal.
pub fn markdown(definition: &Definition, setting: &Setting, summary: &Summary, verdicts: &[Verdict]) -> String {
    let Setting { machine, date, versions, absent, scale } = setting;
    let mut text = format!("# {}\n\n", definition.title);
    let _ = writeln!(
        text,
        "{date}, TPC-H scale {scale}, on {} ({} cores, of which two count {:.2} times as fast as one, {:.0} GB, Linux {}).\n",
        machine.cpu, machine.cores, machine.two_cores, machine.memory_gb, machine.kernel
    );
    let _ = writeln!(text, "{}.\n", versions.join("; "));
    for line in absent {
        let _ = writeln!(text, "Missing: {line}.\n");
    }
    for query in &definition.queries {
        let _ = writeln!(text, "- {}: {}", query.name, query.about);
    }
    text.push_str("\n## Targets\n\n");
    text.push_str(&targets(verdicts));
    for format in &definition.formats {
        if summary.figures.keys().any(|cell| cell.format == *format) {
            let _ = writeln!(text, "\n## {format}: CPU seconds a GB\n");
            text.push_str(&table(definition, *format, summary, &|figure| {
                format!("{:.3}", figure.cpu_s_per_gb().median)
            }));
            let _ = writeln!(text, "\n## {format}: MB/s\n");
            text.push_str(&table(definition, *format, summary, &|figure| format!("{:.0}", figure.mb_per_s())));
        }
    }
    if !summary.failures.is_empty() {
        text.push_str("\n## Failed\n\n");
    }
    for (cell, why) in &summary.failures {
        let why: String = why.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
        let _ = writeln!(text, "- {}, {}, {}: {why}", cell.format, cell.query, cell.contestant);
    }
    if !summary.wrong.is_empty() {
        text.push_str("\n## Wrong answers\n\n");
    }
    for wrong in &summary.wrong {
        let _ = writeln!(text, "- {wrong}");
    }
    text
}

/// Targets, one line each, the missed ones marked.
fn targets(verdicts: &[Verdict]) -> String {
    let mut rows =
        vec![["target", "format", "query", "against", "wanted", "is", "from", "to", ""].map(str::to_owned).to_vec()];
    for verdict in verdicts {
        let number = |value: f64| if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") };
        rows.push(vec![
            verdict.about.clone(),
            verdict.format.to_string(),
            verdict.query.clone(),
            verdict.against.clone(),
            number(verdict.wanted),
            number(verdict.value.median),
            number(verdict.value.min),
            number(verdict.value.max),
            if verdict.met { "met" } else { "MISSED" }.to_owned(),
        ]);
    }
    let missed = verdicts.iter().filter(|verdict| !verdict.met).count();
    format!("{} of {} met.\n\n{}", verdicts.len() - missed, verdicts.len(), aligned(&rows))
}

/// Queries down, contestants across.
fn table(definition: &Definition, format: DataFormat, summary: &Summary, value: &dyn Fn(&Figure) -> String) -> String {
    let contestants: Vec<&str> = definition
        .contestants
        .iter()
        .map(|contestant| contestant.name.as_str())
        .filter(|name| summary.figures.keys().any(|cell| cell.format == format && cell.contestant == *name))
        .collect();
    let mut rows = vec![std::iter::once("").chain(contestants.iter().copied()).map(str::to_owned).collect::<Vec<_>>()];
    for query in &definition.queries {
        let cells =
            contestants.iter().map(|name| summary.figure(format, &query.name, name).map(value).unwrap_or_default());
        let cells: Vec<String> = cells.collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            rows.push(std::iter::once(query.name.clone()).chain(cells).collect());
        }
    }
    aligned(&rows)
}

/// A time in UTC.
pub fn date(time: std::time::SystemTime, form: &str) -> String {
    chrono::DateTime::<chrono::Utc>::from(time).format(form).to_string()
}

/// A table of Markdown whose columns stand below each other.
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
