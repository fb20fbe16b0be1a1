//! Expressions of the contract: lowering to DataFusion's expressions, casts, functions, Bloom
//! filters, and evaluation on batches.

pub(crate) mod bloom;
pub(crate) mod bloom_answers;
pub(crate) mod cast;
pub(crate) mod coerce;
pub(crate) mod columns;
pub(crate) mod decimal;
pub(crate) mod evaluator;
pub(crate) mod floats;
pub(crate) mod functions;
pub(crate) mod lower;
pub(crate) mod number;
pub(crate) mod physical;
pub(crate) mod weight;
pub(crate) mod work;
