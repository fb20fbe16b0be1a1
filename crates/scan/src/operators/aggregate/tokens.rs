//! Aggregates over JSON tokens, whose kinds may differ from record to record.

use pushdowndb_contract::{AggregateFunction, Error, Result};

use crate::expr::functions::json::Value;
use crate::expr::number::{Arithmetic, Number};
use crate::values::fields::shorten;

/// An aggregate in progress.
#[derive(Clone, Debug)]
pub(crate) enum TokenTotal {
    /// SUM; or AVG if `mean` is true.
    Sum { total: Option<Number>, count: u64, mean: bool },
    /// The smallest or greatest token so far, with its sort key.
    Best { best: Option<(Vec<u8>, String)>, greatest: bool },
}

impl TokenTotal {
    pub(crate) fn new(function: AggregateFunction) -> Self {
        match function {
            AggregateFunction::Min => Self::Best { best: None, greatest: false },
            AggregateFunction::Max => Self::Best { best: None, greatest: true },
            other => Self::Sum { total: None, count: 0, mean: other == AggregateFunction::Avg },
        }
    }

    pub(crate) fn add(&mut self, token: &str) -> Result<()> {
        let value = Value::of(token);
        match (self, value) {
            (_, Value::Null) => {}
            (Self::Sum { total, count, .. }, Value::Number(number)) => {
                // Intermediate sums of integers may exceed 64 bits.
                let number = number.widened();
                *total = Some(match *total {
                    Some(before) => before.calculate(Arithmetic::Add, number)?,
                    None => number,
                });
                *count += 1;
            }
            (Self::Sum { .. }, _) => {
                let message = format!("SUM and AVG add numbers, not {}", shorten(token));
                return Err(Error::invalid(message).with_code("IncorrectSqlFunctionArgumentType"));
            }
            (Self::Best { best, greatest }, value) => {
                let mut key = Vec::new();
                value.sort_key(&mut key);
                if is_better(&key, best.as_ref(), *greatest) {
                    *best = Some((key, token.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Merges another total of the same aggregate, over later tokens.
    pub(crate) fn merge(&mut self, later: Self) -> Result<()> {
        match (self, later) {
            (Self::Sum { total, count, .. }, Self::Sum { total: Some(more), count: of, .. }) => {
                *total = Some(match *total {
                    Some(before) => before.calculate(Arithmetic::Add, more)?,
                    None => more,
                });
                *count += of;
            }
            (Self::Best { best, greatest }, Self::Best { best: Some((key, token)), .. }) => {
                if is_better(&key, best.as_ref(), *greatest) {
                    *best = Some((key, token));
                }
            }
            (Self::Sum { .. }, Self::Sum { .. }) | (Self::Best { .. }, Self::Best { .. }) => {}
            _ => return Err(Error::internal("a total of another aggregate")),
        }
        Ok(())
    }

    /// Returns the result as a token.
    pub(crate) fn finish(self) -> Result<Option<String>> {
        Ok(match self {
            Self::Sum { total: Some(total), count, mean: true } => Some(total.mean(count)?.to_text()),
            Self::Sum { total, .. } => total.map(Number::to_text),
            Self::Best { best, .. } => best.map(|(_, token)| token),
        })
    }

    /// Returns the approximate memory in bytes, in addition to the size of `self`.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Best { best: Some((key, token)), .. } => key.len() + token.len(),
            _ => 0,
        }
    }
}

/// Returns whether a token with this sort key replaces the best one so far. Among equal tokens, the
/// first one stays.
fn is_better(key: &[u8], best: Option<&(Vec<u8>, String)>, greatest: bool) -> bool {
    best.is_none_or(|(old, _)| if greatest { key > old.as_slice() } else { key < old.as_slice() })
}
