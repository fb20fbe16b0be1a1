//! Bodies in chunks as they are on the wire, signed by hand: no client sends all that may be sent.

use std::io::Write;
use std::net::TcpStream;

use chrono::Utc;
use pushdowndb_node::Node;
use s3s::crypto::{Checksum, Crc32, Sha256};

use crate::wire::{hex, hmac, rest, send, signing_key};
use crate::world::{BUCKET, World};

/// Sends a PUT whose body is signed as this kind, with these further headers, which are signed.
fn put(node: &Node, key: &str, kind: &str, extra: &[(&str, &str)], body: &str) -> String {
    let now = Utc::now();
    let (day, time) = (now.format("%Y%m%d").to_string(), now.format("%Y%m%dT%H%M%SZ").to_string());
    let host = node.address().to_string();
    let mut headers = vec![("host", host.as_str()), ("x-amz-content-sha256", kind), ("x-amz-date", &time)];
    headers.extend(extra);
    headers.sort_unstable();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let canonical = format!("PUT\n/{BUCKET}/{key}\n\n{lines}\n{names}\n{kind}");
    let scope = format!("{day}/us-east-1/s3/aws4_request");
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::checksum(canonical.as_bytes())));
    let keys = node.credentials();
    let signature = hex(&hmac(&signing_key(&keys.secret_access_key, &day), to_sign.as_bytes()));
    let mut head = format!("PUT /{BUCKET}/{key} HTTP/1.1\r\n");
    for (name, value) in &headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!(
        "Authorization: AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        keys.access_key_id,
        body.len()
    );
    let mut stream = TcpStream::connect(node.address()).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    rest(stream)
}

const UNSIGNED: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

#[tokio::test(flavor = "multi_thread")]
async fn unsigned_chunks_may_come_without_a_trailer() {
    use base64::Engine;
    let world = World::new().await;
    let node = &world.node;
    let size = ("x-amz-decoded-content-length", "10");
    let get = |key: &str| rest(send(node, "GET", &format!("/{BUCKET}/{key}"), ""));
    for (key, body) in [
        ("ended", "a\r\n0123456789\r\n0\r\n\r\n"),
        ("halved", "5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n"),
        ("bare", "a\r\n0123456789\r\n0\r\n"),
    ] {
        let answer = put(node, key, UNSIGNED, &[size], body);
        assert!(answer.starts_with("HTTP/1.1 200"), "{key}: {answer}");
        assert!(get(key).ends_with("\r\n\r\n0123456789"), "{key}");
    }
    // One that is announced has to come, and to be right; one that was not announced may not come.
    let sum = base64::prelude::BASE64_STANDARD.encode(Crc32::checksum(b"0123456789"));
    let trailer = ("x-amz-trailer", "x-amz-checksum-crc32");
    let with_sum = |sum: &str| format!("a\r\n0123456789\r\n0\r\nx-amz-checksum-crc32:{sum}\r\n\r\n");
    let right = put(node, "right", UNSIGNED, &[size, trailer], &with_sum(&sum));
    assert!(right.starts_with("HTTP/1.1 200"), "{right}");
    let refused = [
        ("wrong", vec![size, trailer], with_sum("AAAAAA==")),
        ("missing", vec![size, trailer], "a\r\n0123456789\r\n0\r\n\r\n".to_owned()),
        ("stray", vec![size], with_sum(&sum)),
        ("cut", vec![size], "a\r\n01234".to_owned()),
        ("shorter", vec![size], "5\r\n01234\r\n0\r\n\r\n".to_owned()),
        ("longer", vec![size], "b\r\n0123456789x\r\n0\r\n\r\n".to_owned()),
    ];
    for (key, headers, body) in refused {
        let answer = put(node, key, UNSIGNED, &headers, &body);
        assert!(answer.starts_with("HTTP/1.1 400"), "{key}: {answer}");
        assert!(get(key).starts_with("HTTP/1.1 404"), "{key}");
    }
    // Signed chunks are as before: their trailer is to be announced.
    let signed = put(node, "signed", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", &[size], "a\r\n0123456789\r\n0\r\n");
    assert!(signed.starts_with("HTTP/1.1 400"), "{signed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_bytes_of_nothing_are_nothing() {
    let world = World::new().await;
    let node = &world.node;
    for (key, body) in [("empty", ""), ("text", "0123456789")] {
        assert!(rest(send(node, "PUT", &format!("/{BUCKET}/{key}"), body)).starts_with("HTTP/1.1 200"));
    }
    let ask = |method: &str, key: &str, range: &str| {
        let target = format!("/{BUCKET}/{key}");
        let answer = rest(crate::wire::send_with(node, method, &target, &[("range", range)]));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let part = head.to_lowercase().lines().find_map(|line| Some(line.strip_prefix("content-range: ")?.to_owned()));
        (head[9..12].to_owned(), part, body.to_owned())
    };
    for method in ["GET", "HEAD"] {
        for range in ["bytes=-5", "bytes=-1"] {
            assert_eq!(ask(method, "empty", range), ("200".to_owned(), None, String::new()), "{method} {range}");
        }
        for range in ["bytes=-0", "bytes=0-", "bytes=0-0", "bytes=5-9"] {
            assert_eq!(ask(method, "empty", range).0, "416", "{method} {range}");
        }
        assert_eq!(ask(method, "text", "bytes=-0").0, "416", "{method}");
    }
    let last = ask("GET", "text", "bytes=-3");
    assert_eq!(last, ("206".to_owned(), Some("bytes 7-9/10".to_owned()), "789".to_owned()));
}
