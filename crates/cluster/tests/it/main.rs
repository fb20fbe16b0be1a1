//! Queries on one process and on several, which have the same rows.

mod access;
mod cluster;
#[allow(dead_code, reason = "shared with the engine's tests")]
#[path = "../../../engine/tests/it/properties/data.rs"]
mod data;
mod generated;
mod lost;
#[allow(dead_code, reason = "shared with the engine's tests")]
#[path = "../../../engine/tests/it/properties/queries.rs"]
mod queries;
mod tpch;
#[allow(dead_code, reason = "shared with the engine's tests")]
#[path = "../../../engine/tests/it/world.rs"]
mod world;
