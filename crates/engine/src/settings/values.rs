//! The types of settings: choices of a word, and sizes in bytes or a word.

use std::fmt;

use datafusion::common::Result as DfResult;
use datafusion::common::config::{ConfigField, Visit};
use pushdowndb_contract::{Error, Result};
use pushdowndb_cost::units::parse_bytes;

use crate::error::to_datafusion;

/// Defines a setting whose values are words.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$about_value:meta])* $value:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(crate) enum $name {
            $($(#[$about_value])* $value,)+
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$value => $word,)+ })
            }
        }

        impl ConfigField for $name {
            fn visit<V: Visit>(&self, visitor: &mut V, key: &str, description: &'static str) {
                visitor.some(key, self, description);
            }

            fn set(&mut self, _: &str, value: &str) -> DfResult<()> {
                *self = one_of(value, &[$(($word, Self::$value),)+]).map_err(to_datafusion)?;
                Ok(())
            }
        }
    };
}

/// Parses a word, ignoring case.
fn one_of<T: Copy>(value: &str, all: &[(&str, T)]) -> Result<T> {
    let found = all.iter().find(|(known, _)| known.eq_ignore_ascii_case(value)).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
        Error::invalid(format!("'{value}' is not one of {}", known.join(", ")))
    })
}

words! {
    /// The highest level of pushdown that is used.
    HighestLevel {
        /// Whatever storage can do.
        Auto = "auto",
        None = "none",
        Select = "select",
        Fragment = "fragment",
    }
}

words! {
    /// The side that runs an operator.
    Side {
        /// Chosen per query.
        Auto = "auto",
        /// The engine, over plain reads.
        Compute = "compute",
        /// Storage, if it can.
        Storage = "storage",
    }
}

words! {
    /// How rows are filtered.
    FilterStrategy {
        /// Chosen per query.
        Auto = "auto",
        /// By the engine, over plain reads.
        Compute = "compute",
        /// By storage, if it can.
        Storage = "storage",
        /// By an index, if there is one.
        Index = "index",
    }
}

words! {
    /// Whether an optimization is used.
    Use {
        /// If it pays.
        Auto = "auto",
        None = "none",
    }
}

words! {
    /// Which queries run on workers.
    Distribution {
        /// Those that read much.
        Auto = "auto",
        /// All that can.
        Always = "always",
        None = "none",
    }
}

words! {
    /// Which side scans the splits of a running scan.
    Adaptivity {
        /// The faster side, or both.
        Auto = "auto",
        /// The side chosen by the plan.
        None = "none",
        /// Both, regardless of their speed.
        Both = "both",
    }
}

words! {
    /// The quantity by which strategies are compared.
    Objective {
        /// Seconds.
        Latency = "latency",
        /// Dollars, by the price book.
        Cost = "cost",
    }
}

words! {
    /// How the tables of a join are scanned.
    JoinStrategy {
        /// Chosen per join.
        Auto = "auto",
        /// Plain reads.
        Baseline = "baseline",
        /// Each table is filtered by its own predicates.
        Filtered = "filtered",
        /// The second table is also filtered by the join keys of the first.
        Bloom = "bloom",
    }
}

words! {
    /// How the first rows of an order are found.
    TopKStrategy {
        /// Chosen per query.
        Auto = "auto",
        /// The engine sorts all rows.
        Compute = "compute",
        /// A sample bounds the rows that storage sends.
        Sampling = "sampling",
        /// Storage sends the first rows of each split, if it can.
        Storage = "storage",
    }
}

words! {
    /// How rows are grouped.
    GroupByStrategy {
        /// Chosen per query.
        Auto = "auto",
        /// The engine, over plain reads.
        Compute = "compute",
        /// The engine, over rows that storage filters and projects.
        Filtered = "filtered",
        /// Storage.
        Storage = "storage",
        /// Storage for large groups, the engine for the rest.
        Hybrid = "hybrid",
    }
}

words! {
    /// How spilled data is compressed.
    SpillCompression {
        Lz4 = "lz4",
        Zstd = "zstd",
        None = "none",
    }
}

/// Defines a setting that is a number of bytes or a word.
macro_rules! sizes {
    ($(#[$about:meta])* $name:ident { $($(#[$about_word:meta])* $word:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub(crate) enum $name {
            $($(#[$about_word])* $word,)+
            /// This many bytes.
            Bytes(u64),
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$word => f.write_str($text),)+
                    Self::Bytes(bytes) => write!(f, "{bytes}"),
                }
            }
        }

        impl ConfigField for $name {
            fn visit<V: Visit>(&self, visitor: &mut V, key: &str, description: &'static str) {
                visitor.some(key, self, description);
            }

            fn set(&mut self, key: &str, value: &str) -> DfResult<()> {
                let words = [$(($text, Self::$word),)+];
                let word = words.iter().find(|(text, _)| text.eq_ignore_ascii_case(value.trim()));
                *self = match word {
                    Some((_, word)) => *word,
                    None => Self::Bytes(parse_bytes(value.trim()).map_err(|error| {
                        let words: Vec<&str> = words.iter().map(|(text, _)| *text).collect();
                        to_datafusion(Error::invalid(format!("{key}: {error}, or {}", words.join(", "))))
                    })?),
                };
                Ok(())
            }
        }
    };
}

sizes! {
    /// The memory limit of all queries.
    MemoryLimit {
        /// A part of the machine's memory, or of its container's.
        Auto = "auto",
        /// No limit.
        None = "none",
    }
}

sizes! {
    /// The bytes that spilled data may take on the disk.
    DiskLimit {
        /// All that is free, except a reserve.
        Auto = "auto",
    }
}
