//! The plan as an SVG tree of boxes, the result at the top and the scans at the bottom.

use std::fmt::Write as _;

use pushdowndb_cost::units;
use pushdowndb_engine::{Operator, Profile};

use super::html::{Text, shortened};

/// The size of a box and the distances between boxes, in pixels.
const WIDTH: f64 = 272.0;
const HEIGHT: f64 = 84.0;
const BETWEEN: f64 = 20.0;
const BELOW: f64 = 40.0;

/// Maximum characters in the title of a box, and in the lines below it.
const TITLE: usize = 34;
const DETAIL: usize = 38;

/// A box in its place, in pixels from the left and the top.
struct Placed<'a> {
    operator: &'a Operator,
    left: f64,
    top: f64,
    /// The horizontal center of the box above.
    parent: Option<f64>,
}

/// Minimum scale at which the picture is still readable.
const MIN_SCALE: f64 = 0.6;

/// Appends the tree.
pub fn plan(page: &mut String, profile: &Profile, number: usize) {
    let mut boxes = Vec::new();
    let width = place(&mut boxes, &profile.root, 0.0, 0.0, None);
    let height = boxes.iter().map(|placed| placed.top + HEIGHT).fold(0.0, f64::max);
    let longest = boxes.iter().filter_map(|placed| placed.operator.actual.seconds).fold(0.0, f64::max);
    page.push_str(
        "<p>Rows flow upwards, from the scans to the result. The line at the foot of a box is its time, beside the \
         longest; the lines between boxes are thicker the more rows they carry.</p>\n",
    );
    let _ = write!(
        page,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"The plan\">\n\
         <svg class=\"plan\" role=\"img\" aria-labelledby=\"plan-{number}\" width=\"{:.0}\" height=\"{:.0}\" \
         viewBox=\"-2 -2 {:.0} {:.0}\" style=\"min-width: {:.0}px\">\n<title id=\"plan-{number}\">{}</title>\n",
        width + 4.0,
        height + 4.0,
        width + 4.0,
        height + 4.0,
        // A large plan is shrunk to the width of the page, as far as it stays readable.
        (width + 4.0) * MIN_SCALE,
        Text(&in_words(&profile.root)),
    );
    boxes.iter().for_each(|placed| line(page, placed));
    boxes.iter().for_each(|placed| draw(page, placed, longest));
    page.push_str("</svg>\n</div>\n");
}

/// Places an operator and its inputs from `left` on, and returns their width.
fn place<'a>(boxes: &mut Vec<Placed<'a>>, operator: &'a Operator, left: f64, top: f64, parent: Option<f64>) -> f64 {
    let children = operator.shown_children();
    let width = width_of(operator);
    let middle = left + width / 2.0;
    boxes.push(Placed { operator, left: middle - WIDTH / 2.0, top, parent });
    // A single child may be narrower than the box above it.
    let below: f64 = children.iter().map(|child| width_of(child) + BETWEEN).sum::<f64>() - BETWEEN;
    let mut next = left + (width - below).max(0.0) / 2.0;
    for child in children {
        next += place(boxes, child, next, top + HEIGHT + BELOW, Some(middle)) + BETWEEN;
    }
    width
}

/// Returns the width of an operator and its inputs.
fn width_of(operator: &Operator) -> f64 {
    let below: f64 = operator.shown_children().iter().map(|child| width_of(child) + BETWEEN).sum();
    WIDTH.max(below - BETWEEN)
}

/// Draws the line from a box to the one above.
fn line(page: &mut String, placed: &Placed<'_>) {
    let Some(to) = placed.parent else { return };
    let (from, top) = (placed.left + WIDTH / 2.0, placed.top);
    let (bend, end) = (top - BELOW / 2.0, top - BELOW);
    let rows = placed.operator.actual.rows.unwrap_or(0) as f64;
    let thickness = 1.5 + rows.max(1.0).log10() * 0.75;
    let _ = writeln!(
        page,
        "<path class=\"flow\" stroke-width=\"{thickness:.1}\" d=\"M{from:.1} {top:.1}C{from:.1} {bend:.1} {to:.1} {bend:.1} {to:.1} {end:.1}\"/>"
    );
}

fn draw(page: &mut String, placed: &Placed<'_>, longest: f64) {
    let Placed { operator, left, top, .. } = placed;
    let class = if operator.scan.is_some() { "scan" } else { "work" };
    let time = operator.actual.seconds.unwrap_or(0.0);
    let _ = write!(
        page,
        "<g class=\"{class}\"><title>{}: {}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"7\"/>",
        Text(&operator.title),
        Text(&operator.detail)
    );
    if time > 0.0 {
        let long = (WIDTH - 20.0) * (time / longest).clamp(0.0, 1.0);
        let foot = top + HEIGHT - 8.0;
        let x = left + 10.0;
        let _ = write!(
            page,
            "<rect class=\"time\" x=\"{x:.1}\" y=\"{foot:.1}\" width=\"{long:.1}\" height=\"3\" rx=\"1.5\"/>"
        );
    }
    let lines = [
        ("title", shortened(&operator.title, TITLE)),
        ("detail", shortened(&operator.detail, DETAIL)),
        ("figures", rows(operator)),
        ("figures", traffic(operator)),
    ];
    let mut baseline = top + 19.0;
    for (class, text) in lines {
        let (x, text) = (left + 10.0, Text(&text).to_string());
        let _ = write!(page, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{baseline:.1}\">{text}</text>");
        baseline += 17.0;
    }
    page.push_str("</g>\n");
}

fn rows(operator: &Operator) -> String {
    let actual =
        operator.actual.rows.map_or_else(|| "rows unknown".to_owned(), |rows| format!("{} rows", units::count(rows)));
    match operator.estimated.rows {
        Some(expected) => format!("{actual}, {} expected", units::count(expected)),
        None => actual,
    }
}

fn traffic(operator: &Operator) -> String {
    let measures = &operator.actual;
    let bytes = measures.bytes.map(units::bytes);
    let requests = measures.requests.map(|requests| format!("{} requests", units::count(requests)));
    let seconds = measures.seconds.map(units::seconds);
    let spilled = measures.spilled.map(|bytes| format!("{} spilled", units::bytes(bytes)));
    [bytes, requests, seconds, spilled].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the tree as a sentence, for screen readers.
fn in_words(operator: &Operator) -> String {
    let children: Vec<String> = operator.shown_children().into_iter().map(in_words).collect();
    match children.as_slice() {
        [] => operator.title.clone(),
        [one] => format!("{} over {one}", operator.title),
        several => format!("{} over ({})", operator.title, several.join(") and (")),
    }
}
