//! Prefilter: searches raw text for bytes that a matching record must hold, before any of the
//! record is decoded.
//!
//! YourSQL puts a hardware pattern matcher in front of the exact filter ("Accelerating Database
//! Systems with In-Storage Computing", Sections 3.1.2 and 3.2): it takes a few keys and marks the
//! pages that hold them, and software looks at those pages only. Here SIMD replaces the hardware,
//! and records replace pages:
//!
//! - [`derive`] turns a predicate into sets of needles: each matching record holds at least one
//!   needle of each set.
//! - [`search`] finds the needles of one set in a block of text and returns the records that hold
//!   one. [`probe`] does it in one pass where the processor has wide registers.
//! - [`sample`] tries the sets on a sample of the text and picks the one with the fewest hits, if
//!   there are few enough for a search to pay (Section 3.2.1). If hits become dense it stops and
//!   tries again later. The choice is shared by all scans of a fragment.
//!
//! The exact filter runs on the records found (Section 3.2.2), so the prefilter never decides that
//! a row passes. A matching record is never left out, however its values are spelled: needles are
//! bytes that all spellings of a value share. Three things could split a needle, which
//! [`search::RecordDelimiters`] handles: a quote that closes inside a field (`"sp"ecial` is
//! `special`), an escape before an ordinary character, and `\u0073` in JSON. Records with those are
//! always decoded.
//!
//! Malformed records that are left out are not reported, see
//! `docs/decisions/0009-lazy-validation.md`.

pub(crate) mod derive;
pub(crate) mod probe;
pub(crate) mod sample;
pub(crate) mod search;
