//! Values as text spells them: fields, numbers, dates, patterns and JSON tokens, and the builders
//! of their columns.

pub(crate) mod builders;
pub(crate) mod dates;
pub(crate) mod digits;
pub(crate) mod fields;
pub(crate) mod json;
pub(crate) mod nulls;
pub(crate) mod parse;
pub(crate) mod pattern;
pub(crate) mod short_decimal;
