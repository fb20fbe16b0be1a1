//! What clients ask for when they start: recorded statements, and psql's commands.

use crate::world::World;

/// Statements of clients, recorded by the project datafusion-postgres (Apache License 2.0), besides
/// those of Npgsql (PostgreSQL License) and of the driver for ODBC.
const RECORDED: [(&str, &str); 8] = [
    ("adbc", include_str!("../fixtures/adbc.sql")),
    ("dbeaver", include_str!("../fixtures/dbeaver.sql")),
    ("grafana", include_str!("../fixtures/grafana.sql")),
    ("metabase", include_str!("../fixtures/metabase.sql")),
    ("npgsql", include_str!("../fixtures/npgsql.sql")),
    ("pgadmin", include_str!("../fixtures/pgadmin.sql")),
    ("pgcli", include_str!("../fixtures/pgcli.sql")),
    ("psql", include_str!("../fixtures/psql.sql")),
];

#[test]
fn recorded_statements_of_clients_are_answered() {
    let world = World::with_table();
    let mut failed = Vec::new();
    let mut count = 0;
    for (client, script) in RECORDED {
        for statement in script.split(";\n\n").map(|s| s.trim().trim_end_matches(';')).filter(|s| !s.is_empty()) {
            count += 1;
            // The tables of the recordings are not here.
            let statement = &statement.replace("'clubs'", "'sales'");
            let done = world.psql(&["-c", statement]);
            if done.code() != 0 {
                failed.push(format!("{client}: {statement}\n{}", done.stderr()));
            }
        }
    }
    assert!(count > 60 && failed.is_empty(), "{} of {count}:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn psql_describes_tables() {
    let world = World::with_table();
    let tables = world.psql(&["-A", "-t", "-c", "\\dt"]).ok();
    assert!(tables.contains("public|sales|table"), "{tables}");
    let databases = world.psql(&["-A", "-t", "-c", "\\l"]).ok();
    assert!(databases.starts_with("pushdowndb|"), "{databases}");
    for command in [
        "\\d",
        "\\d+",
        "\\dv",
        "\\dv+",
        "\\dt+",
        "\\l+",
        "\\dd",
        "\\dL",
        "\\dX",
        "\\dn",
        "\\dn+",
        "\\df",
        "\\di",
        "\\dp",
        "\\di+",
        "\\dT",
        "\\dc",
        "\\df+",
        "\\d+ sales",
        "\\dS pg_class",
        "\\d pg_class",
        "\\conninfo",
        "\\encoding",
    ] {
        let outcome = world.psql(&["-c", command]);
        assert_eq!(outcome.code(), 0, "{command}: {}", outcome.stderr());
    }
    let columns = world.psql(&["-A", "-t", "-c", "\\d sales"]).ok();
    assert_eq!(columns, "day|date|||\nitem|text|||\nprice|numeric(10,2)|||\n");
    let view = world.psql(&["-c", "CREATE VIEW v AS SELECT 1 AS a, [1.5] AS l", "-A", "-t", "-c", "\\d v"]).ok();
    assert!(view.ends_with("a|bigint||not null|\nl|numeric[]|||\n"), "{view}");
    let privileges = world.psql(&["-A", "-t", "-c", "\\dp"]).ok();
    assert_eq!(privileges, "public|sales|table|||\n", "and no table of information_schema");
    let users = world.psql(&["-A", "-t", "-c", "\\du"]).ok();
    assert!(users.starts_with("tester|"), "{users}");
    let dear = "CREATE TEMPORARY VIEW dear AS SELECT item FROM sales WHERE price > 2";
    let view = world.psql(&["-A", "-q", "-c", dear, "-c", "\\sv dear", "-c", "\\d+ dear"]).ok();
    assert!(view.starts_with("CREATE OR REPLACE VIEW public.dear AS\nSELECT item FROM sales"), "{view}");
    assert!(view.contains("View definition:\nSELECT item FROM sales WHERE price > "), "{view}");
    let unknown = world.psql(&["-c", "\\sv missing"]);
    assert!(unknown.stderr().contains("there is no table missing"), "{}", unknown.stderr());
    let file = world.path("copied.csv");
    let copied = format!("\\copy (SELECT item, price FROM sales ORDER BY day) TO '{file}' CSV HEADER");
    assert_eq!(world.psql(&["-c", &copied]).ok(), "COPY 2\n");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "item,price\nbook,12.50\npen,1.20\n");
    let described =
        world.psql(&["-A", "-t", "-c", "\\timing", "-c", "\\x", "-c", "SELECT day FROM sales LIMIT 1"]).ok();
    assert!(described.contains("day|2024-01-01") && described.contains("Time: "), "{described}");
    let missing = world.psql(&["-c", "\\d missing"]);
    assert!(missing.stderr().contains("Did not find any relation"), "{}", missing.stderr());
}

