//! The settings of a session: `SET pushdown.level = 'none'` and its siblings.

use std::time::Duration;

use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::extensions_options;
use pushdown::{Error, Result};
use pushdowndb_cost::PriceBook;

extensions_options! {
    /// What `SET pushdown.x = …` changes. Values are text so that a wrong one is refused with our own words.
    pub struct PushdownOptions {
        /// How much storage may do: auto, none, select, fragment
        pub level: String, default = "auto".to_string()
        /// Where filters and projections run: auto, compute, storage, index
        pub filter: String, default = "auto".to_string()
        /// Where aggregates without groups run: auto, compute, storage
        pub aggregate: String, default = "auto".to_string()
        /// How joins run: auto, baseline, filtered, bloom
        pub join: String, default = "auto".to_string()
        /// How GROUP BY and DISTINCT run: auto, compute, filtered, storage, hybrid
        pub group_by: String, default = "auto".to_string()
        /// How ORDER BY with a LIMIT runs: auto, compute, sampling, storage
        pub top_k: String, default = "auto".to_string()
        /// Whether tables are looked at first, by few small reads, to choose better: auto, none
        pub statistics: String, default = "auto".to_string()
        /// Who scans the splits of a running scan, storage or the engine: auto, none (as chosen before), both
        pub adaptive: String, default = "auto".to_string()
        /// What is chosen for: latency or cost
        pub objective: String, default = "latency".to_string()
        /// The share of other keys that a join's Bloom filter lets pass; a server's limits may raise it
        pub false_positives: f64, default = 0.01
        /// Groups that a hybrid GROUP BY aggregates by S3 Select; 0 is as many as are large
        pub large_groups: usize, default = 0
        /// Rows that ORDER BY with a LIMIT samples; 0 is as many as move the fewest bytes
        pub sample_rows: u64, default = 0
        /// The prices of the bill: paper, paper-egress, or the path of a TOML file
        pub price_book: String, default = "paper".to_string()
        /// A query may move at most this many bytes over the network; 0 is no cap
        pub max_bytes: u64, default = 0
        /// A query may cost at most this many dollars; 0 is no cap
        pub max_usd: f64, default = 0.0
        /// Requests in flight per partition of a pushed scan
        pub requests: usize, default = 4
        /// Objects that can be split are scanned in pieces of this many bytes when pushed
        pub split_bytes: u64, default = 16 * 1024 * 1024
        /// Rows of a pushed split are held back until it is complete, up to this many bytes
        pub buffer_bytes: u64, default = 32 * 1024 * 1024
        /// A connection that is silent for this many seconds is given up and tried again
        pub timeout_s: u64, default = 30
        /// A query is stopped after this many seconds; 0 is no limit
        pub query_timeout_s: u64, default = 0
        /// How often a failed request is sent again before the scan falls back or fails
        pub retries: usize, default = 3
    }
}

impl ConfigExtension for PushdownOptions {
    const PREFIX: &'static str = "pushdown";
}

/// Which side runs an operator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// Chosen per query.
    Auto,
    /// The engine, on plainly read data.
    Compute,
    /// Storage, where it can.
    Storage,
}

/// Who scans the splits of a running scan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Adaptivity {
    /// Whoever was chosen before.
    None,
    /// Whoever is faster, or both.
    Auto,
    /// Both, however fast they are.
    Both,
}

/// What counts where strategies are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Objective {
    /// Seconds.
    Latency,
    /// Dollars, by the price book.
    Cost,
}

/// When an index is used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IndexUse {
    /// Not at all.
    Never,
    /// Where that is probably fastest.
    Auto,
    /// Wherever there is one.
    Always,
}

/// How the tables of a join are scanned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JoinStrategy {
    /// Chosen per join.
    Auto,
    /// Plain reads.
    Baseline,
    /// Each by its own filters.
    Filtered,
    /// The second by the keys of the first, too.
    Bloom,
}

/// How the first rows of an order are found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TopKStrategy {
    /// Chosen per query.
    Auto,
    /// The engine sorts all rows.
    Compute,
    /// A sample bounds the rows that storage sends.
    Sampling,
    /// Storage sends the first rows of each split, where it can.
    Storage,
}

/// How rows are grouped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GroupByStrategy {
    /// Chosen per query.
    Auto,
    /// The engine, over plainly read data.
    Compute,
    /// The engine, over what storage filters and projects.
    Filtered,
    /// Storage.
    Storage,
    /// Storage for the large groups, the engine for the rest.
    Hybrid,
}

impl PushdownOptions {
    /// The options of a session.
    pub fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// The highest level allowed, `None` for auto.
    pub fn level_cap(&self) -> Result<Option<pushdown::Level>> {
        match self.level.to_ascii_lowercase().as_str() {
            "auto" => Ok(None),
            "none" => Ok(Some(pushdown::Level::None)),
            "select" => Ok(Some(pushdown::Level::Select)),
            "fragment" => Ok(Some(pushdown::Level::Fragment)),
            other => Err(unknown("level", other, "auto, none, select, fragment")),
        }
    }

    /// Where filters run that no index settles.
    pub fn filter_side(&self) -> Result<Side> {
        match self.filter.to_ascii_lowercase().as_str() {
            "index" => Ok(Side::Auto),
            "auto" | "compute" | "storage" => side("filter", &self.filter),
            other => Err(unknown("filter", other, "auto, compute, storage, index")),
        }
    }

