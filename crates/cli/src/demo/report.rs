//! The final output of the demonstration: a table, a chart and remarks.

use std::fmt::Write as _;

use pushdowndb_cost::{Bill, PriceBook};
use pushdowndb_engine::Report;

use crate::print::units;

/// The bandwidth that the remarks assume, in bytes per second: one core's share of the paper's 10
/// Gb/s for 32 cores.
const LINK: f64 = 40e6;
/// Characters of the longest bar.
const BAR: usize = 48;

/// The levels, from no pushdown to most.
pub const LEVELS: [&str; 3] = ["none", "select", "fragment"];

/// One query at every level.
pub struct Outcome {
    pub name: &'static str,
    pub about: &'static str,
    /// The reports, in the order of [`LEVELS`].
    pub reports: Vec<Report>,
}

impl Outcome {
    fn bytes(&self) -> impl Iterator<Item = u64> {
        self.reports.iter().map(|report| report.usage.bytes_network)
    }
}

/// Formats one line per query, with each figure for every level.
pub fn table(outcomes: &[Outcome]) -> String {
    let [none, select, fragment] = LEVELS.map(str::to_owned);
    let levels = || [none.clone(), select.clone(), fragment.clone()];
    let titled = |title: &str| [title.to_owned(), String::new(), String::new()];
    let mut rows = vec![
        line("query".to_owned(), [titled("network"), titled("time"), titled("$ per 1000 runs")], "fewer".to_owned()),
        line(String::new(), [levels(), levels(), levels()], "bytes".to_owned()),
    ];
    for outcome in outcomes {
        let each = |figure: &dyn Fn(&Report) -> String| {
            std::array::from_fn(|level| outcome.reports.get(level).map(figure).unwrap_or_default())
        };
        let bytes: Vec<u64> = outcome.bytes().collect();
        let (first, last) = (bytes.first().copied().unwrap_or(0), bytes.last().copied().unwrap_or(0));
        let figures = [
            each(&|report| units::bytes(report.usage.bytes_network)),
            each(&|report| units::seconds(report.usage.wall_s)),
            each(&|report| thousand(&report.bill)),
        ];
        rows.push(line(outcome.name.to_owned(), figures, units::factor(first as f64, last as f64)));
    }
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(line, "{cell:<width$}"),
                // The first column of each three stands a little apart.
                1 | 4 | 5 | 8 => write!(line, "   {cell:>width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
        if index == 1 {
            text.push_str(&"─".repeat(widths.iter().sum::<usize>() + 4 * 3 + 6 * 2));
            text.push('\n');
        }
    }
    text
}

/// Returns the cells of a line: the name, the three figures of the network, the ratio of bytes,
/// then the other figures.
fn line(name: String, [network, time, dollars]: [[String; 3]; 3], fewer: String) -> Vec<String> {
    [name].into_iter().chain(network).chain([fewer]).chain(time).chain(dollars).collect()
}

/// Formats the cost of a thousand queries, since that of one is too small to read.
fn thousand(bill: &Bill) -> String {
    units::dollars(bill.total() * 1000.0)
}

/// Draws bars of the bytes sent over the network, all on the same scale.
pub fn picture(outcomes: &[Outcome]) -> String {
    let longest = outcomes.iter().flat_map(Outcome::bytes).max().unwrap_or(0).max(1);
    let mut text = String::from("Bytes over the network\n");
    for outcome in outcomes {
        let _ = writeln!(text, "{}: {}", outcome.name, outcome.about);
        for (level, bytes) in LEVELS.iter().zip(outcome.bytes()) {
            let _ = writeln!(text, "  {level:<8} {} {}", bar(bytes, longest), units::bytes(bytes));
        }
    }
    text
}

/// Draws a bar in eighths of a character; a value above 0 shows at least one.
fn bar(value: u64, longest: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = ((value as f64 / longest as f64) * (BAR * 8) as f64).round() as usize;
    let eighths = eighths.max(usize::from(value > 0));
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS.get(eighths % 8).copied().unwrap_or_default())
}

/// Returns remarks: the compared levels, and the effects that a loopback network hides.
pub fn remarks(outcomes: &[Outcome]) -> String {
    let each_level = |total: &dyn Fn(usize) -> String| {
        let all: Vec<String> =
            LEVELS.iter().enumerate().map(|(index, level)| format!("{} at {level}", total(index))).collect();
        match all.as_slice() {
            [first @ .., last] => format!("{} and {last}", first.join(", ")),
            [] => String::new(),
        }
    };
    let reports = |level: usize| outcomes.iter().filter_map(move |outcome| outcome.reports.get(level));
    let transfer = |level: usize| {
        units::seconds(reports(level).map(|report| report.usage.bytes_network as f64).sum::<f64>() / LINK)
    };
    let mut text = String::from("The rows agree at all levels. ");
    let _ = writeln!(
        text,
        "Node and engine share this machine and its loopback network, where bytes are free:\n\
         over a link of {}/s, one core's share in the paper, the bytes alone take {}.",
        units::bytes(LINK as u64),
        each_level(&transfer),
    );
    let total = |outcome: &Outcome, level: usize| outcome.reports.get(level).map_or(0.0, |report| report.bill.total());
    let dearer = |level: usize| outcomes.iter().filter(|outcome| total(outcome, level) > total(outcome, 0)).count();
    let select = dearer(1);
    if select > 0 {
        let _ = writeln!(
            text,
            "{select} of {} queries cost more at select: S3 Select charges for each byte it scans, and an engine in the same\n\
             region reads it for less (price book paper). At fragment the node charges for its CPU: {} cost more.",
            outcomes.len(),
            dearer(2),
        );
    }
    if let Ok(egress) = PriceBook::named_or_path("paper-egress") {
        let total = |level: usize| {
            units::dollars(reports(level).map(|report| egress.bill(&report.usage).total()).sum::<f64>() * 1000.0)
        };
        let _ = writeln!(
            text,
            "With the engine outside the region (paper-egress) all of them, run 1000 times, cost {}.",
            each_level(&total),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use pushdowndb_cost::Usage;

    use super::*;

    fn report(bytes: u64, scanned: u64) -> Report {
        let usage =
            Usage { bytes_network: bytes, bytes_scanned: scanned, wall_s: 0.25, cores: 1.0, ..Usage::default() };
        let bill = PriceBook::named_or_path("paper").unwrap().bill(&usage);
        Report { usage, bill }
    }

    #[test]
    fn the_table_and_the_picture() {
        let outcome = |name, reports: [(u64, u64); 3]| Outcome {
            name,
            about: "of lineitem",
            reports: reports.into_iter().map(|(bytes, scanned)| report(bytes, scanned)).collect(),
        };
        let outcomes = [
            outcome("filter", [(75_000_000, 0), (10_000, 75_000_000), (5_000, 0)]),
            outcome("all", [(75_000_000, 0), (75_000_000, 0), (75_000_000, 0)]),
        ];
        let table = table(&outcomes);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 5, "{table}");
        assert!(lines[3].starts_with("filter") && lines[3].contains("15,000×"), "{table}");
        let width = lines[2].chars().count();
        assert!(lines.iter().all(|line| line.chars().count() <= width), "{table}");
        let picture = picture(&outcomes);
        assert!(picture.contains(&"█".repeat(BAR)) && picture.contains("▏ 10.0 kB"), "{picture}");
        let remarks = remarks(&outcomes);
        assert!(remarks.contains("1 of 2 queries cost more at select"), "{remarks}");
        assert!(remarks.contains("3.75 s at none, 1.88 s at select and 1.88 s at fragment"), "{remarks}");
    }
}
