//! `CREATE INDEX`, `DROP INDEX` and `SHOW INDEXES`: parsing and running them.
//!
//! ```sql
//! CREATE INDEX [IF NOT EXISTS] [name] ON table (column) [WITH (location = 's3://…')]
//! DROP INDEX [IF EXISTS] name [ON table]
//! SHOW INDEXES [FROM table]
//! ```
//!
//! DataFusion parses only the first and runs none of them.

mod build;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::common::TableReference;
use datafusion::execution::TaskContext;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use pushdowndb_contract::{Error, ErrorKind, Result};

use crate::catalog::Listing;
use crate::context::QueryContext;
use crate::endpoints::query_meters;
use crate::error::{from_datafusion, from_object_store};
use crate::index::find::{StoredIndex, stored};
use crate::index::location::IndexLocation;
use crate::provider::ObjectTable;
use crate::sql::words::Words;
use build::build;

/// Maximum length of an index's name in bytes.
const MAX_NAME_BYTES: usize = 128;

const USAGE: &str = "CREATE INDEX [IF NOT EXISTS] [name] ON table (column) [WITH (location = '…')], \
                     DROP INDEX [IF EXISTS] name [ON table] or SHOW INDEXES [FROM table]";

/// Maximum number of delete requests in flight.
const MAX_CONCURRENT_DELETES: usize = 16;

/// A statement about indexes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum IndexStatement {
    Create {
        name: Option<String>,
        table: TableReference,
        column: String,
        if_not_exists: bool,
        /// The location of the index, if it is not beside the table's objects.
        location: Option<String>,
    },
    Drop {
        name: String,
        table: Option<TableReference>,
        if_exists: bool,
    },
    Show {
        table: Option<TableReference>,
    },
}

/// Parses a statement about indexes; `None` for other statements.
pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Result<Option<IndexStatement>> {
    let mut words = Words::new(tokens, USAGE);
    if words.takes(&["CREATE", "UNIQUE", "INDEX"]) {
        return Err(Error::unsupported("UNIQUE: an index finds rows, it does not restrict them"));
    }
    let statement = if words.takes(&["CREATE", "INDEX"]) {
        words.create()
    } else if words.takes(&["DROP", "INDEX"]) {
        words.drop_index()
    } else if words.takes(&["SHOW", "INDEXES"]) || words.takes(&["SHOW", "INDEX"]) {
        words.show()
    } else {
        return Ok(None);
    };
    statement.map(Some)
}

/// Parses what follows the first words of each statement.
impl Words<'_> {
    fn create(&mut self) -> Result<IndexStatement> {
        let if_not_exists = self.takes(&["IF", "NOT", "EXISTS"]);
        let name = match self.takes(&["ON"]) {
            true => None,
            false => {
                let name = self.name("the name of an index or ON")?;
                if name.is_empty() || name.len() > MAX_NAME_BYTES {
                    return Err(Error::invalid(format!("the name of an index has 1 to {MAX_NAME_BYTES} bytes")));
                }
                if !self.takes(&["ON"]) {
                    return Err(self.expected("ON"));
                }
                Some(name)
            }
        };
        let table = self.table()?;
        if !self.takes_mark(&Token::LParen) {
            return Err(self.expected("a column in parentheses"));
        }
        let column = self.name("a column")?;
        if self.takes_mark(&Token::Comma) {
            return Err(Error::unsupported(
                "an index is on one column; conditions on several columns use an index on each of them",
            ));
        }
        if !self.takes_mark(&Token::RParen) {
            return Err(self.expected("one column, without an order or expression, and ')'"));
        }
        let location = if self.takes(&["WITH"]) { Some(self.location()?) } else { None };
        self.end()?;
        Ok(IndexStatement::Create { name, table, column, if_not_exists, location })
    }

    /// Parses the options of an index; there is only one.
    fn location(&mut self) -> Result<String> {
        if !self.takes_mark(&Token::LParen) || !self.takes(&["LOCATION"]) || !self.takes_mark(&Token::Eq) {
            return Err(self.expected("(location = '…')"));
        }
        let location = self.text("a location in quotes")?;
        match self.takes_mark(&Token::RParen) {
            true => Ok(location),
            false => Err(self.expected("')'")),
        }
    }

    fn drop_index(&mut self) -> Result<IndexStatement> {
        let if_exists = self.takes(&["IF", "EXISTS"]);
        let name = self.name("the name of an index")?;
        let table = if self.takes(&["ON"]) { Some(self.table()?) } else { None };
        self.end()?;
        Ok(IndexStatement::Drop { name, table, if_exists })
    }

    fn show(&mut self) -> Result<IndexStatement> {
        let table = if self.takes(&["FROM"]) || self.takes(&["IN"]) || self.takes(&["ON"]) {
            Some(self.table()?)
        } else {
            None
        };
        self.end()?;
        Ok(IndexStatement::Show { table })
    }
}

