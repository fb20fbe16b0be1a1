//! The scans of a query: estimated and actual values, and the bytes at each stage.

use std::fmt::Write as _;

use pushdowndb_cost::units;
use pushdowndb_engine::{Measures, Operator, Profile, Scan};

use super::html::{Text, bar, table};

/// Appends a card for each scan.
pub fn scans(page: &mut String, profile: &Profile) {
    let scans: Vec<(&Operator, &Scan)> =
        profile.operators().into_iter().filter_map(|operator| Some((operator, operator.scan.as_ref()?))).collect();
    if scans.is_empty() {
        page.push_str("<p>This query scans nothing.</p>\n");
    } else {
        page.push_str(
            "<p>Time is from the first request of a scan to its last row, its cost that of the engine's machine for this \
             time, of its requests and of storage. Scans overlap, so these two do not add up to the query's.</p>\n",
        );
    }
    page.push_str("<div class=\"cards\">");
    scans.into_iter().for_each(|(operator, scan)| card(page, operator, scan));
    page.push_str("</div>\n");
    let (planning, usage) = (&profile.planning, &profile.usage);
    let _ = writeln!(
        page,
        "<p>Before the plan ran, {} and {} went into listing objects and learning about tables. All together: {} and {}.</p>",
        units::bytes(planning.bytes_network),
        units::counted(planning.requests.total(), "request"),
        units::bytes(usage.bytes_network),
        units::counted(usage.requests.total(), "request"),
    );
}

fn card(page: &mut String, operator: &Operator, scan: &Scan) {
    let _ = write!(
        page,
        "<div class=\"card\">\n<h4>{}</h4>\n<p class=\"detail\"><code>{}</code></p>\n",
        Text(&operator.title),
        Text(&operator.detail)
    );
    let rows = MEASURES.map(|(name, of, show)| {
        let (expected, actual) = (of(&operator.estimated), of(&operator.actual));
        let shown = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), show);
        [name.to_owned(), shown(expected), shown(actual), compared(expected, actual)]
    });
    table(page, "measures", ["Measure", "Expected", "Actual", "Actual is"], rows.into_iter());
    bytes(page, scan);
    let mut notes = Vec::new();
    let usage = &scan.usage;
    if usage.storage_cpu_s > 0.0 {
        notes.push(format!("{} of storage's CPU", units::seconds(usage.storage_cpu_s)));
    }
    if usage.requests_failed > 0 {
        notes.push(units::counted(usage.requests_failed, "failed request"));
    }
    if usage.fall_backs > 0 {
        notes.push(format!("{} to plain reads", units::counted(usage.fall_backs, "fall-back")));
    }
    if let Some(found) = scan.looked_up {
        let (rows, objects) = (units::counted(found.rows, "row"), units::counted(found.objects, "object"));
        notes.push(format!("indexes led to {rows} in {objects}"));
        if found.unused > 0 {
            notes.push(format!("{} scanned without an index", units::counted(found.unused, "object")));
        }
    }
    if !notes.is_empty() {
        let _ = write!(page, "<p>{}.</p>", Text(&notes.join(", ")));
    }
    page.push_str("</div>\n");
}

/// The label, the value and the format of a measure.
type Measure = (&'static str, fn(&Measures) -> Option<f64>, fn(f64) -> String);

const MEASURES: [Measure; 5] = [
    ("Rows", |measures| measures.rows.map(|rows| rows as f64), |rows| units::count(rows as u64)),
    ("Network", |measures| measures.bytes.map(|bytes| bytes as f64), |bytes| units::bytes(bytes as u64)),
    ("Requests", |measures| measures.requests.map(|count| count as f64), |count| units::count(count as u64)),
    ("Time", |measures| measures.seconds, units::seconds),
    ("Cost", |measures| measures.usd, units::dollars),
];

/// Describes the error of an estimate, or says that there is none if it is below 5 %.
fn compared(expected: Option<f64>, actual: Option<f64>) -> String {
    match (expected, actual) {
        (Some(expected), Some(actual)) if (expected - actual).abs() <= expected * 0.05 => "as expected".to_owned(),
        (Some(expected), Some(actual)) if expected > 0.0 && actual > expected => {
            format!("{} more", units::factor(actual, expected))
        }
        (Some(expected), Some(actual)) if actual > 0.0 && actual < expected => {
            format!("{} less", units::factor(expected, actual))
        }
        _ => String::new(),
    }
}

/// Appends the bytes in the objects, scanned at storage, and sent over the network, on the same
/// scale.
fn bytes(page: &mut String, scan: &Scan) {
    let usage = &scan.usage;
    let places = [
        ("In the objects", scan.object_bytes, "objects"),
        ("Scanned at storage", usage.bytes_scanned, "storage"),
        ("Over the network", usage.bytes_network, "network"),
    ];
    let longest = places.iter().map(|(_, bytes, _)| *bytes).max().unwrap_or(0).max(1) as f64;
    page.push_str("<dl class=\"bars\">");
    for (name, bytes, class) in places {
        let (shown, bar) = (units::bytes(bytes), bar(bytes as f64 / longest, class));
        let _ = write!(page, "<div><dt>{name}</dt><dd>{bar}<span>{shown}</span></dd></div>");
    }
    page.push_str("</dl>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_compared_in_words() {
        assert_eq!(compared(Some(10.0), Some(20.0)), "2.0× more");
        assert_eq!(compared(Some(20.0), Some(10.0)), "2.0× less");
        assert_eq!(compared(Some(100.0), Some(104.0)), "as expected");
        assert_eq!(compared(Some(0.0), Some(0.0)), "as expected");
        assert_eq!(compared(Some(0.0), Some(7.0)), "");
        assert_eq!(compared(None, Some(7.0)), "");
    }
}
