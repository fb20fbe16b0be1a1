//! Which of the strategies for an operator is taken, and what EXPLAIN says of that; the same for every operator.
//!
//! ```text
//! join=bloom (0.4 MB, 2 requests, 0.57 s, 0.000023 $: fewest seconds; filtered 14.4 MB, …; not baseline: …)
//! ```

use std::fmt;

use super::estimate::{Estimate, Model};
use crate::settings::Objective;

/// The strategies for one operator that are possible, and those that are not.
#[derive(Clone, Debug)]
pub(crate) struct Candidates {
    operator: &'static str,
    model: Model,
    possible: Vec<(&'static str, Estimate)>,
    refused: Vec<(&'static str, String)>,
}

/// Why a strategy is taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reason<'a> {
    /// A setting names it.
    Asked,
    /// By the estimates.
    Estimated,
    /// Neither: this is why.
    Because(&'a str),
}

impl Candidates {
    /// For an operator, called as the setting that names its strategies.
    pub(crate) fn new(operator: &'static str, model: &Model) -> Self {
        Self { operator, model: model.clone(), possible: vec![], refused: vec![] }
    }

    /// A strategy that would do.
    pub(crate) fn add(&mut self, strategy: &'static str, estimate: Estimate) {
        self.possible.push((strategy, estimate));
    }

    /// A strategy that will not do.
    pub(crate) fn refuse(&mut self, strategy: &'static str, why: impl Into<String>) {
        self.refused.push((strategy, why.into()));
    }

    /// Whether the strategy would do.
    pub(crate) fn has(&self, strategy: &str) -> bool {
        self.possible.iter().any(|(name, _)| *name == strategy)
    }

    /// The best of those that would do.
    pub(crate) fn best(&self) -> Option<&'static str> {
        let estimates: Vec<Estimate> = self.possible.iter().map(|(_, estimate)| *estimate).collect();
        self.possible.get(self.model.best(&estimates)?).map(|(name, _)| *name)
    }

    /// The seconds of the engine that one that would do is worth.
    pub(crate) fn worth_seconds(&self, strategy: &str) -> Option<f64> {
        let estimate = self.possible.iter().find(|(name, _)| *name == strategy).map(|(_, estimate)| estimate)?;
        Some(self.model.worth_seconds(estimate))
    }

    /// What is told when this one is taken.
    pub(crate) fn story(self, taken: &'static str, reason: Reason<'_>) -> Story {
        let estimate = self.possible.iter().find(|(name, _)| *name == taken).map(|(_, estimate)| *estimate);
        let counts = |estimate: &Estimate| self.model.counts(estimate);
        let what = match self.model.objective() {
            Objective::Latency => "seconds",
            Objective::Cost => "dollars",
        };
        let fewest = self.possible.iter().map(|(_, other)| counts(other)).fold(f64::INFINITY, f64::min);
        let why = match reason {
            Reason::Asked => "asked for by SET".to_owned(),
            Reason::Because(why) => why.to_owned(),
            Reason::Estimated if self.possible.len() < 2 => "nothing else will do".to_owned(),
            Reason::Estimated if estimate.is_none_or(|estimate| counts(&estimate) <= fewest) => {
                format!("fewest {what}")
            }
            Reason::Estimated => format!("fewer bytes in about as many {what}"),
        };
        Story {
            operator: self.operator,
            taken,
            estimate,
            why,
            losers: self.possible.into_iter().filter(|(name, _)| *name != taken).collect(),
            refused: self.refused,
            remark: None,
        }
    }
}

/// What was chosen for an operator and why: a line of EXPLAIN, a table in a profile.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    /// Called as the setting that names its strategies.
    pub(crate) operator: &'static str,
    pub(crate) taken: &'static str,
    /// What the strategy that was taken would cost, where that was estimated.
    pub(crate) estimate: Option<Estimate>,
    /// Why it was taken.
    pub(crate) why: String,
    /// What the others would cost.
    pub(crate) losers: Vec<(&'static str, Estimate)>,
    /// Those that will not do, and why.
    pub(crate) refused: Vec<(&'static str, String)>,
    /// What else there is to say of the choice.
    pub(crate) remark: Option<String>,
}

impl Story {
    /// The share of the other strategy's bytes that this one moves, if it was taken.
    pub(crate) fn share_of(&self, taken: &str, other: &str) -> Option<f64> {
        let own = self.estimate.filter(|_| self.taken == taken)?;
        let (_, other) = self.losers.iter().find(|(name, _)| *name == other)?;
        Some(own.bytes as f64 / other.bytes.max(1) as f64)
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={} (", self.operator, self.taken)?;
        self.estimate.iter().try_for_each(|estimate| write!(f, "{estimate}: "))?;
        f.write_str(&self.why)?;
        self.losers.iter().try_for_each(|(name, estimate)| write!(f, "; {name} {estimate}"))?;
        self.refused.iter().try_for_each(|(name, why)| write!(f, "; not {name}: {why}"))?;
        f.write_str(")")?;
        self.remark.iter().try_for_each(|remark| write!(f, ", {remark}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::estimate::tests::model;
    use super::*;

    #[test]
    fn the_story_says_why_and_what_lost() {
        let estimate = |seconds, bytes| Estimate { seconds, bytes, requests: 1, usd: 0.0 };
        let mut candidates = Candidates::new("join", &model(Objective::Latency));
        candidates.add("filtered", estimate(1.0, 20_000_000));
        candidates.refuse("baseline", "it is slow");
        let sole =
            "join=filtered (20.0 MB, 1 requests, 1.00 s, 0.000000 $: nothing else will do; not baseline: it is slow)";
        assert_eq!(candidates.clone().story("filtered", Reason::Estimated).to_string(), sole);
        candidates.add("bloom", estimate(1.1, 1_000_000));
        assert_eq!(candidates.best(), Some("bloom"));
        let story = candidates.clone().story("bloom", Reason::Estimated).to_string();
        assert!(
            story.contains("1.10 s, 0.000000 $: fewer bytes in about as many seconds; filtered 20.0 MB"),
            "{story}"
        );
        let asked = candidates.story("filtered", Reason::Asked).to_string();
        assert!(asked.contains("asked for by SET; bloom 1.0 MB"), "{asked}");
    }
}
