//! Bar charts: the time of operators, and the items of the bill.

use std::fmt::Write as _;

use pushdowndb_cost::units;
use pushdowndb_engine::Profile;

use super::html::{Text, bar};

/// Appends the time of each operator, the longest first.
pub fn times(page: &mut String, profile: &Profile) {
    let mut times: Vec<(String, f64, &str)> = profile
        .operators()
        .into_iter()
        .filter(|operator| !operator.is_plumbing)
        .filter_map(|operator| {
            let class = if operator.scan.is_some() { "network" } else { "work" };
            Some((operator.title.clone(), operator.actual.seconds?, class))
        })
        .collect();
    let plumbing: f64 = profile.operators().iter().filter(|o| o.is_plumbing).filter_map(|o| o.actual.seconds).sum();
    times.push(("Moving rows between threads".to_owned(), plumbing, "work"));
    times.retain(|(_, seconds, _)| *seconds > 0.0);
    times.sort_by(|(_, a, _), (_, b, _)| b.total_cmp(a));
    let longest = times.first().map_or(0.0, |(_, seconds, _)| *seconds);
    page.push_str(
        "<p>Of scans the time from the first request to the last row, waiting for storage included; of all else the time it \
         was busy, on all threads together.</p>\n",
    );
    let rows = times.iter().map(|(title, seconds, class)| (title.as_str(), *seconds, *class));
    listed(page, rows, longest, units::seconds);
}

/// Appends the items of the bill.
pub fn bill(page: &mut String, profile: &Profile) {
    let bill = &profile.bill;
    let book = profile.settings.iter().find(|(name, _)| name == "pushdown.price_book").map_or("", |(_, book)| book);
    let _ = writeln!(page, "<p>{} by the price book <code>{}</code>.</p>", units::dollars(bill.total()), Text(book));
    let items = bill.items().into_iter().map(|(name, amount)| (name, amount, "money"));
    listed(page, items, bill.total(), units::dollars);
}

fn listed<'a>(
    page: &mut String,
    rows: impl Iterator<Item = (&'a str, f64, &'a str)>,
    whole: f64,
    show: fn(f64) -> String,
) {
    page.push_str("<dl class=\"bars wide\">");
    for (name, amount, class) in rows {
        let share = if whole > 0.0 { amount / whole } else { 0.0 };
        let (name, bar, shown) = (Text(name), bar(share, class), show(amount));
        let _ = write!(page, "<div><dt>{name}</dt><dd>{bar}<span>{shown}</span></dd></div>");
    }
    page.push_str("</dl>\n");
}
