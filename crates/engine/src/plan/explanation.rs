//! The choice made for an operator, as EXPLAIN prints it.
//!
//! ```text
//! join=bloom (0.4 MB, 2 requests, 0.57 s, 0.000023 $: fewest seconds; filtered 14.4 MB, …)
//! ```

use std::fmt;

use super::estimate::Estimate;

#[derive(Clone, Debug)]
pub(crate) struct Explanation {
    /// The operator, by the name of the setting that chooses its strategy.
    pub(crate) operator: &'static str,
    pub(crate) taken: &'static str,
    /// The estimate of `taken`, if there is one.
    pub(crate) estimate: Option<Estimate>,
    pub(crate) why: String,
    /// The other possible strategies.
    pub(crate) alternatives: Vec<(&'static str, Estimate)>,
    /// The impossible strategies, with reasons.
    pub(crate) refused: Vec<(&'static str, String)>,
    /// Further text for the end of the line.
    pub(crate) remark: Option<String>,
}

impl Explanation {
    /// Returns the estimated bytes of strategy `taken` divided by those of `other`; `None` if
    /// `taken` was not chosen.
    pub(crate) fn share_of(&self, taken: &str, other: &str) -> Option<f64> {
        let own = self.estimate.filter(|_| self.taken == taken)?;
        let (_, other) = self.alternatives.iter().find(|(name, _)| *name == other)?;
        Some(own.bytes as f64 / other.bytes.max(1) as f64)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={} (", self.operator, self.taken)?;
        self.estimate.iter().try_for_each(|estimate| write!(f, "{estimate}: "))?;
        f.write_str(&self.why)?;
        self.alternatives.iter().try_for_each(|(name, estimate)| write!(f, "; {name} {estimate}"))?;
        self.refused.iter().try_for_each(|(name, why)| write!(f, "; not {name}: {why}"))?;
        f.write_str(")")?;
        self.remark.iter().try_for_each(|remark| write!(f, ", {remark}"))
    }
}
