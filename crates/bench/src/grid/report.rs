//! `docs/evaluation.md`: a template whose sections are made of definitions and results.
//!
//! A line `{{fig01}}` of the template becomes the section of that grid, and `{fig01/select}` in a
//! line the value of a claim. The numbers in the text of a definition are values of its claims too,
//! so that text and figures agree; a text with missing values is left out.

use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::DEFINITIONS;
use super::claims::{Verdict, verdicts};
use super::definition::Grid;
use super::regret::{self, Row};
use super::results::{Figure, Results};
use crate::args::ReportArgs;
use crate::contestant::DataFormat;
use crate::record::aligned;

/// The template of the document.
const TEMPLATE: &str = include_str!("../../../../experiments/evaluation.md");

/// Writes the document.
pub fn report(args: &ReportArgs) -> Result<()> {
    let read = |name: &str| {
        let path = args.results.join(format!("{name}.csv"));
        let text = std::fs::read_to_string(&path).ok()?;
        Some(Results::from_csv(&text).with_context(|| path.display().to_string()))
    };
    let mut text = String::new();
    for line in TEMPLATE.lines() {
        let name = line.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
        match name.and_then(|name| DEFINITIONS.iter().find(|(known, _)| *known == name)) {
            Some((name, definition)) => {
                let grid = Grid::parse(definition)?;
                text.push_str(&section(name, &grid, read(name).transpose()?.as_ref()));
            }
            None => {
                let _ = writeln!(text, "{}", with_values(line, |asked| value(asked, read))?);
            }
        }
    }
    std::fs::write(&args.into, text).with_context(|| args.into.display().to_string())?;
    eprintln!("written to {}", args.into.display());
    Ok(())
}

/// Replaces the references in a line of the template by their values.
fn with_values(line: &str, value: impl Fn(&str) -> Result<Option<f64>>) -> Result<String> {
    let mut parts = line.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (asked, rest) = part.split_once('}').with_context(|| format!("a brace is open in: {line}"))?;
        out.push_str(&value(asked)?.map_or_else(|| "not measured".to_owned(), number));
        out.push_str(rest);
    }
    Ok(out)
}

/// Returns the value of a claim: the first one for `fig01/select`, or that of a column for
/// `regret/usd@csv, 125 MB/s`.
fn value(asked: &str, read: impl Fn(&str) -> Option<Result<Results>>) -> Result<Option<f64>> {
    let (grid, claim, column) = asked_for(asked)?;
    let Some(results) = read(grid).transpose()? else { return Ok(None) };
    let definition = DEFINITIONS.iter().find(|(known, _)| *known == grid);
    let grid = Grid::parse(definition.with_context(|| format!("there is no grid {grid}"))?.1)?;
    let is_asked = |verdict: &&Verdict| {
        grid.claims.get(verdict.claim).is_some_and(|known| known.name == claim)
            && column.is_none_or(|column| column == format!("{}, {}", verdict.format, verdict.condition))
    };
    Ok(verdicts(&grid, &results).iter().find(is_asked).map(|verdict| verdict.value))
}

/// Parses the grid, claim and column of a reference.
fn asked_for(asked: &str) -> Result<(&str, &str, Option<&str>)> {
    let (path, column) = asked.split_once('@').map_or((asked, None), |(path, column)| (path, Some(column)));
    let (grid, claim) = path.split_once('/').with_context(|| format!("{{{asked}}} names no claim of a grid"))?;
    Ok((grid, claim, column))
}

fn section(name: &str, grid: &Grid, results: Option<&Results>) -> String {
    let mut text = format!("## {}\n\n", grid.title);
    if !grid.source.is_empty() {
        let _ = writeln!(text, "{}\n", grid.source.trim());
    }
    let Some(results) = results else {
        let _ = writeln!(text, "Not measured yet: `pushdowndb-bench all --only {name}`.\n");
        return text;
    };
    let one = |what| results.said(what).next().unwrap_or_default();
    let _ = writeln!(text, "Scale {}, {}, {}; {}.\n", one("scale"), one("date"), one("machine"), one("versions"));
    for (what, before) in [("wrong", "**Wrong rows**"), ("left out", "Left out"), ("failed", "Failed")] {
        for line in results.said(what) {
            let _ = writeln!(text, "{before}: {line}.\n");
        }
    }
    let verdicts = verdicts(grid, results);
    if !verdicts.is_empty() {
        let _ = writeln!(text, "{}", claims_table(grid, &verdicts));
    }
    if let Some(reading) = filled_in(&grid.reading, grid, &verdicts) {
        let _ = writeln!(text, "{reading}\n");
    }
    for regret in &grid.regrets {
        let rows = regret::rows(grid, regret, results);
        if !rows.is_empty() {
            let _ = writeln!(text, "### {}\n\n{}", regret.about, regrets_table(grid, &rows));
        }
    }
    if grid.regrets.is_empty() {
        let _ = writeln!(text, "{}", figures_table(grid, results));
    }
    text
}

