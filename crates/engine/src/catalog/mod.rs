//! The catalog: where a table's objects lie, how they are encoded, and what their columns are.
//!
//! ```text
//! TableLocation  "s3://bucket/sales/*/part-*.csv"     where: store, prefix, glob
//! TableOptions   STORED AS CSV OPTIONS (…)            how: what is declared; names and bytes tell the rest
//! listing        LIST or HEAD -> DataObject           objects, with their ETags and partition values
//! partition      year=2024/ -> a column               partition columns, and the objects that predicates rule out
//! infer          the first bytes -> a schema          for tables without declared columns
//! columns        an object's own order of columns     for tables read by name (union_by_name)
//! TableDefinition                                     all of it together
//! declared       CREATE EXTERNAL TABLE statements     the tables of a session, and of the catalog file
//! CatalogFile                                         declarations that outlive a session
//! ```
//!
//! Nothing here reads rows. [`TableDefinition::listing`] is called once per query and pins the ETag
//! of each object.

pub(crate) mod columns;
pub(crate) mod declared;
pub(crate) mod definition;
pub(crate) mod file;
pub(crate) mod infer;
pub(crate) mod listing;
pub(crate) mod location;
pub(crate) mod options;
pub(crate) mod partition;

pub use columns::ObjectColumns;
pub use definition::{Declared, TableDefinition};
pub use file::CatalogFile;
pub(crate) use infer::{InferenceCache, KnownObjects};
pub(crate) use listing::held;
pub use listing::{DataObject, Listing, PrivateFolder};
pub use location::{PRIVATE_FOLDER, TableLocation};
pub(crate) use options::FileName;
pub use options::TableOptions;
pub(crate) use options::boolean;
pub(crate) use partition::HIVE_NULL;
pub use partition::{only_on_partitions, prune};

#[cfg(test)]
pub(crate) mod read_back;
