//! A client of PostgreSQL's protocol that sends any bytes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::world::World;

/// A plain connection.
pub struct Client(pub TcpStream);

impl Client {
    /// A connection without a session.
    pub fn connect(world: &World) -> Self {
        let socket = TcpStream::connect(world.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(socket)
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        // It may have closed the connection already.
        let _ = self.0.write_all(bytes);
    }

    /// The rest until the server closes the connection.
    pub fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest);
        rest
    }

    /// Starts a session and reads up to its prompt.
    pub fn session(world: &World) -> Self {
        let mut client = Self::connect(world);
        client.send(&startup(b"user\0tester\0database\0db\0\0"));
        client.until(b'Z');
        client
    }

    /// Reads messages up to one of this type, and returns their types and the last one's fields.
    pub fn until(&mut self, last: u8) -> (Vec<u8>, Vec<u8>) {
        let mut tags = Vec::new();
        loop {
            let (tag, fields) = self.message();
            tags.push(tag);
            if tag == last {
                return (tags, fields);
            }
        }
    }

    /// Reads a message: its type and its fields.
    fn message(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 5];
        self.0.read_exact(&mut head).expect("a message");
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
        let mut fields = vec![0; length];
        self.0.read_exact(&mut fields).unwrap();
        (head[0], fields)
    }
}

/// The texts of the rows of a query, by the simple protocol or the extended one.
pub fn rows(world: &World, sql: &str, is_extended: bool) -> Vec<Vec<String>> {
    let mut client = Client::session(world);
    match is_extended {
        false => client.send(&message(b'Q', format!("{sql}\0").as_bytes())),
        true => {
            let parse = message(b'P', format!("\0{sql}\0\0\0").as_bytes());
            let (bind, describe) = (message(b'B', b"\0\0\0\0\0\0\0\0"), message(b'D', b"P\0"));
            let execute = message(b'E', b"\0\0\0\0\0");
            client.send(&[parse, bind, describe, execute, message(b'S', b"")].concat());
        }
    }
    let mut rows = Vec::new();
    loop {
        let (tag, fields) = client.message();
        match tag {
            b'D' => rows.push(values(&fields)),
            b'E' => panic!("{sql}: {}", String::from_utf8_lossy(&fields)),
            b'Z' => return rows,
            _ => {}
        }
    }
}

/// The values of a row.
fn values(fields: &[u8]) -> Vec<String> {
    let (count, mut rest) = fields.split_at(2);
    let mut values = Vec::new();
    for _ in 0..u16::from_be_bytes(count.try_into().unwrap()) {
        let (length, after) = rest.split_at(4);
        match i32::from_be_bytes(length.try_into().unwrap()) {
            -1 => {
                values.push("NULL".to_owned());
                rest = after;
            }
            length => {
                let (value, after) = after.split_at(usize::try_from(length).unwrap());
                values.push(String::from_utf8(value.to_vec()).unwrap());
                rest = after;
            }
        }
    }
    values
}

fn startup(parameters: &[u8]) -> Vec<u8> {
    let mut packet = u32::try_from(parameters.len() + 8).unwrap().to_be_bytes().to_vec();
    packet.extend_from_slice(&196_608_u32.to_be_bytes());
    packet.extend_from_slice(parameters);
    packet
}

/// A message of this type.
pub fn message(tag: u8, fields: &[u8]) -> Vec<u8> {
    let mut message = vec![tag];
    message.extend_from_slice(&u32::try_from(fields.len() + 4).unwrap().to_be_bytes());
    message.extend_from_slice(fields);
    message
}
