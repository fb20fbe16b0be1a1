//! Functions that DataFusion lacks, and those that replace its own.
//!
//! ```text
//! arithmetic, casts, checked_sum, date_part, domain, timezone    in place of DataFusion's
//! json, dates, texts, values, counted                            new ones
//! field_access                                                   fields, elements and slices in brackets
//! truth_texts                                                    texts beside a BOOLEAN
//! sampled_splits                                                 what TABLESAMPLE SYSTEM becomes
//! described                                                      a line on each new one
//! simple                                                         what most of the new ones are made of
//! ```
//!
//! A function that others can express is not implemented here, but rewritten in the statement
//! ([`crate::sql::syntax::macros`]).

pub(crate) mod arithmetic;
pub(crate) mod casts;
pub(crate) mod checked_sum;
pub(crate) mod counted;
pub(crate) mod date_part;
pub(crate) mod dates;
pub(crate) mod described;
pub(crate) mod domain;
pub(crate) mod field_access;
pub(crate) mod json;
pub(crate) mod sampled_splits;
mod simple;
pub(crate) mod texts;
pub(crate) mod timezone;
pub(crate) mod truth_texts;
pub(crate) mod values;
