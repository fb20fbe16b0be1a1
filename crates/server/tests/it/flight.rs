//! Flight SQL: clients of Rust, Python and Java.

use std::process::Command;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int64Type, Schema};
use arrow_flight::sql::{
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo, SqlInfo,
};
use arrow_flight::{Action, CancelFlightInfoRequest, FlightInfo};
use futures::TryStreamExt;
use prost::Message;
use pushdowndb_engine::AccessPolicy;
use pushdowndb_server::Verifier;
use pushdowndb_testkit::program::Outcome;
use pushdowndb_testkit::{process, python, repository};

use crate::world::World;

fn run(cases: &[&str]) {
    let world = World::start();
    let (address, folder) = (world.flight.to_string(), world.path(""));
    let arguments = [&[address.as_str(), folder.trim_end_matches('/')], cases].concat();
    let text = python::run_script("conformance/flight/clients.py", arguments);
    let done = text.lines().filter(|line| line.contains(": ok") || line.starts_with("SKIPPED")).count();
    assert_eq!(done, cases.len(), "{text}");
}

#[test]
fn adbc_reads_all_types_and_binds_parameters() {
    run(&["adbc_types", "adbc_parameters"]);
}

#[test]
fn adbc_tells_errors_apart_and_finds_tables() {
    run(&["adbc_errors", "adbc_metadata"]);
}

#[test]
fn adbc_streams_and_cancels() {
    run(&["adbc_many_rows", "adbc_cancel"]);
}

#[test]
fn the_driver_of_java_works() {
    let jar = "clients/flight-sql-jdbc-driver-18.3.0.jar";
    let Some(driver) = process::installed(jar, ".ci/run") else { return };
    let world = World::start();
    let mut java = Command::new("java");
    java.arg("--add-opens=java.base/java.nio=ALL-UNNAMED").arg("-cp").arg(driver);
    java.arg(repository().join("conformance/flight/FlightJdbc.java"));
    java.arg(world.flight.to_string()).arg(world.path("").trim_end_matches('/'));
    let outcome = Outcome::of(&mut java);
    assert!(outcome.ok().ends_with("flight jdbc: ok\n"), "{}{}", outcome.stdout(), outcome.stderr());
}