impl IndexStatement {
    /// Whether the statement concerns all tables of the session.
    pub(crate) fn is_about_all(&self) -> bool {
        matches!(self, Self::Drop { table: None, .. } | Self::Show { table: None })
    }

    /// Runs the statement, and returns the rows that it shows, if any. `known` has the session's
    /// tables if the statement concerns all of them.
    pub(crate) async fn run(
        self,
        query: &Arc<QueryContext>,
        context: &SessionContext,
        known: Vec<TableReference>,
    ) -> Result<Option<RecordBatch>> {
        let tables = Tables { query, context };
        match self {
            create @ Self::Create { .. } => {
                tables.create(create).boxed().await?;
                Ok(None)
            }
            Self::Drop { name, table, if_exists } => {
                tables.drop_index(&name, table, known, if_exists).boxed().await?;
                Ok(None)
            }
            Self::Show { table } => tables.show(table.map_or(known, |table| vec![table])).boxed().await.map(Some),
        }
    }
}

struct Tables<'a> {
    query: &'a Arc<QueryContext>,
    context: &'a SessionContext,
}

/// Returns whether a statement is CREATE INDEX.
pub(crate) fn is_create(tokens: &[TokenWithSpan]) -> bool {
    matches!(parse(tokens), Ok(Some(IndexStatement::Create { .. })))
}

/// Runs `work` until it is done or the query's caps are exceeded. `work` must leave nothing behind
/// when it is dropped.
async fn within_caps<T>(query: &QueryContext, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        biased;
        done = work => done,
        error = query.exceeded() => Err(error),
    }
}

