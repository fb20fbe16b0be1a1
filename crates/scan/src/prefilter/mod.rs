//! The prefilter searches raw text for bytes that a matching record must contain, before any part
//! of the record is decoded.
//!
//! YourSQL puts a hardware pattern matcher in front of the exact filter ("Accelerating Database
//! Systems with In-Storage Computing", Sections 3.1.2 and 3.2). The matcher takes a few keys and
//! marks the pages that contain them, and software reads only those pages. Here SIMD replaces the
//! hardware, and records replace pages:
//!
//! - [`derive`] converts a predicate into sets of needles. Each matching record contains at least
//!   one needle of each set.
//! - [`search`] finds the needles of one set in a block of text, and returns the records with a
//!   hit. [`probe`] does so in a single pass if the processor has wide registers.
//! - [`sample`] tries the sets on a sample of the text and selects the set with the fewest hits, if
//!   they are few enough for a search to pay (Section 3.2.1). If hits become dense, searching stops
//!   and is tried again later. All scans of a fragment share the selection.
//!
//! The exact filter runs on the records that are found (Section 3.2.2), so the prefilter never
//! decides that a row passes. It never omits a matching record, however its values are spelled,
//! because needles are bytes that all spellings of a value share. Three things could split a
//! needle: a quote that closes inside a field (`"sp"ecial` is `special`), an escape before an
//! ordinary character, and `\u0073` in JSON. Records with those are always decoded
//! ([`search::RecordDelimiters`]).
//!
//! Malformed records that are omitted are not reported, see
//! `docs/decisions/0009-lazy-validation.md`.

pub(crate) mod derive;
pub(crate) mod probe;
pub(crate) mod sample;
pub(crate) mod search;