#[test]
fn announced_columns_are_those_of_the_rows() {
    let world = World::start();
    std::fs::write(world.path("t.csv"), "a,b\n1,x\n2,y\n").unwrap();
    let mut client = world.flight_client();
    let path = world.path("t.csv");
    for sql in [
        "SELECT 1 AS one, 'x' AS \"Exact Name\", NULL AS n, arrow_cast('v', 'Utf8View') AS v".to_owned(),
        "SELECT arrow_cast('x', 'Dictionary(Int32, Utf8)') AS d, [1, 2] AS l, {'a': arrow_cast('x', 'Utf8View')} AS s"
            .to_owned(),
        "SELECT 1, 2, 1".to_owned(),
        format!("SELECT b, count(*) FROM '{path}' GROUP BY b"),
        format!("SELECT * FROM '{path}' WHERE false"),
        format!("EXPLAIN SELECT * FROM '{path}'"),
        format!("SUMMARIZE '{path}'"),
        format!("DESCRIBE '{path}'"),
        "SHOW pushdown.level".to_owned(),
        "SHOW QUERIES".to_owned(),
        "SELECT current_database(), version()".to_owned(),
        "SELECT datname, pid FROM pg_stat_activity".to_owned(),
        "SHOW TABLES".to_owned(),
    ] {
        let (announced, rows) = world.fetch(&mut client, &sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert!(!announced.fields().is_empty(), "{sql}");
        let text = format!("{announced:?}");
        assert!(!text.contains("View") && !text.contains("Dictionary"), "{sql}: {text}");
        for rows in rows {
            assert_eq!(**rows.schema_ref(), announced, "{sql}");
        }
    }
    // Statements without rows.
    for sql in ["SET pushdown.level = 'none'", "CREATE VIEW v AS SELECT 1 AS a", "BEGIN", "DROP VIEW v"] {
        let (announced, rows) = world.fetch(&mut client, sql).unwrap();
        assert!(announced.fields().is_empty() && rows.iter().all(|rows| rows.num_rows() == 0), "{sql}");
    }
    let (_, rows) = world.fetch(&mut client, "SHOW pushdown.level").unwrap();
    assert_eq!(rows[0].column(0).as_string::<i32>().value(0), "none", "a connection is a session");
    let error = world.fetch(&mut client, "SET pushdown.memory = '1TB'").unwrap_err();
    assert!(error.contains("42501"), "{error}");
}

#[test]
fn prepared_statements_run_once_for_each_row_of_values() {
    let world = World::start();
    let mut client = world.flight_client();
    world.runtime.block_on(async {
        let mut prepared = client.prepare("SELECT ? + 1 AS n, ? AS t".to_owned(), None).await.unwrap();
        assert_eq!(prepared.parameter_schema().unwrap().fields().len(), 2);
        let error = prepared.execute().await;
        let ticket = error.unwrap().endpoint[0].ticket.clone().unwrap();
        let error = client.do_get(ticket).await.map(drop).unwrap_err().to_string();
        assert!(error.contains("no values are bound"), "{error}");
        let columns: [(&str, ArrayRef); 2] = [
            ("a", std::sync::Arc::new(Int64Array::from(vec![Some(1), Some(41), None]))),
            ("b", std::sync::Arc::new(StringArray::from(vec!["x", "it's", "z"]))),
        ];
        prepared.set_parameters(RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        let info = prepared.execute().await.unwrap();
        let rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
        let rows: Vec<RecordBatch> = rows.try_collect().await.unwrap();
        let numbers = rows.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().iter());
        assert_eq!(numbers.collect::<Vec<_>>(), [Some(2), Some(42), None]);
        let texts = rows.iter().flat_map(|rows| rows.column(1).as_string::<i32>().iter().flatten());
        assert_eq!(texts.collect::<Vec<_>>(), ["x", "it's", "z"]);
        prepared.close().await.unwrap();
        // The count of an update is what the statement wrote.
        let error = client.execute_update("COPY (SELECT 1 AS a) TO '/nowhere/x.csv'".to_owned(), None).await;
        assert!(error.unwrap_err().to_string().contains("42501"));
        assert_eq!(client.execute_update("CREATE TABLE t AS SELECT 1 AS a".to_owned(), None).await.unwrap(), 0);
    });
    let (_, rows) = world.fetch(&mut client, "SELECT a FROM t").unwrap();
    assert_eq!(rows[0].num_rows(), 1);
}

#[test]
fn catalogs_tables_keys_and_types_are_told() {
    let world = World::start();
    let mut client = world.flight_client();
    world.fetch(&mut client, "CREATE VIEW \"My View\" AS SELECT 1 AS \"Col\", 'x' AS t").unwrap();
    world.fetch(&mut client, "CREATE TABLE plain AS SELECT 1 AS a").unwrap();
    world.runtime.block_on(async {
        let mut told = Vec::new();
        let tables = |pattern: Option<&str>, include_schema| CommandGetTables {
            table_name_filter_pattern: pattern.map(str::to_owned),
            include_schema,
            ..CommandGetTables::default()
        };
        for info in [
            client.get_catalogs().await.unwrap(),
            client.get_db_schemas(CommandGetDbSchemas::default()).await.unwrap(),
            client.get_table_types().await.unwrap(),
            client.get_tables(tables(None, false)).await.unwrap(),
            client.get_tables(tables(Some("My%"), true)).await.unwrap(),
            client.get_tables(tables(Some("none"), true)).await.unwrap(),
            client.get_primary_keys(CommandGetPrimaryKeys::default()).await.unwrap(),
            client.get_exported_keys(CommandGetExportedKeys::default()).await.unwrap(),
            client.get_imported_keys(CommandGetImportedKeys::default()).await.unwrap(),
            client.get_cross_reference(CommandGetCrossReference::default()).await.unwrap(),
            client.get_sql_info(vec![SqlInfo::FlightSqlServerName, SqlInfo::FlightSqlServerCancel]).await.unwrap(),
            client.get_xdbc_type_info(CommandGetXdbcTypeInfo::default()).await.unwrap(),
        ] {
            let rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
            let rows: Vec<RecordBatch> = rows.try_collect().await.unwrap();
            let announced = info.try_decode_schema().unwrap();
            assert!(rows.iter().all(|rows| **rows.schema_ref() == announced), "{announced}");
            told.push(rows.iter().map(RecordBatch::num_rows).sum::<usize>());
            if announced.fields().iter().any(|field| field.name() == "table_schema") && told.len() == 5 {
                let columns = rows[0].column_by_name("table_schema").unwrap().as_binary::<i32>().value(0).to_vec();
                let columns = Schema::try_from(arrow_flight::IpcMessage(columns.into())).unwrap();
                let columns: Vec<_> = columns.fields().iter().map(|f| (f.name().as_str(), f.data_type())).collect();
                assert_eq!(columns, [("Col", &DataType::Int64), ("t", &DataType::Utf8)]);
            }
        }
        assert_eq!(told, [1, 1, 2, 2, 1, 0, 0, 0, 0, 0, 2, 16]);
    });
}

const SLOW: &str = "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 3 = 7";

#[test]
fn a_query_is_cancelled_by_its_answer() {
    let world = World::start();
    let mut client = world.flight_client();
    world.runtime.block_on(async {
        let info: FlightInfo = client.execute(SLOW.to_owned(), None).await.unwrap();
        let rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
        let reading = tokio::spawn(rows.try_collect::<Vec<_>>());
        let request = CancelFlightInfoRequest::new(info).encode_to_vec();
        let action = Action::new("CancelFlightInfo", request);
        let mut other = client.clone();
        other.inner_mut().do_action(action).await.unwrap();
        let error = reading.await.unwrap().unwrap_err().to_string();
        assert!(error.contains("57014"), "{error}");
    });
    // An administrator stops it too, and a client that goes away.
    std::thread::scope(|scope| {
        let running = scope.spawn(|| world.fetch(&mut world.flight_client(), SLOW));
        let listed = "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series%' \
                      AND query NOT LIKE '%pg_stat%'";
        let began = std::time::Instant::now();
        let pid = loop {
            let pid = world.rows(listed);
            if !pid.is_empty() {
                break pid;
            }
            assert!(began.elapsed().as_secs() < 60);
        };
        world.rows(&format!("SELECT pg_terminate_backend({pid})"));
        let error = running.join().unwrap().unwrap_err();
        assert!(error.contains("57P01") || error.contains("57014"), "{error}");
    });
}

#[test]
fn users_have_passwords_and_limits_here_too() {
    let world = World::start_with(|config, folder| {
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir(path("ann")).unwrap();
        std::fs::write(path("ann/x.csv"), "n\n1\n2\n").unwrap();
        std::fs::write(path("secret.csv"), "n\n1\n").unwrap();
        let ann = format!("[users.ann]\npassword = \"{}\"\nread = [\"{}\"]\n", Verifier::new("pässword"), path("ann"));
        let bob = format!("[users.bob]\npassword = \"{}\"\nread = []\ntimeout_s = 1\n", Verifier::new("b"));
        std::fs::write(path("users.toml"), ann + &bob).unwrap();
        config.users = Some(path("users.toml").into());
        config.access = AccessPolicy::nothing();
    });
    let mut client = world.flight_client();
    let denied = world.fetch(&mut client, "SELECT 1").unwrap_err();
    assert!(denied.contains("28000"), "{denied}");
    for (user, password) in [("ann", "password"), ("ann", ""), ("nobody", "pässword"), ("bob", "pässword")] {
        let error = world.runtime.block_on(client.handshake(user, password)).unwrap_err().to_string();
        assert!(error.contains("28P01"), "{user}: {error}");
    }
    client.set_token("guess".to_owned());
    assert!(world.fetch(&mut client, "SELECT 1").unwrap_err().contains("28000"));
    client.clear_token();
    world.runtime.block_on(client.handshake("ann", "pässword")).unwrap();
    let sum = format!("SELECT sum(n) AS n FROM '{}'", world.path("ann/x.csv"));
    let (_, rows) = world.fetch(&mut client, &sum).unwrap();
    assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().value(0), 3);
    for sql in [
        format!("SELECT * FROM '{}'", world.path("secret.csv")),
        "SELECT * FROM 's3://bucket/x.csv'".to_owned(),
        "VACUUM TEMPORARY FILES".to_owned(),
        "SET ROLE bob".to_owned(),
    ] {
        let error = world.fetch(&mut client, &sql).unwrap_err();
        assert!(error.contains("42501"), "{sql}: {error}");
    }
    // The token is the session: another connection goes on with it, until it is closed.
    world.fetch(&mut client, "CREATE VIEW mine AS SELECT 7 AS a").unwrap();
    let mut other = world.flight_client();
    other.set_token(client.token().unwrap().clone());
    assert_eq!(world.fetch(&mut other, "SELECT a FROM mine").unwrap().1[0].num_rows(), 1);
    let mut bob = world.flight_client();
    world.runtime.block_on(bob.handshake("bob", "b")).unwrap();
    assert!(world.fetch(&mut bob, "SELECT a FROM mine").unwrap_err().contains("42P01"));
    let error = world.fetch(&mut bob, SLOW).unwrap_err();
    assert!(error.contains("57014"), "a limit of the user: {error}");
    // A ticket of another session is worth nothing.
    world.runtime.block_on(async {
        let info = client.execute("SELECT 1".to_owned(), None).await.unwrap();
        let stolen = bob.do_get(info.endpoint[0].ticket.clone().unwrap()).await;
        assert!(stolen.map(drop).unwrap_err().to_string().contains("26000"));
        let mut action = tonic::Request::new(Action::new("CloseSession", Vec::new()));
        let bearer = format!("Bearer {}", client.token().unwrap()).parse().unwrap();
        action.metadata_mut().insert("authorization", bearer);
        client.inner_mut().do_action(action).await.unwrap();
    });
    assert!(world.fetch(&mut other, "SELECT 1").unwrap_err().contains("28000"));
}
