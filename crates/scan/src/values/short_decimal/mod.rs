//! Short decimals: numbers of up to eight characters, the fast path of fields that hold them.
//!
//! A field of few digits, with a point or none, is decoded or compared without the general rule of
//! its type: [`group`] decodes fields a group at a time, [`range`] decides conditions one by one.
//! Both leave other spellings to the general rule.

pub(crate) mod group;
pub(crate) mod number;
pub(crate) mod range;
