//! Profiles as text: the tree of the plan with estimates, measurements and reasons of decisions.
//!
//! ```text
//! Sort: …                                       10 rows (about 10 expected), busy 1 ms
//! └─ Scan of orders: level=fragment (pushdowndb), storage: …
//!                  expected     actual
//!      rows         300,000    298,112
//!      network      5.30 MB    5.21 MB
//!      …
//! ```

use std::fmt::Write as _;

use pushdowndb_cost::{Bill, Usage, units};

use super::{Decision, Measures, Operator, Profile, Scan};

/// Maximum number of characters of an operator's details; EXPLAIN shows all of them.
const MAX_DETAIL_CHARS: usize = 240;

/// Writes the tree of operators, then the totals of the query.
pub(crate) fn profile(profile: &Profile) -> String {
    let mut text = String::new();
    tree(&mut text, &profile.root, "", "");
    let Profile { planning, usage, bill, .. } = profile;
    let _ = writeln!(text, "\nplanning   {}", traffic(planning));
    let _ = writeln!(text, "query      {}", traffic(usage));
    if usage.bytes_scanned > 0 {
        let _ = writeln!(text, "storage    {}", at_storage(usage));
    }
    if usage.spill.bytes() > 0 {
        let _ = writeln!(text, "spilled    {}", usage.spill);
    }
    let (wall, cpu) = (units::seconds(usage.wall_s), units::seconds(usage.cpu_s));
    let _ = writeln!(text, "time       {wall}, {cpu} of the engine's CPU");
    let _ = writeln!(text, "cost       {}", dollars(bill));
    text
}

/// Writes one operator after `branch`, and those below it after `trunk`.
fn tree(text: &mut String, operator: &Operator, branch: &str, trunk: &str) {
    let detail = shortened(&operator.detail);
    let separator = if detail.is_empty() { "" } else { ": " };
    let _ = writeln!(text, "{branch}{}{separator}{detail}", operator.title);
    let children = operator.shown_children();
    // The lines of an operator align with the branches of its children.
    let margin = if children.is_empty() { format!("{trunk}     ") } else { format!("{trunk}│    ") };
    let mut lines = Vec::new();
    match &operator.scan {
        Some(scan) => about_scan(&mut lines, operator, scan),
        None => lines.extend(about(operator)),
    }
    operator.decisions.iter().for_each(|decision| about_decision(&mut lines, decision));
    for line in lines {
        let _ = writeln!(text, "{}", format!("{margin}{line}").trim_end());
    }
    let last = children.len().saturating_sub(1);
    for (place, child) in children.into_iter().enumerate() {
        let (branch, below) = if place == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        tree(text, child, &format!("{trunk}{branch}"), &format!("{trunk}{below}"));
    }
}

/// The measurements of an operator other than a scan.
fn about(operator: &Operator) -> Option<String> {
    let rows = operator.actual.rows.map(|rows| units::counted(rows, "row"));
    let expected = operator.estimated.rows.map(|rows| format!("about {} expected", units::count(rows)));
    let rows = match (rows, expected) {
        (Some(rows), Some(expected)) => Some(format!("{rows} ({expected})")),
        (rows, expected) => rows.or(expected),
    };
    let busy = operator.actual.seconds.map(|seconds| format!("busy {}", units::seconds(seconds)));
    let spilled = operator.actual.spilled.map(|bytes| format!("spilled {}", units::bytes(bytes)));
    let known: Vec<String> = rows.into_iter().chain(busy).chain(spilled).collect();
    (!known.is_empty()).then(|| known.join(", "))
}

fn about_scan(lines: &mut Vec<String>, operator: &Operator, scan: &Scan) {
    let (estimated, actual) = (&operator.estimated, &operator.actual);
    lines.push(format!("{:<10}{:>12} {:>11}", "", "expected", "actual"));
    for (name, show) in MEASURES {
        let shown = |measures| show(measures).unwrap_or_else(|| "?".to_owned());
        lines.push(format!("{name:<10}{:>12} {:>11}", shown(estimated), shown(actual)));
    }
    let objects = units::counted(scan.objects, "object");
    lines.push(format!("objects   {objects}, {}", units::bytes(scan.object_bytes)));
    let usage = &scan.usage;
    if usage.bytes_scanned > 0 {
        lines.push(format!("storage   {}", at_storage(usage)));
    }
    if usage.requests_failed + usage.fall_backs > 0 {
        let fall_backs = units::counted(usage.fall_backs, "fall-back");
        lines.push(format!("failed    {}, {fall_backs} to plain reads", requests(usage.requests_failed)));
    }
    if let Some(looked_up) = scan.looked_up {
        let (rows, objects) = (units::counted(looked_up.rows, "row"), units::counted(looked_up.objects, "object"));
        let unused = units::counted(looked_up.unused, "object");
        lines.push(format!("index     {rows} in {objects}, {unused} scanned without it"));
    }
}

/// Formats a measure of a scan.
type Shown = fn(&Measures) -> Option<String>;

const MEASURES: [(&str, Shown); 5] = [
    ("rows", |measures| measures.rows.map(units::count)),
    ("network", |measures| measures.bytes.map(units::bytes)),
    ("requests", |measures| measures.requests.map(units::count)),
    ("time", |measures| measures.seconds.map(units::seconds)),
    ("cost", |measures| measures.usd.map(units::dollars)),
];