/// Formats claims as rows, conditions and formats as columns. Missed targets are bold.
fn claims_table(grid: &Grid, verdicts: &[Verdict]) -> String {
    let mut places: Vec<(&str, DataFormat)> = Vec::new();
    for verdict in verdicts {
        if !places.contains(&(verdict.condition.as_str(), verdict.format)) {
            places.push((&verdict.condition, verdict.format));
        }
    }
    let first = ["speed-up of", "paper", "wanted"].map(str::to_owned);
    let across = places.iter().map(|(condition, format)| format!("{format}, {condition}"));
    let mut rows = vec![first.into_iter().chain(across).collect::<Vec<_>>()];
    for (index, claim) in grid.claims.iter().enumerate() {
        let of = |(condition, format): &(&str, DataFormat)| {
            verdicts.iter().find(|v| v.claim == index && v.condition == *condition && v.format == *format)
        };
        if places.iter().all(|place| of(place).is_none()) {
            continue;
        }
        let number_or_nothing = |value: Option<f64>| value.map(number).unwrap_or_default();
        let mut row = vec![claim.about.clone(), number_or_nothing(claim.paper), number_or_nothing(claim.at_least)];
        row.extend(
            places.iter().map(|place| of(place).map(|verdict| shown(verdict, claim.at_least)).unwrap_or_default()),
        );
        rows.push(row);
    }
    aligned(&rows)
}

fn shown(verdict: &Verdict, at_least: Option<f64>) -> String {
    let mut text = number(verdict.value);
    if at_least.is_some_and(|wanted| verdict.value < wanted) {
        text = format!("**{text}** (least at {})", verdict.worst);
    }
    if verdict.points < verdict.of {
        let _ = write!(text, " ({} of {})", verdict.points, verdict.of);
    }
    text
}

/// Fills in the values of a text; `None` if one is missing. `{name}` is the first value of a claim,
/// and `{name@condition}` the value under that condition.
fn filled_in(text: &str, grid: &Grid, verdicts: &[Verdict]) -> Option<String> {
    let mut parts = text.trim().split('{');
    let mut out = parts.next().filter(|_| !text.trim().is_empty())?.to_owned();
    for part in parts {
        let (named, rest) = part.split_once('}')?;
        let (name, condition) = named.split_once('@').map_or((named, None), |(name, place)| (name, Some(place)));
        let of = |verdict: &&Verdict| {
            grid.claims.get(verdict.claim).is_some_and(|claim| claim.name == name)
                && condition.is_none_or(|condition| verdict.condition == condition)
        };
        out.push_str(&number(verdicts.iter().find(of)?.value));
        out.push_str(rest);
    }
    Some(out)
}

/// Formats chosen ÷ best, with queries as rows, conditions and formats as columns. Regrets are
/// bold.
fn regrets_table(grid: &Grid, rows: &[Row]) -> String {
    let above = |of: fn(&Row) -> bool| rows.iter().filter(|row| of(row)).count();
    let mut text = format!(
        "{} choices: {} above what is allowed against the best fixed setting, {} against `{}`.\n\n",
        rows.len(),
        above(|row| row.above_best),
        above(|row| row.above_baseline),
        grid.baseline
    );
    let mut places: Vec<(&str, DataFormat)> = Vec::new();
    for row in rows {
        if !places.contains(&(row.condition.as_str(), row.format)) {
            places.push((&row.condition, row.format));
        }
    }
    let across = places.iter().map(|(condition, format)| format!("{format}, {condition}"));
    let mut table = vec![std::iter::once("÷ best".to_owned()).chain(across).collect::<Vec<_>>()];
    for point in &grid.points {
        let cell = |(condition, format): &(&str, DataFormat)| {
            let of = |row: &&Row| row.point == point.name && row.condition == *condition && row.format == *format;
            let Some(row) = rows.iter().find(of) else { return String::new() };
            let ratio = number(row.chosen / row.best);
            match (row.above_best, row.above_baseline) {
                (false, false) => ratio,
                (true, false) => format!("**{ratio}** {}", row.best_series),
                (_, true) => format!(
                    "**{ratio}** {}, **{}** {}",
                    row.best_series,
                    number(row.chosen / row.baseline),
                    grid.baseline
                ),
            }
        };
        let cells: Vec<String> = places.iter().map(cell).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            table.push(std::iter::once(format!("`{}`", point.name)).chain(cells).collect());
        }
    }
    text.push_str(&aligned(&table));
    text
}

