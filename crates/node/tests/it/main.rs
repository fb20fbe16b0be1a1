//! Real nodes on loopback, driven over HTTP by clients that are not ours.

mod access;
mod child;
mod conformance;
mod crash;
mod durability;
mod foreign;
mod forms;
mod fragment;
mod gateway;
mod gateway_folder;
mod gateway_object;
mod history;
mod interrupt;
mod memory;
mod objects;
mod rot;
mod running;
mod soak;
mod strangers;
mod streamed;
mod upstream;
mod wire;
mod world;
