//! The record of an experiment as a CSV file, and as Markdown for a terminal.

use std::fmt::Write as _;

use super::definition::Definition;
use super::summary::{Figure, Summary, Verdict};
use crate::contestant::DataFormat;
use crate::machine::Machine;
use crate::record::aligned;

/// The machine, programs and versions of a record.
#[derive(Clone, Debug)]
pub struct Setting {
    pub machine: Machine,
    pub date: String,
    /// Versions of the program and the contestants.
    pub versions: Vec<String>,
    /// Contestants that are missing, and why.
    pub absent: Vec<String>,
    pub scale: f64,
}

/// Formats the record: lines with a name and a text, and then one line per cell.
pub fn csv(definition: &Definition, setting: &Setting, summary: &Summary, verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    let mut line_of = |name: &str, line: &str| {
        let line: Vec<&str> = line.split_whitespace().collect();
        let _ = writeln!(text, "# {name}: {}", line.join(" "));
    };
    line_of("title", &definition.title);
    line_of("date", &setting.date);
    line_of("machine", &setting.machine.to_string());
    line_of("versions", &setting.versions.join("; "));
    line_of("scale", &setting.scale.to_string());
    setting.absent.iter().for_each(|line| line_of("missing", line));
    failures(summary).for_each(|line| line_of("failed", &line));
    summary.wrong.iter().for_each(|line| line_of("wrong", line));
    for verdict in verdicts {
        let Verdict { about, format, query, against, value, wanted, met } = verdict;
        let against = if against.is_empty() { "-" } else { against };
        let [wanted, is, from, to] = [*wanted, value.median, value.min, value.max].map(number);
        let met = if *met { "met" } else { "missed" };
        line_of(
            "target",
            &format!("{about}; {format}; {query}; {against}; wanted {wanted}, is {is} ({from} to {to}); {met}"),
        );
    }
    text.push_str(
        "format,query,contestant,runs,bytes,rows,cpu_s,cpu_s_min,cpu_s_max,wall_s,wall_s_min,wall_s_max,mb_per_s,\
         cpu_s_per_gb,peak_mb\n",
    );
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

/// Formats the whole record as Markdown, which is also readable in a terminal.
pub fn markdown(definition: &Definition, setting: &Setting, summary: &Summary, verdicts: &[Verdict]) -> String {
    let Setting { machine, date, versions, absent, scale } = setting;
    let mut text = format!("# {}\n\n", definition.title);
    let _ = writeln!(text, "{date}, TPC-H scale {scale}, on {machine}.\n");
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
    for line in failures(summary) {
        let _ = writeln!(text, "- {line}");
    }
    if !summary.wrong.is_empty() {
        text.push_str("\n## Wrong answers\n\n");
    }
    for wrong in &summary.wrong {
        let _ = writeln!(text, "- {wrong}");
    }
    text
}

/// Cells without figures, and why.
fn failures(summary: &Summary) -> impl Iterator<Item = String> {
    summary.failures.iter().map(|(cell, why)| {
        let why: String = why.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
        format!("{}, {}, {}: {why}", cell.format, cell.query, cell.contestant)
    })
}

/// Formats a number with two decimals below 10, and none above.
fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// Targets, one line each, the missed ones marked.
fn targets(verdicts: &[Verdict]) -> String {
    let mut rows =
        vec![["target", "format", "query", "against", "wanted", "is", "from", "to", ""].map(str::to_owned).to_vec()];
    for verdict in verdicts {
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

/// Formats figures, with queries as rows and contestants as columns.
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
