//! What the demonstration prints at its end: a table, a picture, and what to make of them.

use std::fmt::Write as _;

use pushdowndb_cost::{Bill, PriceBook};
use pushdowndb_engine::Report;

use crate::print::units;

/// Bytes per second of the link the remarks compare with: one core's share of the paper's 10 Gb/s for 32.
const LINK: f64 = 40e6;
/// Characters of the longest bar.
const BAR: usize = 48;

/// One query at both levels.
pub struct Outcome {
    pub name: &'static str,
    pub about: &'static str,
    pub none: Report,
    pub select: Report,
}

impl Outcome {
    fn bytes(&self) -> (u64, u64) {
        (self.none.usage.bytes_network, self.select.usage.bytes_network)
    }
}

/// One line a query.
pub fn table(outcomes: &[Outcome]) -> String {
    let header = ["query", "network", "", "fewer", "requests", "", "time", "", "$ per 1000 runs", ""];
    let levels = ["", "none", "select", "bytes", "none", "select", "none", "select", "none", "select"];
    let mut rows = vec![header.map(str::to_owned), levels.map(str::to_owned)];
    for outcome in outcomes {
        let (none, select) = (&outcome.none, &outcome.select);
        let bytes = outcome.bytes();
        rows.push([
            outcome.name.to_owned(),
            units::bytes(bytes.0),
            units::bytes(bytes.1),
            units::factor(bytes.0 as f64, bytes.1 as f64),
            units::count(none.usage.requests.total()),
            units::count(select.usage.requests.total()),
            units::seconds(none.usage.wall_s),
            units::seconds(select.usage.wall_s),
            thousand(&none.bill),
            thousand(&select.bill),
        ]);
    }
    let mut widths = [0; 10];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let _ = match column {
                0 => write!(line, "{cell:<width$}"),
                // The first column of each pair stands a little apart.
                1 | 3 | 4 | 6 | 8 => write!(line, "   {cell:>width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
        if index == 1 {
            text.push_str(&"─".repeat(widths.iter().sum::<usize>() + 5 * 3 + 4 * 2));
            text.push('\n');
        }
    }
    text
}

/// One query costs too little to read.
fn thousand(bill: &Bill) -> String {
    units::dollars(bill.total() * 1000.0)
}

/// Bars of the bytes over the network, one scale for all.
pub fn picture(outcomes: &[Outcome]) -> String {
    let longest = outcomes.iter().map(|o| o.bytes().0.max(o.bytes().1)).max().unwrap_or(0).max(1);
    let mut text = String::from("Bytes over the network\n");
    for outcome in outcomes {
        let (none, select) = outcome.bytes();
        let _ = writeln!(text, "{}: {}", outcome.name, outcome.about);
        let _ = writeln!(text, "  none   {} {}", bar(none, longest), units::bytes(none));
        let _ = writeln!(text, "  select {} {}", bar(select, longest), units::bytes(select));
    }
    text
}

/// A bar in eighths of a character; whatever is there shows at least one.
fn bar(value: u64, longest: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = ((value as f64 / longest as f64) * (BAR * 8) as f64).round() as usize;
    let eighths = eighths.max(usize::from(value > 0));
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS.get(eighths % 8).copied().unwrap_or_default())
}

/// What was compared, and what a loopback network hides.
pub fn remarks(outcomes: &[Outcome]) -> String {
    let sum = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>();
    let none = sum(|o| o.bytes().0 as f64) / LINK;
    let select = sum(|o| o.bytes().1 as f64) / LINK;
    let mut text = String::from("The rows agree at both levels. ");
    let _ = writeln!(
        text,
        "Node and engine share this machine and its loopback network, where bytes are free:\n\
         over a link of {}/s, one core's share in the paper, the bytes alone take {} at level none and {} at select.",
        units::bytes(LINK as u64),
        units::seconds(none),
        units::seconds(select),
    );
    let dearer = outcomes.iter().filter(|o| o.select.bill.total() > o.none.bill.total()).count();
    if dearer > 0 {
        let _ = writeln!(
            text,
            "{dearer} of {} queries cost more at select: S3 Select charges for each byte it scans, and an engine in the same\n\
             region reads it for less (price book paper).",
            outcomes.len(),
        );
    }
    if let Ok(egress) = PriceBook::named_or_path("paper-egress") {
        let total = |of: fn(&Outcome) -> &Report| {
            let bills = outcomes.iter().map(|outcome| egress.bill(&of(outcome).usage).total());
            units::dollars(bills.sum::<f64>() * 1000.0)
        };
        let _ = writeln!(
            text,
            "With the engine outside the region (paper-egress) all of them, run 1000 times, cost {} at none and {} at select.",
            total(|o| &o.none),
            total(|o| &o.select),
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
        let outcomes = [
            Outcome { name: "filter", about: "few", none: report(75_000_000, 0), select: report(10_000, 75_000_000) },
            Outcome { name: "all", about: "all", none: report(75_000_000, 0), select: report(75_000_000, 0) },
        ];
        let table = table(&outcomes);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 5, "{table}");
        assert!(lines[3].starts_with("filter") && lines[3].contains("7,500×"), "{table}");
        let width = lines[2].chars().count();
        assert!(lines.iter().all(|line| line.chars().count() <= width), "{table}");
        let picture = picture(&outcomes);
        assert!(picture.contains(&"█".repeat(BAR)) && picture.contains("▏ 10.0 kB"), "{picture}");
        assert!(remarks(&outcomes).contains("1 of 2 queries cost more"), "{}", remarks(&outcomes));
    }
}
