//! Real nodes on loopback, driven over HTTP by clients that are not ours.

mod access;
mod boto3;
mod child;
mod durability;
mod gateway;
mod memory;
mod objects;
mod world;