#[test]
fn questions_of_clients_have_answers() {
    let world = World::with_table();
    for (sql, expected) in [
        ("SELECT current_database()", "pushdowndb"),
        ("SELECT current_schema()", "public"),
        ("SELECT current_user", "tester"),
        ("SELECT split_part(version(), ' ', 1)", "PostgreSQL"),
        ("SELECT current_setting('server_version_num')", "160004"),
        ("SHOW server_version", "16.4"),
        ("SHOW transaction isolation level", "read committed"),
        ("SELECT pg_catalog.pg_is_in_recovery()", "f"),
        ("SELECT set_config('application_name', 'x', false)", "x"),
        ("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'", "sales"),
        (
            "SELECT column_name || ' ' || data_type FROM information_schema.columns \
             WHERE table_name = 'sales' AND ordinal_position = 3",
            "price numeric",
        ),
        ("SELECT count(*) FROM information_schema.table_constraints", "0"),
        ("SELECT table_name FROM information_schema.views", ""),
        ("SELECT relname FROM pg_class WHERE oid = 'public.sales'::regclass AND reloptions IS NULL", "sales"),
        ("SELECT 'pg_type'::regclass = 'pg_catalog.pg_type'::regclass", "t"),
        ("SELECT rolname FROM pg_roles", "tester"),
        ("SELECT to_regclass('public.sales') IS NULL", "f"),
        ("SELECT to_regclass('pg_class') IS NULL", "f"),
        ("SELECT to_regclass('missing') IS NULL", "t"),
        ("SELECT EXISTS (SELECT FROM information_schema.tables WHERE table_name = 'sales')", "t"),
        ("SELECT NOT EXISTS (SELECT 1 FROM pg_tables WHERE tablename = 'sales')", "f"),
        ("SELECT NULL, NULL, relname FROM pg_class WHERE relname = 'sales'", "||sales"),
        ("SELECT sum(numbackends) > 0 FROM pg_stat_database WHERE datname = current_database()", "t"),
        (
            "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND \
             a.attnum = ANY(i.indkey) WHERE i.indrelid = 'sales'::regclass AND i.indisprimary = 't'",
            "",
        ),
        ("SELECT datname FROM pg_database", "pushdowndb"),
        ("SELECT count(*) > 300 FROM pg_type", "t"),
        ("SELECT typname FROM pg_type WHERE oid = 1700", "numeric"),
        ("SELECT 'sales'::regclass::oid > 0", "t"),
        ("SELECT setting FROM pg_settings WHERE name = 'pushdown.level'", "auto"),
        ("SELECT count(*) FROM pg_stat_activity WHERE pid = pg_backend_pid()", "1"),
        ("SELECT sum(price) FROM public.sales", "13.70"),
        ("SELECT sum(price) FROM \"public\".\"sales\" WHERE \"sales\".\"item\" = 'pen'", "1.20"),
    ] {
        assert_eq!(world.rows(sql), expected, "{sql}");
    }
    // Rows of tables are not to be had from the catalogue, rather than none.
    let mixed = world.psql(&["-c", "SELECT count(*) FROM sales, pg_catalog.pg_class"]).fails(1);
    assert!(mixed.contains("0A000"), "{mixed}");
}
