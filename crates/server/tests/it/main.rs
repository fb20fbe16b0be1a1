//! The server from outside, by real clients and by bytes that no client sends.

mod access;
mod catalogue;
mod clients;
mod flight;
mod login;
mod protocols;
mod raw;
mod wire;
mod world;
