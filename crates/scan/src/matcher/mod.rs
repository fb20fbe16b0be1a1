//! The byte matcher: looks for bytes that a record must hold to pass, before anything of the record is decoded.
//!
//! YourSQL puts a pattern matcher in front of the filter that decides ("Accelerating Database Systems with In-Storage
//! Computing", Sections 3.1.2 and 3.2): the matcher in the SSD's hardware takes a few keys and marks the pages that
//! hold them, and software looks at those pages only. Here SIMD takes the place of the hardware, and records that of
//! pages:
//!
//! 1. [`derive`] turns a predicate into needles: byte strings of which a record that passes holds at least one.
//!    There may be several such sets; each alone is enough.
//! 2. [`search`] looks for the needles of one set in a block of text and gives the records that hold one.
//!    [`probe`] does it in one pass where the processor is made for that.
//! 3. [`sample`] tries the sets on a little text and takes the one with the fewest hits, if these are few enough for a
//!    search to pay (Section 3.2.1). Where hits become dense, it stops and tries again later. What it found holds for all
//!    scans of a fragment that share it.
//!
//! The exact filter then runs on those records alone (Section 3.2.2), so the matcher never decides that a row passes.
//! It keeps one promise: a record that passes is never left out, however its values are written. Where a value may be
//! spelled in several ways, needles are bytes that all spellings share, or there are none. Three things could still
//! tear a needle apart, and [`search::Marks`] knows them: a quote that closes in the middle of a field (`"sp"ecial` is
//! `special`), an escape before an ordinary character, and `\u0073` in JSON. Records with those are always looked at.
//!
//! What is left out is not looked at in any other way either: a malformed record that cannot pass is not found, see
//! `docs/decisions/0009-what-is-not-looked-at.md`.

mod derive;
mod probe;
mod sample;
mod search;

pub(crate) use derive::{Stored, required};
pub use sample::Matching;
pub(crate) use sample::{Matcher, SearchVerdict};
pub(crate) use search::Marks;
