//! Tables that compare the measurements with Databend's, and the record.

use std::fmt::Write as _;

use super::contestants::Contestant;
use super::queries::{QUERIES, Query};
use super::results::{Cell, Results};
use crate::machine::Machine;
use crate::record::aligned;
use crate::spread::Spread;

/// The circumstances of a run.
#[derive(Clone, Debug)]
pub struct Setting {
    pub machine: Machine,
    pub date: String,
    pub versions: Vec<String>,
    pub scale: f64,
    pub threads: usize,
    /// Where data was spilled to.
    pub place: String,
    /// Contestants that were left out, and why.
    pub absent: Vec<String>,
}

/// A row of a table.
struct Metric {
    name: &'static str,
    /// Databend's published values for the first query: before and after.
    databend: Option<(f64, f64)>,
    of: fn(&Cell) -> Option<Spread>,
    /// The number of decimals.
    digits: usize,
}

const METRICS: [Metric; 7] = [
    Metric {
        name: "execution time, s",
        databend: Some((124.6, 60.2)),
        of: |cell| cell.figure(|measured| Some(measured.wall_s)),
        digits: 2,
    },
    Metric {
        name: "CPU time, s",
        databend: Some((51.68, 25.60)),
        of: |cell| cell.figure(|measured| Some(measured.cpu_s)),
        digits: 2,
    },
    Metric {
        name: "wait time, s",
        databend: Some((201.06, 67.79)),
        of: |cell| cell.spilled(|spilled| spilled.wait_s),
        digits: 2,
    },
    Metric {
        name: "spilled, MB",
        databend: Some((2.90 * 1_073.741_824, 1.21 * 1_073.741_824)),
        of: |cell| cell.spilled(|spilled| spilled.written_bytes as f64 / 1e6),
        digits: 1,
    },
    Metric {
        name: "read again, MB",
        databend: None,
        of: |cell| cell.spilled(|spilled| spilled.read_bytes as f64 / 1e6),
        digits: 1,
    },
    Metric {
        name: "spill operations",
        databend: Some((965.0, 411.0)),
        of: |cell| cell.spilled(|spilled| spilled.operations() as f64),
        digits: 0,
    },
    Metric {
        name: "of these LISTs",
        databend: None,
        of: |cell| cell.spilled(|spilled| spilled.lists as f64),
        digits: 0,
    },
];

/// Formats the tables of all queries; with `markdown`, as a section of a document.
pub fn tables(setting: &Setting, results: &Results, markdown: bool) -> String {
    let mut text = String::new();
    let Setting { machine, date, versions, scale, threads, place, absent } = setting;
    let _ = writeln!(text, "Spilled to {place}; TPC-H scale {scale}, {threads} threads, {date}, {machine}.");
    let _ = writeln!(text, "{}.", versions.join("; "));
    for line in absent {
        let _ = writeln!(text, "Left out: {line}.");
    }
    for query in &QUERIES {
        let cells: Vec<&Cell> = results.cells.iter().filter(|cell| cell.query.name == query.name).collect();
        let Some(first) = cells.first() else { continue };
        let memory = first.memory as f64 / 1e6;
        let memory = if memory < 10.0 { format!("{memory:.1}") } else { format!("{memory:.0}") };
        match markdown {
            true => {
                let _ = writeln!(text, "\n`{}`, {} with {memory} MB:\n", query.name, query.about);
                let _ = writeln!(text, "```sql\n{}\n```\n", query.sql);
            }
            false => {
                let _ = writeln!(text, "\n{}: {} with {memory} MB\n{}\n", query.name, query.about, query.sql);
            }
        }
        text.push_str(&table(query, &cells));
        for cell in cells {
            if let Some(why) = &cell.failed {
                let why: String = why.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect();
                let _ = writeln!(text, "\n{} failed: {why}", cell.contestant.name());
            }
        }
    }
    text
}

