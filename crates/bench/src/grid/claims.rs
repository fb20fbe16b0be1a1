//! Checks whether results meet the claims.

use super::definition::{Claim, Grid, How};
use super::results::{Figure, Results};
use crate::contestant::DataFormat;

/// A claim under one condition in one format.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub claim: usize,
    pub condition: String,
    pub format: DataFormat,
    /// The ratio of the other series to `of`.
    pub value: f64,
    /// The point with the smallest ratio.
    pub worst: String,
    /// Number of points that both sides measured, and number of points that the claim is about.
    pub points: usize,
    pub of: usize,
}

/// Checks all claims of a grid for which anything was measured.
pub fn verdicts(grid: &Grid, results: &Results) -> Vec<Verdict> {
    let mut all = Vec::new();
    for (index, claim) in grid.claims.iter().enumerate() {
        for condition in &grid.conditions {
            let named = |names: &Option<Vec<String>>, name: &str| {
                names.as_ref().is_none_or(|names| names.iter().any(|known| known == name))
            };
            if !named(&claim.conditions, &condition.name) {
                continue;
            }
            for format in claim.formats.as_ref().unwrap_or(&grid.formats) {
                all.extend(verdict(grid, index, claim, &condition.name, *format, results));
            }
        }
    }
    all
}

fn verdict(
    grid: &Grid,
    index: usize,
    claim: &Claim,
    condition: &str,
    format: DataFormat,
    results: &Results,
) -> Option<Verdict> {
    let all_points = || grid.points.iter().map(|point| point.name.clone()).collect();
    let pairs: Vec<[String; 2]> = match &claim.at {
        Some(pair) => vec![pair.clone()],
        None => claim.points.clone().unwrap_or_else(all_points).into_iter().map(|name| [name.clone(), name]).collect(),
    };
    let metric = |figure: &Figure| figure.metric(&claim.metric).map(|spread| spread.median);
    let sides: Vec<(&str, f64, f64)> = pairs
        .iter()
        .filter_map(|[at, there]| {
            let ours = metric(results.figure(condition, format, at, &claim.of)?)?;
            let theirs = claim.over.iter().filter_map(|name| metric(results.figure(condition, format, there, name)?));
            Some((at.as_str(), ours, theirs.min_by(f64::total_cmp)?))
        })
        .collect();
    let ratio = |(_, ours, theirs): &(&str, f64, f64)| theirs / ours.max(1e-12);
    let worst = sides.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    let value = match claim.how {
        How::Mean => (sides.iter().map(|side| ratio(side).ln()).sum::<f64>() / sides.len() as f64).exp(),
        How::Total => {
            let (ours, theirs) = sides.iter().fold((0.0, 0.0), |(a, b), (_, ours, theirs)| (a + ours, b + theirs));
            theirs / ours
        }
        How::Worst => ratio(worst),
    };
    Some(Verdict {
        claim: index,
        condition: condition.to_owned(),
        format,
        value,
        worst: worst.0.to_owned(),
        points: sides.len(),
        of: pairs.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::results::Cell;
    use super::super::results::tests::figure;
    use super::*;

    const TEXT: &str = r#"
        title = "t"
        data = "tpch"
        formats = ["csv"]
        baseline = "none"
        condition = [{ name = "c", mb_per_s = 40 }]
        series = [{ name = "none" }, { name = "select" }, { name = "auto" }]
        point = [{ name = "q01" }, { name = "q06" }, { name = "q14" }]
        claim = [
            { about = "mean", of = "auto", over = ["none", "select"] },
            { about = "total", of = "auto", over = ["none"], how = "total" },
            { about = "worst", of = "auto", over = ["none", "select"], how = "worst" },
            { about = "pair", of = "none", over = ["none"], at = ["q01", "q06"] },
            { about = "dollars", metric = "paper", of = "auto", over = ["none"] },
        ]
    "#;

    #[test]
    fn ratios_of_points_become_one() {
        let grid = Grid::parse(TEXT).unwrap();
        let mut results = Results::default();
        for (point, series, seconds) in [
            ("q01", "none", 8.0),
            ("q01", "select", 4.0),
            ("q01", "auto", 1.0),
            ("q06", "none", 1.0),
            ("q06", "auto", 1.0),
        ] {
            let [condition, point, series] = ["c", point, series].map(str::to_owned);
            let cell = Cell { condition, format: DataFormat::Csv, point, series };
            results.figures.insert(cell, figure(seconds, None));
        }
        let verdicts = verdicts(&grid, &results);
        let value = |claim: usize| verdicts.iter().find(|verdict| verdict.claim == claim).map(|verdict| verdict.value);
        assert!((value(0).unwrap() - 2.0).abs() < 1e-9, "the square root of 4 times 1");
        assert_eq!((value(1), value(2), value(4)), (Some(4.5), Some(1.0), None));
        assert!((value(3).unwrap() - 0.125).abs() < 1e-9);
        let mean = &verdicts[0];
        assert_eq!((mean.points, mean.of, mean.worst.as_str()), (2, 3, "q06"));
    }
}
