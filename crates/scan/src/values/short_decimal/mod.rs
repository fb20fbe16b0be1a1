//! Short decimals: numbers of up to eight digits, for which there is a fast path.
//!
//! A field of few digits, with or without a point, is decoded or compared without the general rule
//! of its type. [`group`] decodes fields in groups, [`range`] decides conditions for one field at a
//! time. Both leave other spellings to the general rule.

pub(crate) mod group;
pub(crate) mod number;
pub(crate) mod range;
