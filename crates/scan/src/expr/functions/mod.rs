//! Functions of the contract that are implemented here.

pub(crate) mod json;
pub(crate) mod letter_case;
pub(crate) mod like;
pub(crate) mod substring;
pub(crate) mod text;
pub(crate) mod time;