    /// Whether filters are looked up in indexes.
    pub fn index_use(&self) -> Result<IndexUse> {
        Ok(match self.filter.to_ascii_lowercase().as_str() {
            "index" => IndexUse::Always,
            // The baseline reads plainly.
            "auto" if self.level_cap()? != Some(pushdown::Level::None) => IndexUse::Auto,
            _ => IndexUse::Never,
        })
    }

    /// Where scalar aggregates run.
    pub fn aggregate_side(&self) -> Result<Side> {
        side("aggregate", &self.aggregate)
    }

    /// How joins run.
    pub fn join_strategy(&self) -> Result<JoinStrategy> {
        match self.join.to_ascii_lowercase().as_str() {
            "auto" => Ok(JoinStrategy::Auto),
            "baseline" => Ok(JoinStrategy::Baseline),
            "filtered" => Ok(JoinStrategy::Filtered),
            "bloom" => Ok(JoinStrategy::Bloom),
            other => Err(unknown("join", other, "auto, baseline, filtered, bloom")),
        }
    }

    /// How GROUP BY runs.
    pub fn group_by_strategy(&self) -> Result<GroupByStrategy> {
        match self.group_by.to_ascii_lowercase().as_str() {
            "auto" => Ok(GroupByStrategy::Auto),
            "compute" => Ok(GroupByStrategy::Compute),
            "filtered" => Ok(GroupByStrategy::Filtered),
            "storage" => Ok(GroupByStrategy::Storage),
            "hybrid" => Ok(GroupByStrategy::Hybrid),
            other => Err(unknown("group_by", other, "auto, compute, filtered, storage, hybrid")),
        }
    }

    /// How a top-k runs.
    pub fn top_k_strategy(&self) -> Result<TopKStrategy> {
        match self.top_k.to_ascii_lowercase().as_str() {
            "auto" => Ok(TopKStrategy::Auto),
            "compute" => Ok(TopKStrategy::Compute),
            "sampling" => Ok(TopKStrategy::Sampling),
            "storage" => Ok(TopKStrategy::Storage),
            other => Err(unknown("top_k", other, "auto, compute, sampling, storage")),
        }
    }

    /// What counts where strategies are compared.
    pub fn objective(&self) -> Result<Objective> {
        match self.objective.to_ascii_lowercase().as_str() {
            "latency" => Ok(Objective::Latency),
            "cost" => Ok(Objective::Cost),
            other => Err(unknown("objective", other, "latency, cost")),
        }
    }

    /// Who scans the splits of a running scan. What saves seconds may cost dollars.
    pub fn adaptivity(&self) -> Result<Adaptivity> {
        match self.adaptive.to_ascii_lowercase().as_str() {
            "auto" => Ok(match self.objective()? {
                Objective::Latency => Adaptivity::Auto,
                Objective::Cost => Adaptivity::None,
            }),
            "none" => Ok(Adaptivity::None),
            "both" => Ok(Adaptivity::Both),
            other => Err(unknown("adaptive", other, "auto, none, both")),
        }
    }

    /// Whether tables are looked at before they are read.
    pub fn looks_at_tables(&self) -> Result<bool> {
        match self.statistics.to_ascii_lowercase().as_str() {
            // The baseline reads what the query needs and nothing else.
            "auto" => Ok(self.level_cap()? != Some(pushdown::Level::None)),
            "none" => Ok(false),
            other => Err(unknown("statistics", other, "auto, none")),
        }
    }

    /// Refuses values that no part of the engine understands, and reads the price book.
    pub fn check(&self) -> Result<PriceBook> {
        self.level_cap()?;
        self.filter_side()?;
        self.aggregate_side()?;
        self.join_strategy()?;
        self.group_by_strategy()?;
        self.top_k_strategy()?;
        self.objective()?;
        self.looks_at_tables()?;
        self.adaptivity()?;
        if !self.max_usd.is_finite() || self.max_usd < 0.0 {
            return Err(Error::invalid("pushdown.max_usd must be a number of dollars, 0 or more"));
        }
        if !(1e-6..=0.5).contains(&self.false_positives) {
            return Err(Error::invalid("pushdown.false_positives must be between 0.000001 and 0.5"));
        }
        for (name, value) in [("requests", self.requests as u64), ("split_bytes", self.split_bytes)] {
            if value == 0 {
                return Err(Error::invalid(format!("pushdown.{name} must be at least 1")));
            }
        }
        PriceBook::named_or_path(&self.price_book)
    }

    /// How long a connection may be silent.
    pub fn idle_timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s.max(1))
    }
}

fn side(name: &str, value: &str) -> Result<Side> {
    match value.to_ascii_lowercase().as_str() {
        "auto" => Ok(Side::Auto),
        "compute" => Ok(Side::Compute),
        "storage" => Ok(Side::Storage),
        other => Err(unknown(name, other, "auto, compute, storage")),
    }
}

fn unknown(name: &str, value: &str, allowed: &str) -> Error {
    Error::invalid(format!("pushdown.{name} cannot be '{value}'; it is one of {allowed}"))
}
