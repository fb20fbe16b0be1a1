//! Regret: how much slower or more expensive the chosen plan is than the best fixed setting, and
//! than no pushdown.

use super::definition::{Grid, Regret};
use super::results::{Figure, Results};
use crate::contestant::DataFormat;
use crate::spread::Spread;

/// The relative difference below which numbers of bytes count as equal, since compression of
/// different batches changes them slightly.
const SAME_BYTES: f64 = 0.01;
const SAME_BYTES_AT_LEAST: f64 = 4096.0;

/// The chosen setting for one query, compared with all others.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub condition: String,
    pub format: DataFormat,
    pub point: String,
    pub chosen: f64,
    pub best: f64,
    pub best_series: String,
    pub baseline: f64,
    /// Whether the chosen setting exceeds the best by more than the limit and the noise.
    pub above_best: bool,
    /// Whether the chosen setting exceeds the baseline by more than the limit and the noise.
    pub above_baseline: bool,
}

/// Returns a row for each query, condition and format in which the choice was measured.
pub fn rows(grid: &Grid, regret: &Regret, results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for condition in &grid.conditions {
        for format in &grid.formats {
            for point in &grid.points {
                let figures = grid.series.iter().filter_map(|series| {
                    let figure = results.figure(&condition.name, *format, &point.name, &series.name)?;
                    Some((series.name.as_str(), figure))
                });
                let plans = Plan::all(figures, &regret.metric);
                let plan = |series: &str| plans.iter().find(|plan| plan.series(|name| name == series).is_some());
                let is_fixed = |name: &str| name != regret.chosen && !regret.besides.iter().any(|other| other == name);
                let best = plans.iter().filter_map(|plan| Some((plan.series(is_fixed)?, plan.spread())));
                let best = best.min_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
                let (Some(chosen), Some((name, best)), Some(baseline)) =
                    (plan(&regret.chosen).map(Plan::spread), best, plan(&grid.baseline).map(Plan::spread))
                else {
                    continue;
                };
                rows.push(Row {
                    condition: condition.name.clone(),
                    format: *format,
                    point: point.name.clone(),
                    chosen: chosen.median,
                    best: best.median,
                    best_series: name.to_owned(),
                    baseline: baseline.median,
                    above_best: is_above(chosen, best, regret.of_best),
                    above_baseline: is_above(chosen, baseline, regret.of_baseline),
                });
            }
        }
    }
    rows
}

/// Settings that led to the same plan, which is recognized by equal bytes and requests. Their runs
/// count as runs of that plan.
#[derive(Debug)]
struct Plan<'a> {
    first: &'a Figure,
    /// The measurements of each setting.
    of: Vec<(&'a str, Spread)>,
}

impl<'a> Plan<'a> {
    fn all(figures: impl Iterator<Item = (&'a str, &'a Figure)>, metric: &str) -> Vec<Self> {
        let mut plans: Vec<Self> = Vec::new();
        for (name, figure) in figures {
            let Some(took) = figure.metric(metric) else { continue };
            match plans.iter_mut().find(|plan| is_same(plan.first, figure)) {
                Some(plan) => plan.of.push((name, took)),
                None => plans.push(Self { first: figure, of: vec![(name, took)] }),
            }
        }
        plans
    }

    /// The first of its settings that satisfies `holds`.
    fn series(&self, holds: impl Fn(&str) -> bool) -> Option<&'a str> {
        self.of.iter().map(|(name, _)| *name).find(|name| holds(name))
    }

    fn spread(&self) -> Spread {
        let all = || self.of.iter().map(|(_, spread)| spread);
        Spread {
            median: Spread::of(all().map(|spread| spread.median)).map_or(f64::NAN, |medians| medians.median),
            min: all().map(|spread| spread.min).fold(f64::INFINITY, f64::min),
            max: all().map(|spread| spread.max).fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

fn is_same(a: &Figure, b: &Figure) -> bool {
    let bytes = a.bytes.zip(b.bytes).map(|(a, b)| (a as f64, b as f64));
    a.requests == b.requests
        && bytes.is_some_and(|(a, b)| (a - b).abs() <= (a.max(b) * SAME_BYTES).max(SAME_BYTES_AT_LEAST))
}

/// Whether `one` is more than `allowed` times `other` and their intervals do not overlap.
fn is_above(one: Spread, other: Spread, allowed: f64) -> bool {
    one.median > allowed * other.median && one.min > other.max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_lead_to_the_same_plan_are_runs_of_it() {
        let figure = |seconds, bytes, requests| Figure {
            runs: 1,
            rows: 1,
            seconds: Spread::exact(seconds),
            dollars: vec![],
            bytes: Some(bytes),
            requests: Some(requests),
            engine_cpu_s: 0.0,
            storage_cpu_s: 0.0,
        };
        let figures = [
            ("auto", figure(1.4, 10_000_000, 5)),
            ("fragment", figure(1.0, 10_050_000, 5)),
            ("bloom", figure(1.2, 9_990_000, 5)),
            ("filtered", figure(1.1, 10_000_000, 6)),
            ("none", figure(3.0, 90_000_000, 5)),
        ];
        let plans = Plan::all(figures.iter().map(|(name, figure)| (*name, figure)), "seconds");
        let names = plans.iter().map(|plan| plan.of.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        assert_eq!(names.collect::<Vec<_>>(), [vec!["auto", "fragment", "bloom"], vec!["filtered"], vec!["none"]]);
        assert_eq!(plans[0].spread(), Spread { median: 1.2, min: 1.0, max: 1.4 });
    }

    #[test]
    fn a_regret_counts_when_intervals_are_apart() {
        let spread = |median, min, max| Spread { median, min, max };
        assert!(is_above(spread(1.3, 1.2, 1.4), spread(1.0, 0.9, 1.1), 1.15));
        assert!(!is_above(spread(1.1, 1.05, 1.2), spread(1.0, 0.9, 1.02), 1.15), "as much is allowed");
        assert!(!is_above(spread(1.3, 1.0, 1.4), spread(1.0, 0.9, 1.1), 1.15), "they overlap");
    }
}
