//! Clients of Python, Node and Java: `conformance/postgres`.

use std::process::Command;

use pushdowndb_testkit::program::Outcome;
use pushdowndb_testkit::{process, python, repository};

use crate::world::World;

fn run(cases: &[&str]) {
    run_on(&World::start(), "clients", cases);
}

/// Runs cases of a script in `conformance/postgres`.
fn run_on(world: &World, script: &str, cases: &[&str]) {
    let (address, folder) = (world.address.to_string(), world.path(""));
    let arguments = [&[address.as_str(), folder.trim_end_matches('/')], cases].concat();
    let text = python::run_script(&format!("conformance/postgres/{script}.py"), arguments);
    let done = text.lines().filter(|line| line.contains(": ok") || line.starts_with("SKIPPED")).count();
    assert_eq!(done, cases.len(), "{text}");
}

#[test]
fn psycopg_reads_all_types() {
    run(&["psycopg_types"]);
}

#[test]
fn psycopg_binds_parameters() {
    run(&["psycopg_parameters"]);
}

#[test]
fn psycopg_tells_errors_apart() {
    run(&["psycopg_types", "psycopg_errors", "psycopg_transactions"]);
}

#[test]
fn psycopg_streams_and_copies() {
    run(&["psycopg_many_rows", "psycopg_copy"]);
}

#[test]
fn psycopg_cancels() {
    run(&["psycopg_cancel"]);
}

#[test]
fn sixty_four_clients_get_their_own_rows() {
    run(&["psycopg_64_clients"]);
}

#[test]
fn asyncpg_does_all_of_it() {
    run(&["asyncpg_all"]);
}

#[test]
fn sqlalchemy_finds_and_reads_tables() {
    run_on(&World::start(), "reflection", &["sqlalchemy_all"]);
}

#[test]
fn sqlalchemy_and_pandas_reflect_tables() {
    run_on(&World::with_table(), "reflection", &["sqlalchemy_reflects"]);
}

#[test]
fn ibis_finds_and_queries_tables() {
    run_on(&World::with_table(), "reflection", &["ibis_all"]);
}

#[test]
fn adbc_reads_and_finds_tables() {
    run(&["adbc_all"]);
}

#[test]
fn duckdb_attaches_the_server() {
    run_on(&World::with_table(), "clients", &["duckdb_all"]);
}

#[test]
fn the_client_of_node_works() {
    let Some(modules) = process::installed("clients/node_modules", ".ci/run") else { return };
    let world = World::start();
    let mut node = Command::new("node");
    node.arg(repository().join("conformance/postgres/node_client.mjs"));
    node.arg(world.address.to_string()).arg(world.path("").trim_end_matches('/')).arg(modules);
    assert_eq!(Outcome::of(&mut node).ok(), "node: ok\n");
}

#[test]
fn the_driver_of_java_works() {
    let Some(driver) = process::installed("clients/postgresql-42.7.8.jar", ".ci/run") else { return };
    let world = World::start();
    let mut java = Command::new("java");
    java.arg("-cp").arg(driver).arg(repository().join("conformance/postgres/Jdbc.java"));
    java.arg(world.address.to_string()).arg(world.path("").trim_end_matches('/'));
    assert_eq!(Outcome::of(&mut java).ok(), "jdbc: ok\n");
}
