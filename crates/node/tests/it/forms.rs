//! Upload forms as no browser writes them: their policy decides, whatever else they hold.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::Utc;
use pushdowndb_node::Node;

use crate::wire::{head, hex, hmac, rest, send, signing_key};
use crate::world::{BUCKET, World, raw};

/// The fields of a form whose policy allows the object `key` and nothing else.
fn signed_fields(node: &Node, key: &str) -> Vec<(String, String)> {
    let (now, keys) = (Utc::now(), node.credentials());
    let day = now.format("%Y%m%d").to_string();
    let credential = format!("{}/{day}/us-east-1/s3/aws4_request", keys.access_key_id);
    let time = now.format("%Y%m%dT%H%M%SZ").to_string();
    let covered = [
        ("key", key),
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", credential.as_str()),
        ("x-amz-date", time.as_str()),
    ];
    let conditions: String = covered.iter().map(|(name, value)| format!(",{{\"{name}\":\"{value}\"}}")).collect();
    let policy = policy(&format!("{{\"bucket\":\"{BUCKET}\"}}{conditions}"));
    let signature = hex(&hmac(&signing_key(&keys.secret_access_key, &day), policy.as_bytes()));
    let signed = [("policy", policy.as_str()), ("x-amz-signature", signature.as_str())];
    covered.into_iter().chain(signed).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A policy with these conditions, as forms carry it.
fn policy(conditions: &str) -> String {
    let until = (Utc::now() + chrono::Duration::minutes(5)).format("%Y-%m-%dT%H:%M:%SZ");
    BASE64_STANDARD.encode(format!("{{\"expiration\":\"{until}\",\"conditions\":[{conditions}]}}"))
}

/// The body of a form with the boundary `b`.
fn body(fields: &[(String, String)]) -> String {
    let part = |(name, value): &(String, String)| {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let fields: String = fields.iter().map(part).collect();
    format!("{fields}--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nbytes\r\n--b--\r\n")
}

fn post(node: &Node, fields: &[(String, String)]) -> String {
    let body = body(fields);
    let length = body.len();
    let head = format!("POST /{BUCKET} HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\n");
    raw(node, &format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"))
}

fn status(node: &Node, key: &str) -> String {
    rest(send(node, "GET", &format!("/{BUCKET}/{key}"), ""))[9..12].to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_hidden_in_a_field_is_not_obeyed() {
    let world = World::new().await;
    let node = &world.node;
    let answer = post(node, &signed_fields(node, "allowed"));
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    // A parser that takes the first line of a value for a boundary reads one more field.
    let hide =
        |name: &str, value: &str| format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}");
    let any = ["key", "x-amz-algorithm", "x-amz-credential", "x-amz-date"];
    let any: Vec<String> = any.iter().map(|name| format!("[\"starts-with\",\"${name}\",\"\"]")).collect();
    let mut fields = signed_fields(node, "allowed");
    fields.push(("x-ignore-a".to_owned(), hide("policy", &policy(&any.join(",")))));
    fields.push(("x-ignore-b".to_owned(), hide("key", "forbidden")));
    let answer = post(node, &fields);
    assert_eq!(status(node, "forbidden"), "404", "{answer}");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_not_verified_as_a_form_is_none() {
    let world = World::new().await;
    let (node, keys) = (&world.node, world.node.credentials());
    let body = body(&[("key".to_owned(), "uploaded".to_owned())]);
    let keys = (keys.access_key_id.as_str(), keys.secret_access_key.as_str());
    let head = head(node, keys, "POST", &format!("/{BUCKET}?delete="), body.as_bytes());
    // The signature does not cover the type. Of the two, s3s sees the one that is text.
    let types = b"Content-Type: multipart/form-data; boundary=b\r\nContent-Type: \xFF\r\n\r\n";
    let request = [head.trim_end().as_bytes(), b"\r\n", types, body.as_bytes()].concat();
    let mut stream = std::net::TcpStream::connect(node.address()).unwrap();
    std::io::Write::write_all(&mut stream, &request).unwrap();
    let answer = rest(stream);
    assert_eq!(status(node, "uploaded"), "404", "{answer}");
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
}
