//! Signed requests over plain sockets, for clients that read slowly, go away or stop in the middle.

use std::io::{Read, Write};
use std::net::TcpStream;

use pushdowndb_node::Node;
use pushdowndb_testkit::s3::{Keys, Payload, REGION, signed_head};
use s3s::crypto::{Checksum, Sha256};

/// Sends a signed request and returns the connection, from which nothing has been read.
pub fn send(node: &Node, method: &str, target: &str, body: impl AsRef<[u8]>) -> TcpStream {
    let keys = node.credentials();
    send_as(node, (&keys.access_key_id, &keys.secret_access_key), method, target, body)
}

/// The same, signed with this key and secret.
pub fn send_as(node: &Node, keys: Keys<'_>, method: &str, target: &str, body: impl AsRef<[u8]>) -> TcpStream {
    let body = body.as_ref();
    let mut stream = TcpStream::connect(node.address()).unwrap();
    stream.write_all(&[head(node, keys, method, target, body).as_bytes(), body].concat()).unwrap();
    stream
}

/// Sends a signed request without a body, with more headers, which are signed as well.
pub fn send_with(node: &Node, method: &str, target: &str, headers: &[(&str, &str)]) -> TcpStream {
    let keys = node.credentials();
    let keys = (keys.access_key_id.as_str(), keys.secret_access_key.as_str());
    let mut stream = TcpStream::connect(node.address()).unwrap();
    let head = signed_head(&node.address().to_string(), keys, (method, target), headers, Payload::Signed(&[]));
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// The head of a request that is signed with this key and secret, for a body that is sent later.
pub fn head(node: &Node, keys: Keys<'_>, method: &str, target: &str, body: &[u8]) -> String {
    signed_head(&node.address().to_string(), keys, (method, target), &[], Payload::Signed(body))
}

/// Reads the rest of an answer; what is no text is replaced.
pub fn rest(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// The body of a Select request on CSV.
pub fn select_csv(header: &str, expression: &str) -> String {
    let expression = expression.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<SelectObjectContentRequest><Expression>{expression}</Expression><ExpressionType>SQL</ExpressionType>\
         <InputSerialization><CSV><FileHeaderInfo>{header}</FileHeaderInfo></CSV></InputSerialization>\
         <OutputSerialization><CSV/></OutputSerialization></SelectObjectContentRequest>"
    )
}

/// HMAC with SHA-256, for a `key` of at most 64 bytes.
pub fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::checksum(&[&pad(0x36)[..], text].concat());
    Sha256::checksum(&[&pad(0x5c)[..], &inner].concat())
}

/// Lower-case hexadecimal digits of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The key that signs with `secret` on `day`, written as `20260101`.
pub fn signing_key(secret: &str, day: &str) -> [u8; 32] {
    let dated = hmac(format!("AWS4{secret}").as_bytes(), day.as_bytes());
    [REGION, "s3", "aws4_request"].iter().fold(dated, |key, part| hmac(&key, part.as_bytes()))
}