/// Formats a table with metrics as rows; its columns are Databend's values, the contestants, and
/// the ratios to `ours`.
fn table(query: &Query, cells: &[&Cell]) -> String {
    let is_seed = query.name == QUERIES[0].name;
    let ours = cells.iter().find(|cell| cell.contestant == Contestant::Ours);
    let others = || {
        let rivals = [Contestant::Before, Contestant::DataFusion];
        cells.iter().filter(move |cell| ours.is_some() && rivals.contains(&cell.contestant))
    };
    let mut head = vec![String::new()];
    if is_seed {
        head.extend(["Databend before", "after", "ratio"].map(str::to_owned));
    }
    head.extend(cells.iter().map(|cell| cell.contestant.name().to_owned()));
    head.extend(others().map(|cell| format!("{} ÷ ours", cell.contestant.name())));
    let mut rows = vec![head];
    for metric in &METRICS {
        let shown = |value: f64| format!("{value:.*}", metric.digits);
        let mut row = vec![metric.name.to_owned()];
        if is_seed {
            match metric.databend {
                Some((before, after)) => row.extend([shown(before), shown(after), format!("{:.1}", before / after)]),
                None => row.extend(std::iter::repeat_n(String::new(), 3)),
            }
        }
        row.extend(cells.iter().map(|cell| (metric.of)(cell).map(|value| shown(value.median)).unwrap_or_default()));
        let own = ours.and_then(|cell| (metric.of)(cell));
        row.extend(others().map(|cell| ratio((metric.of)(cell), own)));
        rows.push(row);
    }
    aligned(&rows)
}

/// The ratio of two medians; empty if one is missing or both are 0.
fn ratio(value: Option<Spread>, own: Option<Spread>) -> String {
    match value.zip(own) {
        Some((value, own)) if own.median > 0.0 => format!("{:.1}", value.median / own.median),
        Some((value, _)) if value.median > 0.0 => "∞".to_owned(),
        _ => String::new(),
    }
}

/// Formats the record: lines with a name and a text, and then one line per cell.
pub fn csv(setting: &Setting, results: &Results) -> String {
    let mut text = String::new();
    let mut about = |name: &str, line: &str| {
        let _ = writeln!(text, "# {name}: {}", line.split_whitespace().collect::<Vec<_>>().join(" "));
    };
    about("title", "Sorts, aggregates and joins larger than memory");
    about("date", &setting.date);
    about("machine", &setting.machine.to_string());
    about("versions", &setting.versions.join("; "));
    about("scale", &setting.scale.to_string());
    about("threads", &setting.threads.to_string());
    about("place", &setting.place);
    setting.absent.iter().for_each(|line| about("missing", line));
    for cell in &results.cells {
        if let Some(why) = &cell.failed {
            about("failed", &format!("{}, {}: {why}", cell.query.name, cell.contestant.name()));
        }
    }
    results.wrong().iter().for_each(|line| about("wrong", line));
    text.push_str(
        "query,contestant,memory,runs,rows,wall_s,wall_s_min,wall_s_max,cpu_s,cpu_s_min,cpu_s_max,wait_s,\
         written_bytes,read_bytes,puts,gets,deletes,lists,operations\n",
    );
    for cell in results.cells.iter().filter(|cell| !cell.runs.is_empty()) {
        let rows = cell.runs.first().map(|run| run.answer.rows).unwrap_or_default();
        let _ =
            write!(text, "{},{},{},{},{rows}", cell.query.name, cell.contestant.name(), cell.memory, cell.runs.len());
        for spread in [cell.figure(|run| Some(run.wall_s)), cell.figure(|run| Some(run.cpu_s))] {
            let Spread { median, min, max } = spread.unwrap_or(Spread::exact(f64::NAN));
            let _ = write!(text, ",{median:.4},{min:.4},{max:.4}");
        }
        let wait = cell.spilled(|spilled| spilled.wait_s).map(|wait| format!("{:.4}", wait.median));
        let _ = write!(text, ",{}", wait.unwrap_or_default());
        let counts = [
            cell.spilled(|spilled| spilled.written_bytes as f64),
            cell.spilled(|spilled| spilled.read_bytes as f64),
            cell.spilled(|spilled| spilled.puts as f64),
            cell.spilled(|spilled| spilled.gets as f64),
            cell.spilled(|spilled| spilled.deletes as f64),
            cell.spilled(|spilled| spilled.lists as f64),
            cell.spilled(|spilled| spilled.operations() as f64),
        ];
        for count in counts {
            let _ = write!(text, ",{}", count.map(|count| format!("{:.0}", count.median)).unwrap_or_default());
        }
        text.push('\n');
    }
    text
}
