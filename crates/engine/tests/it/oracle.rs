//! Plain DataFusion with its own readers on the same objects: the rows that everything else must
//! give.

use std::sync::Arc;

use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionConfig, SessionContext};
use pushdowndb_datagen::{Format, TABLES};
use url::Url;

use crate::world::{Rows, World, text};

pub struct Oracle(SessionContext);

impl Oracle {
    pub fn new(world: &World) -> Self {
        let mut config = SessionConfig::new();
        config.options_mut().sql_parser.parse_float_as_decimal = true;
        // From statistics of Parquet it makes a NULL of the greatest text of some files
        // (PUSHDOWNDB_SEED=1795550238350).
        config.options_mut().execution.collect_statistics = false;
        let context = SessionContext::new_with_config(config);
        let url = Url::parse(&format!("s3://{}", world.bucket)).expect("a URL");
        context.register_object_store(&url, Arc::new(world.store()));
        Self(context)
    }

    pub async fn tpch(world: &World, path: &str, format: Format) -> Self {
        let oracle = Self::new(world);
        for table in TABLES {
            let folder = world.url(&format!("{path}/{table}/"));
            let schema = pushdowndb_datagen::schema(table).expect("a table");
            match format {
                Format::Csv => oracle.0.register_csv(table, folder, CsvReadOptions::new().schema(&schema)).await,
                _ => oracle.0.register_parquet(table, folder, ParquetReadOptions::default()).await,
            }
            .expect("a table");
        }
        oracle
    }

    /// Runs a statement, such as the declaration of a table.
    pub async fn execute(&self, sql: &str) {
        self.0.sql(sql).await.expect("a plan").collect().await.expect("rows");
    }

    pub async fn rows(&self, sql: &str) -> Rows {
        text(&self.0.sql(sql).await.expect("a plan").collect().await.expect("rows"))
    }
}
