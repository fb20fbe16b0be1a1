//! An exponentially weighted moving average.

/// Minimum weight of a new value, so that the last few values dominate.
const WEIGHT: f64 = 0.3;

/// A mean of observed values, in which later ones count more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ewma {
    mean: f64,
    /// The number of values so far; 0 if the mean is only assumed.
    count: u32,
}

impl Ewma {
    /// A mean that is `assumed` until the first value replaces it.
    pub(crate) fn assumed(assumed: f64) -> Self {
        Self { mean: assumed, count: 0 }
    }

    /// A mean measured earlier, which counts as one value.
    pub(crate) fn measured(mean: f64) -> Self {
        Self { mean, count: 1 }
    }

    pub(crate) fn mean(self) -> f64 {
        self.mean
    }

    /// The mean, unless it is only assumed.
    pub(crate) fn if_measured(self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// Adds a value: to the plain mean of the first few, then to a moving average. `confidence`,
    /// from 0 to 1, scales its weight.
    pub(crate) fn add(&mut self, value: f64, confidence: f64) {
        self.count = self.count.saturating_add(1);
        let weight = WEIGHT.max(1.0 / f64::from(self.count));
        self.mean += weight * confidence * (value - self.mean);
    }

    /// Moves the mean towards an uncertain value by `weight`, from 0 to 1, without counting the
    /// value.
    pub(crate) fn nudge(&mut self, value: f64, weight: f64) {
        self.mean += weight * (value - self.mean);
    }

    /// Raises the mean to `least` if it is lower.
    pub(crate) fn raise(&mut self, least: f64) {
        self.mean = self.mean.max(least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_replaces_the_assumption_and_later_ones_move_the_mean() {
        let mut mean = Ewma::assumed(7.0);
        assert_eq!((mean.mean(), mean.if_measured()), (7.0, None));
        for (value, expected) in [(100.0, 100.0), (200.0, 150.0), (300.0, 200.0), (200.0, 200.0), (300.0, 230.0)] {
            mean.add(value, 1.0);
            assert!((mean.mean() - expected).abs() < 1e-9, "{value}: {mean:?}");
        }
        mean.add(330.0, 0.5);
        assert!((mean.mean() - 245.0).abs() < 1e-9, "half as sure: {mean:?}");
        let mut again = Ewma::measured(100.0);
        again.add(200.0, 1.0);
        assert_eq!(again.if_measured(), Some(150.0));
    }

    #[test]
    fn doubtful_values_move_it_little_and_bounds_only_raise_it() {
        let mut mean = Ewma::measured(100.0);
        mean.nudge(0.0, 0.1);
        assert_eq!(mean.mean(), 90.0);
        mean.raise(80.0);
        assert_eq!(mean.mean(), 90.0);
        mean.raise(95.0);
        assert_eq!(mean.mean(), 95.0);
        let mut assumed = Ewma::assumed(1.0);
        assumed.nudge(2.0, 0.5);
        assert_eq!(assumed.if_measured(), None);
    }
}