fn about_decision(lines: &mut Vec<String>, decision: &Decision) {
    let Decision { operator, taken, estimate, why, losers, refused } = decision;
    let estimate = estimate.as_ref().map(|estimate| format!(" ({})", in_short(estimate))).unwrap_or_default();
    lines.push(format!("{operator} = {taken}: {why}{estimate}"));
    lines.extend(losers.iter().map(|(name, estimate)| format!("  rather than {name} ({})", in_short(estimate))));
    lines.extend(refused.iter().map(|(name, why)| format!("  not {name}: {why}")));
}

fn in_short(measures: &Measures) -> String {
    let (network, requests) = (measures.bytes.map(units::bytes), measures.requests.map(requests));
    let (time, cost) = (measures.seconds.map(units::seconds), measures.usd.map(units::dollars));
    [network, requests, time, cost].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn requests(count: u64) -> String {
    units::counted(count, "request")
}

fn traffic(usage: &Usage) -> String {
    format!("{} over the network, {}", units::bytes(usage.bytes_network), requests(usage.requests.total()))
}

fn at_storage(usage: &Usage) -> String {
    let (scanned, returned) = (units::bytes(usage.bytes_scanned), units::bytes(usage.bytes_returned));
    let cpu = match usage.storage_cpu_s {
        0.0 => String::new(),
        seconds => format!(", {} of storage's CPU", units::seconds(seconds)),
    };
    format!("{scanned} scanned, {returned} returned{cpu}")
}

fn dollars(bill: &Bill) -> String {
    let items = bill.items().into_iter().filter(|(_, amount)| *amount > 0.0);
    let items: Vec<String> = items.map(|(name, amount)| format!("{name} {}", units::dollars(amount))).collect();
    let total = units::dollars(bill.total());
    if items.len() < 2 { total } else { format!("{total}: {}", items.join(", ")) }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_DETAIL_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf() -> Operator {
        let estimate =
            Measures { bytes: Some(5_300_000), requests: Some(2), seconds: Some(0.5), ..Measures::default() };
        Operator {
            title: "Scan of orders".to_owned(),
            detail: "level=fragment".to_owned(),
            is_plumbing: false,
            estimated: Measures { rows: Some(300_000), ..estimate },
            actual: Measures {
                rows: Some(12),
                bytes: Some(900),
                requests: Some(3),
                seconds: None,
                usd: Some(0.000154),
                spilled: None,
            },
            scan: Some(Scan {
                table: "orders".to_owned(),
                object_bytes: 171_000_000,
                objects: 1,
                usage: Usage { bytes_scanned: 1000, bytes_returned: 10, requests_failed: 1, ..Usage::default() },
                looked_up: Some(crate::profile::LookedUp { rows: 12, objects: 1, unused: 0 }),
            }),
            decisions: vec![Decision {
                operator: "filter".to_owned(),
                taken: "index".to_owned(),
                estimate: None,
                why: "fewest seconds".to_owned(),
                losers: vec![("storage".to_owned(), estimate)],
                refused: vec![("compute".to_owned(), "it is slow".to_owned())],
            }],
            children: vec![],
        }
    }

    #[test]
    fn the_tree_omits_plumbing_and_details_scans() {
        let plumbing = Operator { is_plumbing: true, scan: None, children: vec![leaf()], ..leaf() };
        let root = Operator {
            title: "Hash join".to_owned(),
            detail: "on=[a = b]".to_owned(),
            actual: Measures { rows: Some(1234), seconds: Some(0.012), ..Measures::default() },
            scan: None,
            decisions: vec![],
            children: vec![plumbing, leaf()],
            ..leaf()
        };
        let whole = Profile {
            statement: "SELECT 1".to_owned(),
            settings: vec![],
            root,
            planning: Usage::default(),
            usage: Usage { wall_s: 1.5, ..Usage::default() },
            bill: Bill { compute: 1.0, scan: 0.5, ..Bill::default() },
        };
        let scan = |margin: &str| {
            [
                "                   expected      actual",
                "     rows           300,000          12",
                "     network        5.30 MB       900 B",
                "     requests             2           3",
                "     time            500 ms           ?",
                "     cost                 ?   $0.000154",
                "     objects   1 object, 171 MB",
                "     storage   1.00 kB scanned, 10 B returned",
                "     failed    1 request, 0 fall-backs to plain reads",
                "     index     12 rows in 1 object, 0 objects scanned without it",
                "     filter = index: fewest seconds",
                "       rather than storage (5.30 MB, 2 requests, 500 ms)",
                "       not compute: it is slow",
            ]
            .map(|line| format!("{margin}{line}\n"))
            .concat()
        };
        let expected = format!(
            "Hash join: on=[a = b]\n│    1,234 rows (about 300,000 expected), busy 12 ms\n\
             ├─ Scan of orders: level=fragment\n{}└─ Scan of orders: level=fragment\n{}\n\
             planning   0 B over the network, 0 requests\nquery      0 B over the network, 0 requests\n\
             time       1.50 s, 0 ms of the engine's CPU\ncost       $1.50: compute $1.00, scan $0.500\n",
            scan("│  "),
            scan("   ")
        );
        assert_eq!(profile(&whole), expected);
        assert_eq!(whole.operators().len(), 4);
    }

    #[test]
    fn long_details_end() {
        assert_eq!(shortened(&"é".repeat(MAX_DETAIL_CHARS)).chars().count(), MAX_DETAIL_CHARS);
        assert_eq!(shortened(&"é".repeat(MAX_DETAIL_CHARS + 1)).chars().count(), MAX_DETAIL_CHARS + 1);
        assert!(shortened(&"é".repeat(1000)).ends_with("é…"));
    }
}
