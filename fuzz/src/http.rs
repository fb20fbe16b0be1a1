//! A minimal HTTP client for requests that other clients would not send, with valid signatures if
//! needed.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use chrono::Utc;
use s3s::crypto::{Checksum as _, Sha256};

pub const ACCESS_KEY: &str = "fuzzaccesskey";
pub const SECRET_KEY: &str = "fuzzsecretkey";

/// Maximum bytes of a response; the connection is closed after a longer one.
const ANSWER_BYTES: usize = 1 << 20;

/// A request in parts.
pub struct Request<'a> {
    method: &'a str,
    target: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Parses a text such as `GET /bucket/key?x=1`, header lines, an empty line and a body.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let end = text.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(text.len());
        let head = std::str::from_utf8(&text[..end]).ok()?;
        let body = text.get(end + 4..).unwrap_or_default();
        let mut lines = head.split("\r\n");
        let (method, target) = lines.next()?.split_once(' ')?;
        // Headers that frame the request are skipped: they would make the node wait for more of the
        // request.
        let framing = ["content-length", "transfer-encoding", "expect", "connection", "upgrade", "host"];
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .filter(|(name, _)| !framing.contains(&name.to_ascii_lowercase().as_str()))
            .collect();
        (!method.is_empty()).then_some(Self { method, target, headers, body })
    }

    pub fn unsigned(&self) -> Vec<u8> {
        self.bytes(&[])
    }

    /// Returns the request with a version 4 signature. A `spoil` other than 0 changes one byte of
    /// the signature's header.
    pub fn signed(&self, spoil: u8) -> Vec<u8> {
        let time = Utc::now().format("%Y%m%dT%H%M%SZ").to_string();
        let (day, digest) = (&time[..8], hex(&sha256(self.body)));
        let (path, query) = self.target.split_once('?').unwrap_or((self.target, ""));
        let mut pairs: Vec<String> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| if pair.contains('=') { pair.to_owned() } else { format!("{pair}=") })
            .collect();
        pairs.sort_unstable();
        let canonical = format!(
            "{}\n{path}\n{}\nhost:localhost\nx-amz-content-sha256:{digest}\nx-amz-date:{time}\n\n\
             host;x-amz-content-sha256;x-amz-date\n{digest}",
            self.method,
            pairs.join("&"),
        );
        let scope = format!("{day}/us-east-1/s3/aws4_request");
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&sha256(canonical.as_bytes())));
        let key = ["us-east-1", "s3", "aws4_request", &text]
            .iter()
            .fold(hmac(format!("AWS4{SECRET_KEY}").as_bytes(), day.as_bytes()), |key, part| {
                hmac(&key, part.as_bytes())
            });
        let mut authorization = format!(
            "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={}",
            hex(&key)
        );
        if spoil != 0 {
            let at = usize::from(spoil) * authorization.len() / 64 % authorization.len();
            authorization.replace_range(at..=at, if spoil.is_multiple_of(2) { "" } else { "=" });
        }
        self.bytes(&[("x-amz-content-sha256", &digest), ("x-amz-date", &time), ("authorization", &authorization)])
    }

    fn bytes(&self, more: &[(&str, &str)]) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nhost: localhost\r\n", self.method, self.target);
        for (name, value) in self.headers.iter().chain(more) {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let _ = write!(head, "content-length: {}\r\n\r\n", self.body.len());
        [head.as_bytes(), self.body].concat()
    }
}

/// A connection that is reopened if it was closed.
pub struct Connection {
    address: SocketAddr,
    stream: Option<TcpStream>,
}

impl Connection {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    /// Sends a request and reads the whole response; `None` if there is none.
    pub fn send(&mut self, request: &[u8]) -> Option<Vec<u8>> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(self.address).ok()?;
                stream.set_nodelay(true).ok()?;
                stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
                stream
            }
        };
        stream.write_all(request).ok()?;
        let head = request.starts_with(b"HEAD ");
        let mut answer = Vec::new();
        let mut block = [0; 16 << 10];
        while answer.len() < ANSWER_BYTES {
            match stream.read(&mut block) {
                Ok(0) => return Some(answer),
                Ok(count) => answer.extend_from_slice(&block[..count]),
                // The read was interrupted by the timer of the fuzzer.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => panic!("no answer to {:?}: {error}", String::from_utf8_lossy(request)),
            }
            if let Some(keeps_alive) = is_whole(&answer, head) {
                self.stream = keeps_alive.then_some(stream);
                return Some(answer);
            }
        }
        Some(answer)
    }
}

/// Whether more requests can be sent, if the response is complete; `None` if it is incomplete.
fn is_whole(answer: &[u8], head_only: bool) -> Option<bool> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let keeps_alive = !head.contains("connection: close");
    let bodiless =
        head_only || ["http/1.1 1", "http/1.1 204", "http/1.1 304"].iter().any(|code| head.starts_with(code));
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|text| text.parse().ok());
    let whole = if head.contains("transfer-encoding: chunked") && !bodiless {
        answer.ends_with(b"0\r\n\r\n")
    } else {
        bodiless || answer.len() >= end + length.unwrap_or(0usize)
    };
    whole.then_some(keeps_alive)
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(bytes);
    hash.finalize().to_vec()
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = if key.len() > 64 { sha256(key) } else { key.to_vec() };
    block.resize(64, 0);
    let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    sha256(&[pad(0x5c), sha256(&[pad(0x36), text.to_vec()].concat())].concat())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
