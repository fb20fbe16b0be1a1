//! A web server that sends other bytes than it was asked for: an error, never a row.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use pushdowndb_engine::{Engine, EngineConfig};

use crate::world::{failure, rows};

const TEXT: &str = "a\n1\n2\n3\n";

/// Answers each request as `script` says of its method and path; counts them.
fn serve(script: impl Fn(&str, &str, &mut TcpStream) + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let asked = Arc::new(AtomicUsize::new(0));
    let (counter, script) = (Arc::clone(&asked), Arc::new(script));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (counter, script, mut stream) = (Arc::clone(&counter), Arc::clone(&script), stream);
            std::thread::spawn(move || {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                if let Some((method, rest)) = head.split_once(' ') {
                    counter.fetch_add(1, SeqCst);
                    script(method, rest.split(' ').next().unwrap_or_default(), &mut stream);
                }
            });
        }
    });
    (address, asked)
}

const HEAD: &str = "ETag: \"v1\"\r\nLast-Modified: Sat, 01 Nov 2025 10:00:00 GMT\r\nConnection: close\r\n";

fn say(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let _ = write!(stream, "HTTP/1.1 {status}\r\n{headers}\r\n{body}");
}

async fn engine() -> Engine {
    let settings = vec![("pushdown.retries".to_owned(), "0".to_owned())];
    Engine::new(EngineConfig { settings, ..EngineConfig::unrestricted() }).await.expect("an engine")
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_were_not_asked_for_are_no_rows() {
    let (address, _) = serve(|method, path, stream| {
        let part = |length: &str| format!("{HEAD}Content-Range: bytes 0-7/8\r\n{length}\r\n");
        let partial = "206 Partial Content";
        let longer = "a\n1\n2\n3\n4\n";
        match (method, path.trim_start_matches('/')) {
            ("HEAD", _) => say(stream, "200 OK", &format!("{HEAD}Content-Length: 8\r\n"), ""),
            ("GET", "true.csv") => say(stream, partial, &part("Content-Length: 8"), TEXT),
            ("GET", "short.csv") => {
                say(stream, partial, &part("Transfer-Encoding: chunked"), "4\r\na\n1\n\r\n0\r\n\r\n")
            }
            ("GET", "long.csv") => {
                say(stream, partial, &part("Transfer-Encoding: chunked"), &format!("a\r\n{longer}\r\n0\r\n\r\n"));
            }
            ("GET", "longer.csv") => say(stream, partial, &part("Content-Length: 10"), longer),
            ("GET", "whole.csv") => say(stream, "200 OK", &format!("{HEAD}Content-Length: 8\r\n"), TEXT),
            ("GET", "shifted.csv") => {
                say(stream, partial, &part("Content-Length: 8").replace("0-7/8", "1-8/9"), TEXT);
            }
            ("GET", "other.csv") => say(stream, partial, &part("Content-Length: 8").replace("v1", "v2"), TEXT),
            _ => say(stream, "404 Not Found", "Content-Length: 0\r\nConnection: close\r\n", ""),
        }
    });
    let engine = engine().await;
    let sum = |name: &str| format!("SELECT sum(a) FROM 'http://{address}/{name}.csv'");
    // A server without ranges sends the whole object.
    for name in ["true", "whole"] {
        assert_eq!(rows(&engine, &sum(name)).await.expect("rows").0, [["6"]], "{name}");
    }
    for name in ["short", "long", "longer", "shifted", "other"] {
        failure(&engine, &sum(name)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_named_and_not_followed() {
    let (inner, reached) = serve(|_, _, stream| say(stream, "200 OK", &format!("{HEAD}Content-Length: 8\r\n"), TEXT));
    let (address, _) = serve(move |_, _, stream| {
        let to = format!("Location: http://{inner}/inner.csv?token=hush\r\nContent-Length: 0\r\nConnection: close\r\n");
        say(stream, "302 Found", &to, "");
    });
    let error = failure(&engine().await, &format!("SELECT * FROM 'http://{address}/t.csv'")).await.to_string();
    assert!(error.contains(&format!("redirects to http://{inner}/inner.csv")), "{error}");
    assert!(!error.contains("hush"), "{error}");
    assert_eq!(reached.load(SeqCst), 0);
}
