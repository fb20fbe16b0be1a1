//! A fragment over bytes.
//!
//! One evaluator for both sides of the network: the node runs it next to the disks, the engine runs it
//! over plain reads. What they agree on is therefore not a matter of care but of construction.

mod reader;

pub use reader::ObjectReader;
