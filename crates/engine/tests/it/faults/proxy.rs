//! A man in the middle of HTTP/1.1: it knows requests, answers, and the messages of an answer, and
//! spoils what it is told to.
//!
//! An answer is taken whole, cut into its event-stream messages, spoiled, and handed on; so where
//! it breaks does not depend on how the bytes happened to travel.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Read through a buffer, written as it is.
type Stream = BufReader<TcpStream>;

/// What a request asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    Select,
    Fragment,
    /// The bytes of an object, or some of them.
    Get,
    /// Anything else: it is never spoiled.
    Other,
}

/// What happens to an answer. Messages are counted from the first; in an answer without messages
/// the body is the only one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The connection breaks after so many messages and so many bytes of the next.
    Break { messages: usize, bytes: usize },
    /// The answer ends there as if it were complete.
    End { messages: usize, bytes: usize },
    /// One bit of this message is turned.
    Damage { message: usize, bit: usize },
    /// This message does not come.
    Omit { message: usize },
    /// This message comes twice.
    Repeat { message: usize },
    /// The answer is another: its status and reason.
    Refuse(&'static str),
    /// The server dies after so many messages, and with it the connection.
    Die { messages: usize },
    /// The answer does not come, and the connection stays open.
    Stall,
}

/// Says what happens to the answer of a request: its place among those that are not of
/// [`Kind::Other`], and its kind.
type Plan = dyn Fn(usize, Kind) -> Option<Fault> + Send + Sync;

/// A proxy before a server; it lives as long as the test.
#[derive(Clone)]
pub struct Proxy(Arc<Shared>);

struct Shared {
    target: SocketAddr,
    /// Whether the server seems to speak the first version of the fragment route only.
    is_older: bool,
    /// The time before each answer.
    latency: Duration,
    plan: Box<Plan>,
    /// What [`Fault::Die`] does.
    kill: Box<dyn Fn() + Send + Sync>,
    endpoint: String,
    seen: Mutex<Seen>,
}

/// What passed.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Each request that may be spoiled, in the order of their coming, and how many messages its
    /// answer had.
    pub answers: Vec<(Kind, usize)>,
    /// How many answers were spoiled.
    pub spoiled: usize,
    /// How many reads are in flight, and the most that were.
    pub in_flight: usize,
    pub most_in_flight: usize,
}

impl Proxy {
    /// A proxy before this server, an address as `http://127.0.0.1:9000`.
    pub async fn start(
        target: &str,
        plan: impl Fn(usize, Kind) -> Option<Fault> + Send + Sync + 'static,
        kill: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self::of(target, false, Duration::ZERO, plan, kill).await
    }

    /// One that does no harm before a server that seems to speak the first version of the fragment
    /// route only.
    pub async fn older(target: &str) -> Self {
        Self::of(target, true, Duration::ZERO, |_, _| None, || {}).await
    }

    /// A proxy that delays each answer by `latency`.
    pub async fn far(
        target: &str,
        latency: Duration,
        plan: impl Fn(usize, Kind) -> Option<Fault> + Send + Sync + 'static,
    ) -> Self {
        Self::of(target, false, latency, plan, || {}).await
    }

    async fn of(
        target: &str,
        is_older: bool,
        latency: Duration,
        plan: impl Fn(usize, Kind) -> Option<Fault> + Send + Sync + 'static,
        kill: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let target = target.trim_start_matches("http://").parse().expect("an address");
        let seen = Mutex::default();
        let shared =
            Arc::new(Shared { target, is_older, latency, plan: Box::new(plan), kill: Box::new(kill), endpoint, seen });
        let proxy = Self(Arc::clone(&shared));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    // A connection that breaks is what this is for.
                    let _ = shared.serve(client).await;
                });
            }
        });
        proxy
    }

    pub fn endpoint(&self) -> String {
        self.0.endpoint.clone()
    }

    pub fn seen(&self) -> Seen {
        self.0.seen.lock().expect("no panic").clone()
    }
}

impl Shared {
    async fn serve(&self, client: TcpStream) -> io::Result<()> {
        let mut server = BufReader::new(TcpStream::connect(self.target).await?);
        let mut client = BufReader::new(client);
        loop {
            let Some((head, body)) = read_message(&mut client, false, usize::MAX).await? else { return Ok(()) };
            let kind = kind(&head);
            let place = (kind != Kind::Other).then(|| {
                let mut seen = self.seen.lock().expect("no panic");
                seen.answers.push((kind, 0));
                seen.answers.len() - 1
            });
            let _in_flight = (kind == Kind::Get).then(|| self.begin());
            tokio::time::sleep(self.latency).await;
            let fault = place.and_then(|place| (self.plan)(place, kind));
            self.seen.lock().expect("no panic").spoiled += usize::from(fault.is_some());
            if let Some(Fault::Refuse(status)) = fault {
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                return client.write_all(answer.as_bytes()).await;
            }
            if fault == Some(Fault::Stall) {
                return std::future::pending().await;
            }
            server.write_all(head.as_bytes()).await?;
            server.write_all(&body).await?;
            let asks_head = head.starts_with("HEAD ");
            // One that is to die is not heard to the end.
            let heard = if let Some(Fault::Die { messages }) = fault { messages } else { usize::MAX };
            let Some((head, body)) = read_message(&mut server, asks_head, heard).await? else { return Ok(()) };
            let events = matches!(kind, Kind::Select | Kind::Fragment) && head.starts_with("HTTP/1.1 200");
            let messages = if events { messages(&body) } else { vec![body] };
            if let Some(place) = place {
                self.seen.lock().expect("no panic").answers[place].1 = messages.len();
            }
            if !self.answer(&mut client, &head, messages, fault, asks_head).await? {
                return Ok(());
            }
        }
    }

