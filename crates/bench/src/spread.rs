//! A figure with the spread of its measurements.

/// The median of some measurements, their minimum and their maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Returns the spread of `values`; `None` if there are none.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (values.get((values.len().max(1) - 1) / 2)?, values.get(values.len() / 2)?);
        Some(Self { median: (low + high) / 2.0, min: *values.first()?, max: *values.last()? })
    }

    /// Returns the spread of an exact value.
    pub fn exact(value: f64) -> Self {
        Self { median: value, min: value, max: value }
    }

    /// Divides all three by `divisor`.
    pub fn over(self, divisor: f64) -> Self {
        Self { median: self.median / divisor, min: self.min / divisor, max: self.max / divisor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0].into_iter()), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([1.0, 4.0].into_iter()), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of([].into_iter()), None);
    }
}