impl Tables<'_> {
    /// Returns the table if it is one over objects; `None` for views and the like.
    async fn object_table(&self, name: &TableReference) -> Result<Option<Arc<ObjectTable>>> {
        let provider = self.context.table_provider(name.clone()).await.map_err(from_datafusion)?;
        Ok(provider.downcast_ref::<ObjectTable>().cloned().map(Arc::new))
    }

    async fn the_table(&self, name: &TableReference) -> Result<Arc<ObjectTable>> {
        let table = self.object_table(name).await?;
        table.ok_or_else(|| Error::unsupported(format!("{name} has no objects of its own, and only those are indexed")))
    }

    async fn create(&self, statement: IndexStatement) -> Result<()> {
        let IndexStatement::Create { name, table, column, if_not_exists, location } = statement else {
            return Err(Error::internal("another statement than CREATE INDEX"));
        };
        let column = &column;
        let found = within_caps(self.query, self.the_table(&table)).await?;
        if found.backend().stores() > 1 {
            return Err(Error::unsupported(format!("{table} lies in several stores, and an index is of one of them")));
        }
        let name = name.unwrap_or_else(|| format!("{column}_index"));
        let place = crate::index::column(found.definition(), column).map_err(|error| error.context(&table))?;
        let listing = within_caps(self.query, found.listing(self.query)).await?;
        let existing = stored(self.query, found.backend(), found.definition(), &listing.private);
        let existing = within_caps(self.query, existing).await?;
        if existing.iter().any(|index| index.name == name) {
            return match if_not_exists {
                true => Ok(()),
                false => Err(Error::new(
                    ErrorKind::Conflict,
                    format!(
                        "{table} has an index {name} already; DROP INDEX {name} ON {table} first, also to renew it"
                    ),
                )),
            };
        }
        let context: Arc<TaskContext> = self.context.task_ctx();
        let home = self.home(&found, &listing, location, &name, column).await?;
        build(self.query, &context, &found, &listing, &name, place, &home).await.map_err(|error| match error.kind() {
            ErrorKind::Denied => error.context(format!("CREATE INDEX writes below {}", home.address())),
            _ => error,
        })
    }

    /// Returns the location of a new index. If the table's declaration does not name it, a pointer
    /// to it is written to the table's own folder.
    async fn home(
        &self,
        table: &ObjectTable,
        listing: &Listing,
        location: Option<String>,
        name: &str,
        column: &str,
    ) -> Result<IndexLocation> {
        let declared = table.definition().options.index_location.as_deref();
        let own = IndexLocation::own(table.backend(), &listing.private)?;
        let Some(location) = location.as_deref().or(declared) else { return Ok(own) };
        let home = IndexLocation::at(self.query, location, &own)?;
        if declared != Some(location) {
            own.point(self.query, name, column, location).await.map_err(|error| {
                error.context(format!(
                    "{} cannot be told where the index is; declare the table with OPTIONS ('index_location' \
                     '{location}') instead",
                    own.address()
                ))
            })?;
        }
        Ok(home)
    }

    async fn drop_index(
        &self,
        name: &str,
        table: Option<TableReference>,
        known: Vec<TableReference>,
        if_exists: bool,
    ) -> Result<()> {
        let among = table.clone().map_or(known, |table| vec![table]);
        let mut found = Vec::new();
        for place in among {
            let Some(object_table) = self.object_table(&place).await? else { continue };
            let Some((_, indexes)) = self.indexes(&object_table).await? else { continue };
            found.extend(indexes.into_iter().filter(|index| index.name == name).map(|index| (place.clone(), index)));
        }
        let owners: Vec<String> = found.iter().map(|(table, _)| table.to_string()).collect();
        match found.pop() {
            Some((_, index)) if found.is_empty() => {
                let store = index.location.backend.store(&query_meters(&self.query.meter))?;
                // Without its manifest an index is not used, so the manifest is deleted first.
                for path in index.manifest.iter() {
                    store.delete(path).await.map_err(from_object_store)?;
                }
                let deletions: Vec<_> = index.files.values().map(|file| store.delete(&file.location)).collect();
                let mut deletions = stream::iter(deletions).buffer_unordered(MAX_CONCURRENT_DELETES);
                while deletions.try_next().await.map_err(from_object_store)?.is_some() {}
                for (home, pointer) in &index.pointers {
                    let store = home.backend.store(&query_meters(&self.query.meter))?;
                    store.delete(pointer).await.map_err(from_object_store)?;
                }
                Ok(())
            }
            Some(_) => Err(Error::invalid(format!(
                "several tables have an index {name}: {}; say DROP INDEX {name} ON one of them",
                owners.join(", ")
            ))),
            None if if_exists => Ok(()),
            None => Err(Error::new(
                ErrorKind::NotFound,
                match table {
                    Some(table) => format!("{table} has no index {name}"),
                    None => format!("no table of this session has an index {name}"),
                },
            )),
        }
    }

    /// Returns the table's objects and indexes; `None` if it has no objects now.
    async fn indexes(&self, table: &ObjectTable) -> Result<Option<(Arc<Listing>, Vec<StoredIndex>)>> {
        let listing = match table.listing(self.query).await {
            Ok(listing) => listing,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let indexes = stored(self.query, table.backend(), table.definition(), &listing.private).await?;
        Ok(Some((listing, indexes)))
    }

    async fn show(&self, tables: Vec<TableReference>) -> Result<RecordBatch> {
        let mut names: [Vec<String>; 5] = Default::default();
        let mut numbers: [Vec<i64>; 4] = Default::default();
        for name in tables {
            let Some(table) = self.object_table(&name).await? else { continue };
            let Some((listing, indexes)) = self.indexes(&table).await? else { continue };
            for index in indexes {
                let directory = index.directory(self.query, table.definition()).await;
                let (mut fresh, mut entries) = (0, 0);
                let state = match &directory {
                    Ok(directory) => {
                        for object in listing.objects.iter() {
                            if let Some((indexed, _)) = directory.of(object).filter(|(of, _)| of.is_of(object)) {
                                fresh += 1;
                                entries += indexed.entries;
                            }
                        }
                        if fresh == listing.objects.len() { "complete" } else { "partial" }.to_owned()
                    }
                    Err(error) => error.to_string(),
                };
                let bytes: u64 = index.files.values().map(|file| file.size).sum();
                let row = [name.to_string(), index.name, index.column, state, index.location.address()];
                names.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
                let row = [listing.objects.len() as u64, fresh as u64, entries, bytes];
                let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
                numbers.iter_mut().zip(row).for_each(|(column, value)| column.push(number(value)));
            }
        }
        let names = ["table", "index", "column", "state", "location"].into_iter().zip(names);
        let mut columns: Vec<_> =
            names.map(|(name, values)| (name, Arc::new(StringArray::from(values)) as ArrayRef, false)).collect();
        let counts = ["objects", "indexed", "entries", "bytes"].into_iter().zip(numbers);
        let counts = counts.map(|(name, values)| (name, Arc::new(Int64Array::from(values)) as ArrayRef, false));
        // The location is long and comes last.
        drop(columns.splice(4..4, counts));
        RecordBatch::try_from_iter_with_nullable(columns)
            .map_err(|e| Error::internal("columns of different lengths").with_source(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse_with;

    fn parse(sql: &str) -> Result<Option<IndexStatement>> {
        parse_with(sql, super::parse)
    }

    fn create(sql: &str) -> (Option<String>, String, String, bool) {
        match parse(sql).unwrap() {
            Some(IndexStatement::Create { name, table, column, if_not_exists, location: None }) => {
                (name, table.to_string(), column, if_not_exists)
            }
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn statements_about_indexes_are_read() {
        let named = |name: &str| Some(name.to_owned());
        let of = |name, table: &str, column: &str, if_not| (name, table.to_owned(), column.to_owned(), if_not);
        assert_eq!(create("create index i on T (Col);"), of(named("i"), "t", "col", false));
        assert_eq!(create("CREATE INDEX ON s.t(\"Col\")"), of(None, "s.t", "Col", false));
        assert_eq!(
            create("-- why\nCREATE INDEX IF NOT EXISTS \"I x\" ON 's3://b/t/*.csv' (a)"),
            of(named("I x"), "s3://b/t/*.csv", "a", true)
        );
        match parse("CREATE INDEX ON t (a) WITH (Location = 's3://mine/x/')").unwrap() {
            Some(IndexStatement::Create { location, .. }) => assert_eq!(location.as_deref(), Some("s3://mine/x/")),
            other => panic!("{other:?}"),
        }
        let bare = |name: &str| Some(TableReference::bare(name.to_owned()));
        let drop = |table, if_exists| Some(IndexStatement::Drop { name: "i".to_owned(), table, if_exists });
        assert_eq!(parse("DROP INDEX i").unwrap(), drop(None, false));
        assert_eq!(parse("drop index if exists i on t").unwrap(), drop(bare("t"), true));
        assert_eq!(parse("SHOW INDEXES").unwrap(), Some(IndexStatement::Show { table: None }));
        assert_eq!(parse("show index from t").unwrap(), Some(IndexStatement::Show { table: bare("t") }));
    }

    #[test]
    fn others_are_left_alone() {
        for sql in ["SELECT index FROM t", "CREATE TABLE index (a INT)", "SELECT 'CREATE INDEX", "DROP TABLE index", ""]
        {
            assert_eq!(parse(sql).unwrap(), None, "{sql}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (sql, part) in [
            ("CREATE UNIQUE INDEX i ON t (a)", "does not restrict"),
            ("CREATE INDEX i t (a)", "expected ON, found 't'"),
            ("CREATE INDEX i ON t", "expected a column in parentheses, found the end"),
            ("CREATE INDEX i ON t (a, b)", "on one column"),
            ("CREATE INDEX i ON t (a DESC)", "without an order"),
            ("CREATE INDEX i ON t (a) WHERE a > 1", "expected the end, found 'WHERE'"),
            ("CREATE INDEX \"\" ON t (a)", "1 to 128 bytes"),
            ("CREATE INDEX i ON t (a) WITH (place = 'x')", "expected (location = '…'), found 'place'"),
            ("CREATE INDEX i ON t (a) WITH (location = x)", "a location in quotes"),
            ("DROP INDEX", "the name of an index"),
            ("SHOW INDEXES FROM", "expected a table"),
        ] {
            let error = parse(sql).unwrap_err().to_string();
            assert!(error.contains(part), "{sql}: {error}");
        }
    }
}
