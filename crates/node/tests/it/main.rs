//! Real nodes on loopback, driven over HTTP by clients that are not ours.

mod access;
mod boto3;
mod durability;
mod gateway;
mod objects;
mod world;
