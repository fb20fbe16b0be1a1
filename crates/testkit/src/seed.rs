//! Seeds and counts of randomized tests.

use std::time::{SystemTime, UNIX_EPOCH};

/// The environment variable with the seed of a run to repeat.
pub const SEED: &str = "PUSHDOWNDB_SEED";

/// Returns the seed in [`SEED`], or a fresh one if it is not set, and prints it.
pub fn seed() -> u64 {
    let seed = number_from(SEED).unwrap_or_else(fresh);
    println!("repeat with {SEED}={seed}");
    seed
}

/// Returns a seed from the clock.
pub fn fresh() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis() as u64
}

/// Returns the number in an environment variable, if it is set.
pub fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Returns the value of an environment variable for use as an argument, or `default` if it is not
/// set.
pub fn text_from(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_owned())
}
