//! The settings of a session: `SET pushdown.level = 'none'` and its siblings.

use std::num::NonZeroU32;
use std::time::Duration;

use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::extensions_options;
use pushdown::{Error, Level, Result};
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
        /// Whether the rows of one scan serve later scans of the same query: auto, none
        pub reuse: String, default = "auto".to_string()
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
        /// Requests in flight per partition of a pushed scan; 0 is as many as keep storage busy: what our node says, else 4
        pub requests: usize, default = 0
        /// Objects that can be split are scanned in pieces of this many bytes when pushed
        pub split_bytes: u64, default = 16 * 1024 * 1024
        /// Rows of a pushed split are held back until it is complete, up to this many bytes
        pub buffer_bytes: u64, default = 32 * 1024 * 1024
        /// A scan whose connection is silent for this many seconds gives it up and tries again; other reads do after 300
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
    pub fn level_cap(&self) -> Result<Option<Level>> {
        let levels = [
            ("auto", None),
            ("none", Some(Level::None)),
            ("select", Some(Level::Select)),
            ("fragment", Some(Level::Fragment)),
        ];
        one_of("level", &self.level, &levels)
    }

    /// Where filters run that no index settles.
    pub fn filter_side(&self) -> Result<Side> {
        let [auto, compute, storage] = SIDES;
        one_of("filter", &self.filter, &[auto, compute, storage, ("index", Side::Auto)])
    }

    /// Whether filters are looked up in indexes.
    pub fn index_use(&self) -> Result<IndexUse> {
        Ok(match self.filter.to_ascii_lowercase().as_str() {
            "index" => IndexUse::Always,
            // The baseline reads plainly.
            "auto" if self.level_cap()? != Some(Level::None) => IndexUse::Auto,
            _ => IndexUse::Never,
        })
    }

    /// Where scalar aggregates run.
    pub fn aggregate_side(&self) -> Result<Side> {
        one_of("aggregate", &self.aggregate, &SIDES)
    }

    /// How joins run.
    pub fn join_strategy(&self) -> Result<JoinStrategy> {
        use JoinStrategy::{Auto, Baseline, Bloom, Filtered};
        let strategies = [("auto", Auto), ("baseline", Baseline), ("filtered", Filtered), ("bloom", Bloom)];
        one_of("join", &self.join, &strategies)
    }

    /// How GROUP BY runs.
    pub fn group_by_strategy(&self) -> Result<GroupByStrategy> {
        use GroupByStrategy::{Auto, Compute, Filtered, Hybrid, Storage};
        let strategies =
            [("auto", Auto), ("compute", Compute), ("filtered", Filtered), ("storage", Storage), ("hybrid", Hybrid)];
        one_of("group_by", &self.group_by, &strategies)
    }

    /// How a top-k runs.
    pub fn top_k_strategy(&self) -> Result<TopKStrategy> {
        use TopKStrategy::{Auto, Compute, Sampling, Storage};
        let strategies = [("auto", Auto), ("compute", Compute), ("sampling", Sampling), ("storage", Storage)];
        one_of("top_k", &self.top_k, &strategies)
    }

    /// What counts where strategies are compared.
    pub fn objective(&self) -> Result<Objective> {
        one_of("objective", &self.objective, &[("latency", Objective::Latency), ("cost", Objective::Cost)])
    }

    /// Who scans the splits of a running scan. What saves seconds may cost dollars.
    pub fn adaptivity(&self) -> Result<Adaptivity> {
        let auto = match self.objective()? {
            Objective::Latency => Adaptivity::Auto,
            Objective::Cost => Adaptivity::None,
        };
        let ways = [("auto", auto), ("none", Adaptivity::None), ("both", Adaptivity::Both)];
        one_of("adaptive", &self.adaptive, &ways)
    }

    /// Whether tables are looked at before they are read.
    pub fn looks_at_tables(&self) -> Result<bool> {
        // The baseline reads what the query needs and nothing else.
        let auto = self.level_cap()? != Some(Level::None);
        one_of("statistics", &self.statistics, &[("auto", auto), ("none", false)])
    }

    /// Whether rows that a scan has read serve others. The baseline reads them again: its scans know nothing of each other.
    pub fn reuses_rows(&self) -> Result<bool> {
        let auto = self.level_cap()? != Some(Level::None);
        one_of("reuse", &self.reuse, &[("auto", auto), ("none", false)])
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
        self.reuses_rows()?;
        self.adaptivity()?;
        if !self.max_usd.is_finite() || self.max_usd < 0.0 {
            return Err(Error::invalid("pushdown.max_usd must be a number of dollars, 0 or more"));
        }
        if !(1e-6..=0.5).contains(&self.false_positives) {
            return Err(Error::invalid("pushdown.false_positives must be between 0.000001 and 0.5"));
        }
        if self.split_bytes == 0 {
            return Err(Error::invalid("pushdown.split_bytes must be at least 1"));
        }
        PriceBook::named_or_path(&self.price_book)
    }

    /// Requests in flight for each partition of a scan by storage that does not say how many it wants.
    pub(crate) fn requests(&self) -> usize {
        if self.requests == 0 { REQUESTS } else { self.requests }
    }

    /// The same for each of so many partitions, if storage says that so many in all keep it busy.
    pub(crate) fn requests_at_once(&self, partitions: usize, wanted: Option<NonZeroU32>) -> usize {
        match wanted.filter(|_| self.requests == 0) {
            Some(wanted) => (wanted.get() as usize).div_ceil(partitions.max(1)).min(REQUESTS),
            None => self.requests(),
        }
    }

    /// How long a connection may be silent.
    pub fn idle_timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s.max(1))
    }
}

/// Requests in flight for each partition of a scan by storage that does not say how many it wants, and the most where it does.
const REQUESTS: usize = 4;

const SIDES: [(&str, Side); 3] = [("auto", Side::Auto), ("compute", Side::Compute), ("storage", Side::Storage)];

/// What a setting's value stands for, in any case of its letters.
fn one_of<T: Copy>(name: &str, value: &str, all: &[(&str, T)]) -> Result<T> {
    let found = all.iter().find(|(known, _)| known.eq_ignore_ascii_case(value)).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
        Error::invalid(format!("pushdown.{name} cannot be '{value}'; it is one of {}", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_requests_than_keep_storage_busy() {
        let at_once = |requests, partitions, wanted| {
            let options = PushdownOptions { requests, ..PushdownOptions::default() };
            options.requests_at_once(partitions, NonZeroU32::new(wanted))
        };
        assert_eq!([at_once(0, 1, 0), at_once(0, 3, 0)], [4, 4], "storage does not say");
        assert_eq!([at_once(0, 1, 2), at_once(0, 2, 2), at_once(0, 4, 9), at_once(0, 1, 33)], [2, 1, 3, 4]);
        assert_eq!(at_once(7, 4, 2), 7, "as asked for");
    }
}
