//! A server with a folder of data.

use std::net::SocketAddr;
use std::process::Command;

use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use pushdowndb_engine::{AccessPolicy, EngineConfig};
use pushdowndb_server::{ServerConfig, ServerLimits, SqlServer, start};
use pushdowndb_testkit::program::{Outcome, isolate};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

/// A running server, stopped when it is dropped.
pub struct World {
    pub folder: TempDir,
    pub address: SocketAddr,
    /// The address of Flight SQL.
    pub flight: SocketAddr,
    pub server: Option<SqlServer>,
    pub runtime: Runtime,
}

impl World {
    /// A server that lets everyone in, whose SQL may read its folder.
    pub fn start() -> Self {
        Self::start_with(|_, _| ())
    }

    /// A server with another configuration; `change` gets its folder too.
    pub fn start_with(change: impl FnOnce(&mut ServerConfig, &TempDir)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let access = AccessPolicy::nothing().and_read(folder.path().to_str().unwrap()).unwrap();
        let mut config = ServerConfig {
            postgres: Some("127.0.0.1:0".parse().unwrap()),
            flight: Some("127.0.0.1:0".parse().unwrap()),
            admin: None,
            users: None,
            access,
            tls: None,
            engine: EngineConfig::unrestricted(),
            limits: ServerLimits::default(),
        };
        change(&mut config, &folder);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(3)
            .thread_stack_size(8 << 20)
            .enable_all()
            .build()
            .unwrap();
        let server = runtime.block_on(start(config)).unwrap();
        let (address, flight) = (server.postgres_address().unwrap(), server.flight_address().unwrap());
        Self { folder, address, flight, server: Some(server), runtime }
    }

    /// A server with a table that every session declares.
    pub fn with_table() -> Self {
        Self::start_with(|config, folder| {
            let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
            std::fs::write(path("sales.csv"), "day,item,price\n2024-01-01,book,12.50\n2024-01-02,pen,1.20\n").unwrap();
            let columns = "day DATE, item VARCHAR, price DECIMAL(10,2)";
            let declared = format!(
                "CREATE EXTERNAL TABLE sales ({columns}) STORED AS CSV LOCATION '{}' OPTIONS ('has_header' 'true');\n",
                path("sales.csv")
            );
            std::fs::write(path("catalog.sql"), declared).unwrap();
            config.engine.catalog = Some(path("catalog.sql").into());
        })
    }

    /// A Flight SQL client without a password.
    pub fn flight_client(&self) -> FlightSqlServiceClient<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.flight)).unwrap();
        FlightSqlServiceClient::new(self.runtime.block_on(endpoint.connect()).unwrap())
    }

    /// Runs a query by Flight SQL: the columns as they are announced, and the rows.
    pub fn fetch(
        &self,
        client: &mut FlightSqlServiceClient<Channel>,
        sql: &str,
    ) -> Result<(Schema, Vec<RecordBatch>), String> {
        self.runtime.block_on(async {
            let info = client.execute(sql.to_owned(), None).await.map_err(|error| error.to_string())?;
            let ticket = info.endpoint[0].ticket.clone().unwrap();
            let rows = client.do_get(ticket).await.map_err(|error| error.to_string())?;
            let announced = info.try_decode_schema().map_err(|error| error.to_string())?;
            let rows: Vec<RecordBatch> = rows.try_collect().await.map_err(|error| error.to_string())?;
            Ok((announced, rows))
        })
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Runs psql with these parameters of the connection, besides the address.
    pub fn psql_as(&self, connection: &str, password: &str, args: &[&str]) -> Outcome {
        let (host, port) = (self.address.ip(), self.address.port());
        let mut command = Command::new("psql");
        isolate(&mut command).env("PGPASSWORD", password).env("PGCONNECT_TIMEOUT", "20");
        command.args(["-X", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-d"]);
        command.arg(format!("host={host} port={port} dbname=pushdowndb {connection}")).args(args);
        Outcome::of(&mut command)
    }

    /// Runs psql as a user without a password.
    pub fn psql(&self, args: &[&str]) -> Outcome {
        self.psql_as("user=tester sslmode=disable", "", args)
    }

    /// The rows of a query, unaligned.
    #[track_caller]
    pub fn rows(&self, sql: &str) -> String {
        self.psql(&["-A", "-t", "-c", sql]).ok().trim_end().to_owned()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.shutdown());
        }
    }
}