    /// Counts a read as in flight until the result is dropped.
    fn begin(&self) -> InFlight<'_> {
        let mut seen = self.seen.lock().expect("no panic");
        seen.in_flight += 1;
        seen.most_in_flight = seen.most_in_flight.max(seen.in_flight);
        InFlight(self)
    }

    /// Hands the answer on; `false` if the connection is to break.
    async fn answer(
        &self,
        client: &mut Stream,
        head: &str,
        mut messages: Vec<Vec<u8>>,
        fault: Option<Fault>,
        asks_head: bool,
    ) -> io::Result<bool> {
        let older = self.is_older.then(|| head.replace(pushdowndb_contract::wire::VERSIONS, "1"));
        let head = older.as_deref().unwrap_or(head);
        let count = messages.len().max(1);
        let place = |message: usize| message % count;
        let cut = |messages: &[Vec<u8>], whole: usize, bytes: usize| {
            let rest = messages.get(whole).map_or(&[][..], |next| &next[..bytes.min(next.len().saturating_sub(1))]);
            [messages[..whole.min(messages.len())].concat(), rest.to_vec()].concat()
        };
        match fault {
            Some(Fault::Break { messages: whole, bytes }) => {
                client.write_all(&encode(head, &cut(&messages, whole, bytes), false)).await?;
                return Ok(false);
            }
            Some(Fault::Die { messages: whole }) => {
                (self.kill)();
                client.write_all(&encode(head, &cut(&messages, whole, 0), false)).await?;
                return Ok(false);
            }
            Some(Fault::End { messages: whole, bytes }) => {
                client.write_all(&encode(head, &cut(&messages, whole, bytes), true)).await?;
                // With a length in the head, an answer that is too short is one that broke off.
                return Ok(is_chunked(head));
            }
            Some(Fault::Damage { message, bit }) => {
                let message = &mut messages[place(message)];
                if !message.is_empty() {
                    let bit = bit % (message.len() * 8);
                    message[bit / 8] ^= 1 << (bit % 8);
                }
            }
            Some(Fault::Omit { message }) => {
                messages.remove(place(message));
            }
            Some(Fault::Repeat { message }) => {
                let message = place(message);
                messages.insert(message, messages[message].clone());
            }
            Some(Fault::Refuse(_) | Fault::Stall) | None => {}
        }
        if asks_head {
            client.write_all(head.as_bytes()).await?;
            return Ok(true);
        }
        client.write_all(&encode(head, &messages.concat(), true)).await?;
        Ok(true)
    }
}

struct InFlight<'a>(&'a Shared);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.seen.lock().expect("no panic").in_flight -= 1;
    }
}

/// What the head of a request asks for.
fn kind(head: &str) -> Kind {
    let line = head.lines().next().unwrap_or_default();
    match line.split(' ').next() {
        Some("POST") if line.contains("select-type=2") => Kind::Select,
        Some("POST") if line.contains("?pushdowndb-fragment") => Kind::Fragment,
        Some("GET") if !line.contains('?') => Kind::Get,
        _ => Kind::Other,
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned()).next()
}

fn is_chunked(head: &str) -> bool {
    header(head, "transfer-encoding").is_some_and(|encoding| encoding.contains("chunked"))
}

/// A request or an answer: its head, and its body without the marks of chunks, at most so many
/// messages of it. `None` at the end of the connection.
async fn read_message(stream: &mut Stream, head_only: bool, most: usize) -> io::Result<Option<(String, Vec<u8>)>> {
    let Some(head) = read_until(stream, b"\r\n\r\n").await? else { return Ok(None) };
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut body = Vec::new();
    if head_only || head.starts_with("HTTP/1.1 204") || head.starts_with("HTTP/1.1 304") {
        return Ok(Some((head, body)));
    }
    if !is_chunked(&head) {
        let length = header(&head, "content-length").map_or(0, |length| length.parse().expect("a length"));
        body.resize(length, 0);
        stream.read_exact(&mut body).await?;
        return Ok(Some((head, body)));
    }
    while most == usize::MAX || messages(&body).len() < most {
        let line = read_until(stream, b"\r\n").await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = String::from_utf8_lossy(&line);
        let length = usize::from_str_radix(length.trim(), 16).expect("the length of a chunk");
        let mut chunk = vec![0; length + 2];
        stream.read_exact(&mut chunk).await?;
        if length == 0 {
            break;
        }
        body.extend_from_slice(&chunk[..length]);
    }
    Ok(Some((head, body)))
}

/// Bytes up to this mark and with it; `None` if there is none.
async fn read_until(stream: &mut Stream, mark: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(mark) {
        match stream.read_u8().await {
            Ok(byte) => bytes.push(byte),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && bytes.is_empty() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(bytes))
}

/// The event-stream messages of a body: each begins with its length.
fn messages(mut body: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while let Some(length) = body.first_chunk::<4>() {
        let (message, rest) = body.split_at(body.len().min(u32::from_be_bytes(*length) as usize));
        messages.push(message.to_vec());
        body = rest;
    }
    messages
}

/// The answer as it travels; without an end it is one that breaks off.
fn encode(head: &str, body: &[u8], ends: bool) -> Vec<u8> {
    let mut bytes = head.as_bytes().to_vec();
    if !is_chunked(head) {
        bytes.extend_from_slice(body);
        return bytes;
    }
    if !body.is_empty() {
        bytes.extend_from_slice(format!("{:x}\r\n", body.len()).as_bytes());
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(b"\r\n");
    }
    if ends {
        bytes.extend_from_slice(b"0\r\n\r\n");
    }
    bytes
}
