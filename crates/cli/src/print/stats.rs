//! Statistics of a query, as text or JSON.

use std::fmt::Write as _;

use pushdowndb_cost::{RequestKind, to_json};
use pushdowndb_engine::Report;

use super::format::StatsFormat;
use super::units;

/// Formats the statistics, with a newline at the end; empty for [`StatsFormat::None`].
pub fn stats(report: &Report, format: StatsFormat) -> String {
    match format {
        StatsFormat::None => String::new(),
        StatsFormat::Json => format!("{}\n", to_json(&report.usage, &report.bill)),
        StatsFormat::Table => table(report),
    }
}

fn table(report: &Report) -> String {
    let Report { usage, bill, .. } = report;
    let requests: Vec<String> = RequestKind::ALL
        .iter()
        .map(|kind| (usage.requests.of(*kind), format!("{kind:?}").to_uppercase()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{} {kind}", units::count(count)))
        .collect();
    let paid = bill.items().into_iter().filter(|(_, amount)| *amount > 0.0);
    let dollars: Vec<String> = paid.map(|(name, amount)| format!("{name} {}", units::dollars(amount))).collect();

    let mut text = String::new();
    let _ = writeln!(text, "time      {}, {} of CPU", units::seconds(usage.wall_s), units::seconds(usage.cpu_s));
    let _ = writeln!(text, "rows      {}", units::count(usage.rows));
    let _ = write!(text, "bytes     {} over the network", units::bytes(usage.bytes_network));
    if usage.bytes_scanned > 0 {
        let (scanned, returned) = (units::bytes(usage.bytes_scanned), units::bytes(usage.bytes_returned));
        let _ = write!(text, ", {scanned} scanned by storage, {returned} returned");
    }
    let _ = writeln!(text, "\nrequests  {}", if requests.is_empty() { "none".into() } else { requests.join(", ") });
    if usage.spill.bytes() > 0 {
        let _ = writeln!(text, "spilled   {}", usage.spill);
    }
    let _ = write!(text, "cost      {}", units::dollars(bill.total()));
    if dollars.len() > 1 {
        let _ = write!(text, ": {}", dollars.join(", "));
    }
    text.push('\n');
    for (index, strategy) in usage.strategies.iter().enumerate() {
        let _ = writeln!(text, "{:<10}{strategy}", if index == 0 { "pushdown" } else { "" });
    }
    text
}
