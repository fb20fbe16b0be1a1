//! The catalogs as a statement sees them: tables of the session, of the catalog file, and objects
//! addressed by their location.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::information_schema::{INFORMATION_SCHEMA, InformationSchemaProvider};
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, SchemaProvider, TableFunction, TableProvider, UrlTableFactory,
};
use datafusion::common::{Result as DfResult, TableReference};
use datafusion::logical_expr::TableType;

use super::information_schema::Columns;
use crate::catalog::declared::DeclaredTables;
use crate::catalog::file::TableKind;

/// The catalog and schema of names that have neither.
pub(super) const DEFAULT: (&str, &str) = ("datafusion", "public");

/// Returns whether a table lies in the default schema, the only one that the catalog file keeps.
pub(super) fn is_default(table: &TableReference) -> bool {
    table.catalog().is_none_or(|catalog| catalog == DEFAULT.0)
        && table.schema().is_none_or(|schema| schema == DEFAULT.1)
}

/// Returns the name of a table in the catalog file: without a schema if that is the default one.
pub(super) fn short_name(table: &TableReference) -> String {
    if is_default(table) { table.table().to_owned() } else { table.to_string() }
}

/// The catalogs of a session, and a factory of tables for the names that they lack.
#[derive(Clone, Debug)]
pub(super) struct StatementCatalogs {
    catalogs: Arc<dyn CatalogProviderList>,
    declared: Arc<DeclaredTables>,
    undeclared: Arc<dyn UrlTableFactory>,
    functions: Arc<HashMap<String, Arc<TableFunction>>>,
}

impl StatementCatalogs {
    /// Combines the `catalogs` of a session with the tables of its catalog file. `undeclared`
    /// resolves names that are in neither of them.
    pub(super) fn new(
        catalogs: Arc<dyn CatalogProviderList>,
        declared: Arc<DeclaredTables>,
        undeclared: Arc<dyn UrlTableFactory>,
        functions: HashMap<String, Arc<TableFunction>>,
    ) -> Self {
        Self { catalogs, declared, undeclared, functions: Arc::new(functions) }
    }
}

impl CatalogProviderList for StatementCatalogs {
    fn register_catalog(&self, name: String, catalog: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        self.catalogs.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.catalogs.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let catalog = self.catalogs.catalog(name)?;
        Some(Arc::new(Catalog { catalog, name: name.to_owned(), all: self.clone() }))
    }
}

#[derive(Debug)]
struct Catalog {
    catalog: Arc<dyn CatalogProvider>,
    name: String,
    all: StatementCatalogs,
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        self.catalog.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == INFORMATION_SCHEMA {
            let functions = self.all.functions.as_ref().clone();
            let theirs = InformationSchemaProvider::new(Arc::new(self.all.clone())).with_table_functions(functions);
            return Some(Arc::new(InformationSchema { theirs, catalogs: Arc::new(self.all.clone()) }));
        }
        let schema = self.catalog.schema(name)?;
        let declared = ((self.name.as_str(), name) == DEFAULT).then(|| Arc::clone(&self.all.declared));
        Some(Arc::new(Schema { schema, declared, undeclared: Arc::clone(&self.all.undeclared) }))
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> DfResult<Option<Arc<dyn SchemaProvider>>> {
        self.catalog.register_schema(name, schema)
    }

    fn deregister_schema(&self, name: &str, cascade: bool) -> DfResult<Option<Arc<dyn SchemaProvider>>> {
        self.catalog.deregister_schema(name, cascade)
    }
}

#[derive(Debug)]
struct Schema {
    schema: Arc<dyn SchemaProvider>,
    /// The tables of the catalog file, if they belong to this schema.
    declared: Option<Arc<DeclaredTables>>,
    undeclared: Arc<dyn UrlTableFactory>,
}

#[async_trait]
impl SchemaProvider for Schema {
    fn table_names(&self) -> Vec<String> {
        let declared = self.declared.iter().flat_map(|declared| declared.all().into_keys());
        let names: BTreeSet<String> = self.schema.table_names().into_iter().chain(declared).collect();
        names.into_iter().collect()
    }

    async fn table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        match self.schema.table(name).await? {
            Some(table) => Ok(Some(table)),
            None => self.undeclared.try_new(name).await,
        }
    }

    async fn table_type(&self, name: &str) -> DfResult<Option<TableType>> {
        if self.schema.table_exist(name) {
            return self.schema.table_type(name).await;
        }
        let declared = self.declared.as_ref().and_then(|declared| declared.get(name));
        Ok(declared.map(|table| match table.kind {
            TableKind::External | TableKind::Memory => TableType::Base,
            TableKind::View => TableType::View,
        }))
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> DfResult<Option<Arc<dyn TableProvider>>> {
        self.schema.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        self.schema.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.schema.table_exist(name)
    }
}

/// DataFusion's information schema, in which `columns` shows the types of SQL.
#[derive(Debug)]
struct InformationSchema {
    theirs: InformationSchemaProvider,
    catalogs: Arc<dyn CatalogProviderList>,
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        self.theirs.table_names()
    }

    async fn table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        let Some(table) = self.theirs.table(name).await? else { return Ok(None) };
        match name {
            "columns" => Columns::table(table.schema(), Arc::clone(&self.catalogs)).map(Some),
            _ => Ok(Some(table)),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.theirs.table_exist(name)
    }
}
