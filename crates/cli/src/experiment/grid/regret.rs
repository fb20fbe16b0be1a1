//! Regret: how much worse the chosen plan is than the best fixed setting, and than no pushdown.

use super::super::definition::DataFormat;
use super::super::summary::Spread;
use super::definition::{Grid, Regret};
use super::results::Results;

/// What was chosen for one query, against the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub condition: String,
    pub format: DataFormat,
    pub point: String,
    pub chosen: f64,
    pub best: f64,
    pub best_series: String,
    pub baseline: f64,
    /// Further from the best than is allowed, beyond what measuring explains.
    pub above_best: bool,
    /// Further from the baseline than is allowed, beyond what measuring explains.
    pub above_baseline: bool,
}

/// A row for each query, condition and format that the choice was measured for.
pub fn rows(grid: &Grid, regret: &Regret, results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for condition in &grid.conditions {
        for format in &grid.formats {
            for point in &grid.points {
                let metric = |series: &str| {
                    results.figure(&condition.name, *format, &point.name, series)?.metric(&regret.metric)
                };
                let fixed = grid.series.iter().map(|series| &series.name);
                let fixed = fixed.filter(|name| **name != regret.chosen && !regret.besides.contains(name));
                let best = fixed
                    .filter_map(|name| Some((name, metric(name)?)))
                    .min_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
                let (Some(chosen), Some((name, best)), Some(baseline)) =
                    (metric(&regret.chosen), best, metric(&grid.baseline))
                else {
                    continue;
                };
                rows.push(Row {
                    condition: condition.name.clone(),
                    format: *format,
                    point: point.name.clone(),
                    chosen: chosen.median,
                    best: best.median,
                    best_series: name.clone(),
                    baseline: baseline.median,
                    above_best: is_above(chosen, best, regret.of_best),
                    above_baseline: is_above(chosen, baseline, regret.of_baseline),
                });
            }
        }
    }
    rows
}

/// Whether one is more than `allowed` times the other and their intervals do not overlap.
fn is_above(one: Spread, other: Spread, allowed: f64) -> bool {
    one.median > allowed * other.median && one.min > other.max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regret_counts_when_intervals_are_apart() {
        let spread = |median, min, max| Spread { median, min, max };
        assert!(is_above(spread(1.3, 1.2, 1.4), spread(1.0, 0.9, 1.1), 1.15));
        assert!(!is_above(spread(1.1, 1.05, 1.2), spread(1.0, 0.9, 1.02), 1.15), "as much is allowed");
        assert!(!is_above(spread(1.3, 1.0, 1.4), spread(1.0, 0.9, 1.1), 1.15), "they overlap");
    }
}
