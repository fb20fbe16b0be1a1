//! The catalog: where a table's objects lie, how they are encoded, and what their columns are.
//!
//! ```text
//! TableLocation  "s3://bucket/sales/*/part-*.csv"     where: store, prefix, glob
//! stores         "…@http://disk1:9000", lists of such     where, if the objects lie at several endpoints
//! manifest       t.manifest.json -> DataObject        objects that a JSON document lists, with their replicas
//! call           read_csv(…) in FROM              the options and locations of a call
//! TableOptions   STORED AS CSV OPTIONS (…)            how: what is declared; names and bytes tell the rest
//! listing        LIST or HEAD -> DataObject           objects, with their ETags and partition values
//! list_folders   many LISTs at a time              for more than four thousand objects
//! partition      year=2024/ -> a column               partition columns, and the objects that predicates rule out
//! infer          the first bytes -> a schema          for tables without declared columns
//! adjust         columns, types, names           for columns that options declare in place of inferred ones
//! columns        an object's own order of columns     for objects of CSV with different headers
//! TableDefinition                                     all of it together
//! declared       CREATE EXTERNAL TABLE statements     the tables of a session, and of the catalog file
//! CatalogFile                                         declarations that outlive a session
//! kept_rows                                           rows of tables in memory that outlive a session
//! ```
//!
//! Nothing here reads rows. [`TableDefinition::listing`] is called once per query and pins the ETag
//! of each object.

pub(crate) mod adjust;
pub(crate) mod call;
pub(crate) mod columns;
pub(crate) mod declared;
pub(crate) mod definition;
pub(crate) mod file;
pub(crate) mod infer;
pub(crate) mod kept_rows;
mod list_folders;
pub(crate) mod listing;
pub(crate) mod location;
pub(crate) mod manifest;
pub(crate) mod object;
pub(crate) mod options;
pub(crate) mod partition;
pub(crate) mod stores;
pub(crate) mod wildcard;

pub(crate) use call::{Call, Whole};
pub use columns::ObjectColumns;
pub(crate) use definition::unmarked;
pub use definition::{Declared, TableDefinition};
pub(crate) use infer::{InferenceCache, KnownObjects};
pub(crate) use listing::held;
pub use listing::{Listing, PrivateFolder};
pub use location::{PRIVATE_FOLDER, TableLocation};
pub use object::DataObject;
pub(crate) use options::FileName;
pub use options::TableOptions;
pub(crate) use options::{FILENAME, boolean};
pub(crate) use partition::HIVE_NULL;
pub use partition::{only_on_partitions, prune};

#[cfg(test)]
pub(crate) mod read_back;
