//! Profiles as a single HTML page without external resources: no script, no font, no request.
//!
//! SQL, names and errors are untrusted: every text goes through [`Text`], the only way into the
//! page, so that none of it is interpreted as markup. The page also has a content security policy
//! that forbids everything but its own style.

mod bars;
mod choices;
mod html;
mod picture;
mod scans;

use std::fmt::Write as _;

use pushdowndb_cost::units;
use pushdowndb_engine::{Operator, Profile};

use html::{Text, table};

/// The style of the page.
const STYLE: &str = include_str!("page.css");

/// Creates the page about some queries, in the order they ran.
pub fn page(profiles: &[Profile]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        Text(&title(profiles)),
    );
    page.push_str("<header><h1>Query profile</h1>");
    if profiles.len() > 1 {
        page.push_str("<nav aria-label=\"Queries\"><ol>");
        for (place, profile) in profiles.iter().enumerate() {
            let (statement, time) = (Text(&in_one_line(&profile.statement)), units::seconds(profile.usage.wall_s));
            let number = place + 1;
            let _ = write!(page, "<li><a href=\"#query-{number}\"><code>{statement}</code></a> {time}</li>");
        }
        page.push_str("</ol></nav>");
    }
    if profiles.is_empty() {
        page.push_str("<p>No query has run yet.</p>");
    }
    page.push_str("</header>\n<main>\n");
    for (place, profile) in profiles.iter().enumerate() {
        query(&mut page, profile, place + 1);
    }
    let _ = write!(page, "</main>\n<footer>PushdownDB {}</footer>\n</body>\n</html>\n", env!("CARGO_PKG_VERSION"));
    page
}

fn title(profiles: &[Profile]) -> String {
    match profiles {
        [one] => format!("Query profile: {}", in_one_line(&one.statement)),
        _ => format!("Query profile: {} queries", profiles.len()),
    }
}

fn query(page: &mut String, profile: &Profile, number: usize) {
    let Profile { usage, bill, .. } = profile;
    let _ = write!(
        page,
        "<article id=\"query-{number}\">\n<h2>Query {number}</h2>\n<pre class=\"sql\" tabindex=\"0\"><code>{}</code></pre>\n",
        Text(&profile.statement)
    );
    page.push_str("<dl class=\"headline\">");
    let mut figures = vec![
        ("Time", units::seconds(usage.wall_s)),
        ("Rows", units::count(usage.rows)),
        ("Over the network", units::bytes(usage.bytes_network)),
        ("Requests", units::count(usage.requests.total())),
        ("Cost", units::dollars(bill.total())),
    ];
    if usage.spill.bytes() > 0 {
        figures.push(("Spilled", units::bytes(usage.spill.bytes())));
    }
    for (name, figure) in figures {
        let _ = write!(page, "<div><dt>{name}</dt><dd>{figure}</dd></div>");
    }
    page.push_str("</dl>\n");
    section(page, "The plan", |page| picture::plan(page, profile, number));
    section(page, "Scans: expected and actual", |page| scans::scans(page, profile));
    section(page, "Time by operator", |page| bars::times(page, profile));
    section(page, "The bill", |page| bars::bill(page, profile));
    section(page, "What was chosen, and why", |page| choices::choices(page, profile));
    if !usage.strategies.is_empty() {
        section(page, "What happened", |page| {
            page.push_str("<ul class=\"told\">");
            for strategy in &usage.strategies {
                let _ = write!(page, "<li><code>{}</code></li>", Text(strategy));
            }
            page.push_str("</ul>");
        });
    }
    section(page, "In full", |page| {
        details(page, "All operators", |page| operators(page, profile));
        details(page, "Settings", |page| {
            let rows = profile.settings.iter().map(|(name, value)| [Text(name).to_string(), Text(value).to_string()]);
            table(page, "settings", ["Setting", "Value"], rows);
        });
    });
    page.push_str("</article>\n");
}

fn section(page: &mut String, heading: &str, body: impl FnOnce(&mut String)) {
    let _ = write!(page, "<section>\n<h3>{}</h3>\n", Text(heading));
    body(page);
    page.push_str("\n</section>\n");
}

fn details(page: &mut String, summary: &str, body: impl FnOnce(&mut String)) {
    let _ = writeln!(page, "<details><summary>{}</summary>", Text(summary));
    body(page);
    page.push_str("</details>\n");
}

/// Appends every operator with its EXPLAIN text, for screen readers and for details.
fn operators(page: &mut String, profile: &Profile) {
    fn below(page: &mut String, operator: &Operator) {
        let rows = operator.actual.rows.map_or_else(|| "?".to_owned(), units::count);
        let expected = operator.estimated.rows.map_or_else(|| "?".to_owned(), units::count);
        let _ = write!(
            page,
            "<li><b>{}</b> {rows} rows, {expected} expected<br><code>{}</code>",
            Text(&operator.title),
            Text(&operator.detail)
        );
        if !operator.children.is_empty() {
            page.push_str("<ul>");
            operator.children.iter().for_each(|child| below(page, child));
            page.push_str("</ul>");
        }
        page.push_str("</li>");
    }
    page.push_str("<ul class=\"operators\">");
    below(page, &profile.root);
    page.push_str("</ul>\n");
}

/// The beginning of a statement, shortened to one line.
fn in_one_line(statement: &str) -> String {
    html::shortened(&statement.split_whitespace().collect::<Vec<_>>().join(" "), 80)
}
