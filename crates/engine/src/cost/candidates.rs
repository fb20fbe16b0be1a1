//! Choice among the strategies for an operator.

use super::model::Model;
use crate::plan::estimate::Estimate;
use crate::plan::explanation::Explanation;
use crate::settings::Objective;

/// The possible strategies for an operator, and the refused ones with reasons.
#[derive(Clone, Debug)]
pub(crate) struct Candidates {
    operator: &'static str,
    model: Model,
    possible: Vec<(&'static str, Estimate)>,
    refused: Vec<(&'static str, String)>,
}

/// The reason for a strategy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reason<'a> {
    /// A setting names it.
    Asked,
    /// The estimates favor it.
    Estimated,
    /// Neither; the text is the reason.
    Because(&'a str),
}

impl Candidates {
    /// Creates an empty choice for `operator`, the name of the setting that chooses its strategy.
    pub(crate) fn new(operator: &'static str, model: &Model) -> Self {
        Self { operator, model: model.clone(), possible: vec![], refused: vec![] }
    }

    pub(crate) fn add(&mut self, strategy: &'static str, estimate: Estimate) {
        self.possible.push((strategy, estimate));
    }

    pub(crate) fn refuse(&mut self, strategy: &'static str, why: impl Into<String>) {
        self.refused.push((strategy, why.into()));
    }

    pub(crate) fn has(&self, strategy: &str) -> bool {
        self.possible.iter().any(|(name, _)| *name == strategy)
    }

    /// Returns the best possible strategy by [`Model::best`].
    pub(crate) fn best(&self) -> Option<&'static str> {
        let estimates: Vec<Estimate> = self.possible.iter().map(|(_, estimate)| *estimate).collect();
        self.possible.get(self.model.best(&estimates)?).map(|(name, _)| *name)
    }

    /// Returns [`Model::worth_seconds`] of `strategy`, if it is possible.
    pub(crate) fn worth_seconds(&self, strategy: &str) -> Option<f64> {
        let estimate = self.possible.iter().find(|(name, _)| *name == strategy).map(|(_, estimate)| estimate)?;
        Some(self.model.worth_seconds(estimate))
    }

    /// Explains the choice of `taken` for EXPLAIN and profiles.
    pub(crate) fn explanation(self, taken: &'static str, reason: Reason<'_>) -> Explanation {
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
        Explanation {
            operator: self.operator,
            taken,
            estimate,
            why,
            alternatives: self.possible.into_iter().filter(|(name, _)| *name != taken).collect(),
            refused: self.refused,
            remark: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::model::tests::model;

    #[test]
    fn an_explanation_has_the_reason_and_the_alternatives() {
        let estimate = |seconds, bytes| Estimate { seconds, bytes, requests: 1, usd: 0.0 };
        let mut candidates = Candidates::new("join", &model(Objective::Latency));
        candidates.add("filtered", estimate(1.0, 20_000_000));
        candidates.refuse("baseline", "it is slow");
        let sole =
            "join=filtered (20.0 MB, 1 requests, 1.00 s, 0.000000 $: nothing else will do; not baseline: it is slow)";
        assert_eq!(candidates.clone().explanation("filtered", Reason::Estimated).to_string(), sole);
        candidates.add("bloom", estimate(1.1, 1_000_000));
        assert_eq!(candidates.best(), Some("bloom"));
        let explanation = candidates.clone().explanation("bloom", Reason::Estimated).to_string();
        assert!(
            explanation.contains("1.10 s, 0.000000 $: fewer bytes in about as many seconds; filtered 20.0 MB"),
            "{explanation}"
        );
        let asked = candidates.explanation("filtered", Reason::Asked).to_string();
        assert!(asked.contains("asked for by SET; bloom 1.0 MB"), "{asked}");
    }
}
