//! What a table is: where its objects lie, how they are written and what their columns are.
//!
//! ```text
//! TableLocation  "s3://bucket/sales/*/part-*.csv"     where: store, prefix, glob
//! TableOptions   STORED AS CSV OPTIONS (…)            how: what was declared, the rest comes from names and bytes
//! listing        LIST or HEAD -> DataObject           which objects, with their ETags and partition values
//! partition      year=2024/ -> a column               and which objects a predicate rules out unread
//! infer          the first bytes -> a schema          for tables without declared columns
//! columns        an object's own order of columns     for tables read by name (union_by_name)
//! TableDefinition                                     all of it together
//! CatalogFile                                         the declarations a shell still knows tomorrow
//! ```
//!
//! Nothing here reads rows; [`TableDefinition::listing`] is called once per query and pins each object's ETag.

mod catalog_file;
mod columns;
mod definition;
mod infer;
mod listing;
mod location;
mod options;
mod partition;

pub use catalog_file::CatalogFile;
pub use columns::ObjectColumns;
pub use definition::{Declared, TableDefinition};
pub(crate) use infer::ReadFooter;
pub use listing::{DataObject, Listing, PrivateFolder};
pub use location::{PRIVATE_FOLDER, TableLocation};
pub use options::TableOptions;
pub use partition::{only_on_partitions, prune};

#[cfg(test)]
mod read_back;