/// Formats points as rows and series as columns for each condition and format: seconds, and dollars
/// by the first price book.
fn figures_table(grid: &Grid, results: &Results) -> String {
    let mut text = String::new();
    for (condition, format) in grid.conditions.iter().flat_map(|c| grid.formats.iter().map(move |f| (&c.name, *f))) {
        let figure = |point: &str, series: &str| results.figure(condition, format, point, series);
        let series: Vec<&str> = grid
            .series
            .iter()
            .map(|series| series.name.as_str())
            .filter(|series| grid.points.iter().any(|point| figure(&point.name, series).is_some()))
            .collect();
        if series.is_empty() {
            continue;
        }
        let head =
            std::iter::once(if grid.axis.is_empty() { "query" } else { &grid.axis }).chain(series.iter().copied());
        let mut rows = vec![head.map(str::to_owned).collect::<Vec<_>>()];
        for point in &grid.points {
            let cells =
                series.iter().map(|name| figure(&point.name, name).map(seconds_and_dollars).unwrap_or_default());
            rows.push(std::iter::once(point.name.clone()).chain(cells).collect());
        }
        let _ = writeln!(
            text,
            "{format}, {condition}: seconds, and dollars of the price book `paper`\n\n{}",
            aligned(&rows)
        );
    }
    text.trim_end().to_owned() + "\n"
}

fn seconds_and_dollars(figure: &Figure) -> String {
    let seconds = number(figure.seconds.median);
    match figure.metric("paper") {
        Some(dollars) => format!("{seconds} s, {:.2e} $", dollars.median),
        None => format!("{seconds} s"),
    }
}

/// Formats a number with three digits.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_grid_has_its_place() {
        for (name, _) in DEFINITIONS {
            assert_eq!(TEMPLATE.lines().filter(|line| *line == format!("{{{{{name}}}}}")).count(), 1, "{name}");
        }
    }

    #[test]
    fn values_are_those_of_claims() {
        let known = |asked: &str| {
            let (grid, claim, _) = asked_for(asked)?;
            let (_, definition) = DEFINITIONS.iter().find(|(known, _)| *known == grid).context("no such grid")?;
            let claims = Grid::parse(definition)?.claims;
            claims.iter().find(|known| known.name == claim).with_context(|| format!("no claim {asked}"))?;
            Ok(Some(38.94))
        };
        assert_eq!(with_values("| a | {fig01/select} | b |", known).unwrap(), "| a | 38.9 | b |");
        assert!(with_values("{fig01/nothing}", known).is_err());
        assert!(with_values("{fig01/select", known).is_err());
        for line in TEMPLATE.lines().filter(|line| !line.starts_with("{{")) {
            with_values(line, known).unwrap();
        }
    }

    #[test]
    fn text_without_its_numbers_is_left_out() {
        let grid = Grid::parse(DEFINITIONS[0].1).unwrap();
        let verdict = Verdict {
            claim: 0,
            condition: "40 MB/s".into(),
            format: DataFormat::Csv,
            value: 38.94,
            worst: String::new(),
            points: 1,
            of: 1,
        };
        let name = &grid.claims[0].name;
        let verdicts = [verdict];
        let text = |text: &str| filled_in(text, &grid, &verdicts);
        assert_eq!(text(&format!("It is {{{name}}} times.")).as_deref(), Some("It is 38.9 times."));
        assert_eq!(text(&format!("It is {{{name}@40 MB/s}} times.")).as_deref(), Some("It is 38.9 times."));
        assert_eq!(text(&format!("It is {{{name}@125 MB/s}} times.")), None);
        assert_eq!(text("It is {unknown} times."), None);
    }
}
