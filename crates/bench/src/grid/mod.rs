//! Grids: queries through links of several speeds, by PushdownDB with several settings and by other
//! engines, defined as data.
//!
//! The figures of the PushdownDB paper, the table of regrets, the comparison with other engines and
//! the runs under trouble are grids that differ only in their definitions.
//!
//! ```text
//! definition   a grid as data: points, series, formats, conditions, claims
//! trouble      other load and failures of the node
//! storage      the node and its tables
//! run          measures cell after cell, in rounds
//! estimate     the time of a run
//! results      medians with intervals, as CSV
//! claims       checks of claims against results
//! regret       the chosen plan against the best one
//! report       docs/evaluation.md
//! ```

mod claims;
mod definition;
mod estimate;
mod regret;
mod report;
mod results;
mod run;
mod storage;
mod trouble;

pub use report::report;
pub use run::run;

/// The definitions of the tree by their names, in the order of the report.
const DEFINITIONS: [(&str, &str); 14] = [
    ("fig01", include_str!("../../../../experiments/fig01.toml")),
    ("fig02", include_str!("../../../../experiments/fig02.toml")),
    ("fig03", include_str!("../../../../experiments/fig03.toml")),
    ("fig04", include_str!("../../../../experiments/fig04.toml")),
    ("fig05", include_str!("../../../../experiments/fig05.toml")),
    ("fig06", include_str!("../../../../experiments/fig06.toml")),
    ("fig07", include_str!("../../../../experiments/fig07.toml")),
    ("fig08", include_str!("../../../../experiments/fig08.toml")),
    ("fig09", include_str!("../../../../experiments/fig09.toml")),
    ("fig10", include_str!("../../../../experiments/fig10.toml")),
    ("fig11", include_str!("../../../../experiments/fig11.toml")),
    ("regret", include_str!("../../../../experiments/regret.toml")),
    ("peers", include_str!("../../../../experiments/peers.toml")),
    ("chaos", include_str!("../../../../experiments/chaos.toml")),
];
