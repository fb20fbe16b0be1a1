//! The engine against real servers: our node and MinIO, with plain DataFusion as the oracle.

mod access;
mod adaptive;
mod bad_input;
mod costs;
mod doors;
mod faults;
mod fragment;
mod groups;
mod indexes;
mod joins;
mod meaning;
mod minio;
mod oracle;
mod profiles;
mod properties;
mod readers;
mod reuse;
mod statistics;
mod top_k;
mod tpch;
mod world;
mod wrong_answers;
