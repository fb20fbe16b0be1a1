//! The memory of a process under all requests that could fill it at once.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::WriterProperties;
use pushdowndb_testkit::s3::{Payload, signed_head};
use pushdowndb_testkit::skip::skipped;

use crate::serve::{KEY, SECRET, Served};

/// The memory limit of the node.
const MEMORY: &str = "768MiB";
const MEMORY_BYTES: u64 = 768 << 20;

/// The duration of the attacks.
const ATTACKED: Duration = Duration::from_secs(15);

/// No request may take longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of the node with one key.
#[derive(Clone)]
struct Client {
    address: String,
    key: &'static str,
}

/// A connection whose request was sent, in part or as a whole.
struct Sent(TcpStream);

impl Client {
    /// Sends the head of a request; the body follows.
    fn head(&self, method: &str, target: &str, headers: &[(&str, &str)], payload: Payload<'_>) -> Sent {
        let head = signed_head(&self.address, (self.key, SECRET), (method, target), headers, payload);
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        Sent(stream)
    }

    fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Sent {
        let mut sent = self.head(method, target, headers, Payload::Unsigned(body.len()));
        sent.write(body);
        sent
    }

    /// Status and answer.
    fn ask(&self, method: &str, target: &str, body: &[u8]) -> (u16, Vec<u8>) {
        self.send(method, target, &[], body).answer()
    }

    fn put(&self, target: &str, body: &[u8]) {
        let (status, answer) = self.ask("PUT", target, body);
        assert_eq!(status, 200, "{target}: {}", String::from_utf8_lossy(&answer));
    }

    fn select(&self, key: &str, input: &str, sql: &str) -> Sent {
        let sql = sql.replace('<', "&lt;");
        let body = format!(
            "<SelectObjectContentRequest><Expression>{sql}</Expression><ExpressionType>SQL</ExpressionType>\
             <InputSerialization>{input}</InputSerialization><OutputSerialization><CSV/></OutputSerialization>\
             </SelectObjectContentRequest>"
        );
        let headers = [("x-pushdowndb-select-extensions", "on")];
        self.send("POST", &format!("/attacked/{key}?select&select-type=2"), &headers, body.as_bytes())
    }
}

impl Sent {
    /// Sends more; the node may have refused the request already.
    fn write(&mut self, body: &[u8]) {
        drop(self.0.write_all(body));
    }

    fn answer(mut self) -> (u16, Vec<u8>) {
        let mut answer = Vec::new();
        drop(self.0.read_to_end(&mut answer));
        let status = answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        (status.unwrap_or(0), answer)
    }
}

fn column(values: impl IntoIterator<Item = String>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn parquet(columns: Vec<ArrayRef>, dictionaries: bool) -> Vec<u8> {
    let named = columns.into_iter().enumerate().map(|(place, column)| (format!("c{place}"), column));
    let batch = RecordBatch::try_from_iter(named).unwrap();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).unwrap()))
        .set_dictionary_enabled(dictionaries)
        .set_dictionary_page_size_limit(1 << 30)
        .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

/// A Parquet file with columns of one page each, whose footer understates the row group.
fn lying_parquet(columns: usize, page_bytes: usize) -> Vec<u8> {
    let file = parquet(vec![column(["a".repeat(page_bytes)]); columns], false);
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::from(file.clone()));
    let mut metadata = metadata.unwrap().into_builder();
    let groups = metadata.take_row_groups();
    let small = |group: parquet::file::metadata::RowGroupMetaData| {
        group.into_builder().set_total_byte_size(1000).build().unwrap()
    };
    let metadata = metadata.set_row_groups(groups.into_iter().map(small).collect()).build();
    let footer = u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().unwrap()) as usize;
    let mut lies = file[..file.len() - 8 - footer].to_vec();
    ParquetMetaDataWriter::new(&mut lies, &metadata).finish().unwrap();
    lies
}

/// Text in a frame whose window holds all of it.
fn wide_zstd(bytes: usize) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(27).unwrap();
    encoder.include_contentsize(false).unwrap();
    let line = b"a record like any other\n".repeat(10_000);
    for _ in 0..bytes / line.len() {
        encoder.write_all(&line).unwrap();
    }
    encoder.finish().unwrap()
}

const CSV: &str = "<CSV/>";
const PARQUET: &str = "<Parquet/>";
const ZSTD: &str = "<CompressionType>ZSTD</CompressionType><CSV/>";

fn prepare(client: &Client) {
    let record = |i: usize| format!("{:0>90},{i}\n", i * 7919 % 1_000_003);
    client.put("/attacked/lies.parquet", &lying_parquet(12, 64 << 20));
    let value = |i: usize| format!("{}{i}", "0".repeat(1_000_000));
    client.put("/attacked/dictionary.parquet", &parquet(vec![column((0..150).map(value))], true));
    let one = column((0..50).map(|_| "b".repeat(1 << 20)));
    client.put("/attacked/dictionaries.parquet", &parquet(vec![one; 300], true));
    client.put("/attacked/window.zst", &wide_zstd(150 << 20));
    client.put("/attacked/records.csv", (0..400_000).map(record).collect::<String>().as_bytes());
    let long = |i: usize| format!("{},{i}\n", "x".repeat(900_000));
    client.put("/attacked/long.csv", (0..60).map(long).collect::<String>().as_bytes());
    client.put("/attacked/small.csv", b"1,2\n3,4\n");
}

/// Sends all attacks at once, from one key. Returns connections with running requests, and those
/// with incomplete ones.
fn attack(client: &Client) -> (Vec<Sent>, Vec<Sent>) {
    let many = |times: usize, column: &str| vec![column; times].join(" || ");
    let conditions: Vec<String> = (1..=12).map(|c| format!("s.c{} LIKE '%b%'", c - 1)).collect();
    let mut asked = Vec::new();
    let mut ask = |times: usize, key: &str, input: &str, sql: &str| {
        asked.extend((0..times).map(|_| client.select(key, input, sql)));
    };
    ask(3, "lies.parquet", PARQUET, &format!("SELECT COUNT(*) FROM S3Object s WHERE {}", conditions.join(" AND ")));
    ask(3, "dictionary.parquet", PARQUET, "SELECT COUNT(*) FROM S3Object s WHERE s.c0 LIKE '%7'");
    ask(2, "dictionaries.parquet", PARQUET, "SELECT * FROM S3Object s");
    ask(6, "window.zst", ZSTD, "SELECT COUNT(*) FROM S3Object s");
    ask(4, "records.csv", CSV, "SELECT s._1, s._2, COUNT(*) FROM S3Object s GROUP BY s._1, s._2");
    ask(4, "records.csv", CSV, "SELECT * FROM S3Object s ORDER BY s._1 LIMIT 100000");
    ask(3, "long.csv", CSV, "SELECT s._2 FROM S3Object s ORDER BY s._1, s._1 LIMIT 100000");
    ask(3, "long.csv", CSV, &format!("SELECT {} FROM S3Object s", many(100, "s._1")));
    let condition = format!("SELECT COUNT(*) FROM S3Object s WHERE {} LIKE '%y%'", many(100, "s._1"));
    ask(3, "long.csv", CSV, &condition);
    let constant = format!("SELECT CASE WHEN s._2 = '' THEN '' ELSE '{}' END FROM S3Object s", "y".repeat(200_000));
    ask(3, "records.csv", CSV, &constant);
    // Nobody reads their answers.
    ask(10, "records.csv", CSV, "SELECT * FROM S3Object s");

    let mut begun = Vec::new();
    let part = vec![b' '; 3 << 20];
    for _ in 0..40 {
        let headers = [("content-md5", "kAFQmDzST7DWlj99KOF/cg==")];
        let mut document = client.head("PUT", "/attacked?tagging", &headers, Payload::Unsigned(4 << 20));
        document.write(&part);
        begun.push(document);
    }
    for _ in 0..16 {
        let mut fragment = client.head("POST", "/attacked?pushdowndb-fragment", &[], Payload::Unsigned(32 << 20));
        (0..8).for_each(|_| fragment.write(&part));
        begun.push(fragment);
    }
    for i in 0..40 {
        let length = 16 << 20;
        let decoded = length.to_string();
        let headers = [("x-amz-decoded-content-length", decoded.as_str())];
        let line = format!("{length:x};chunk-signature={}\r\n", "a".repeat(64));
        let mut chunk =
            client.head("PUT", &format!("/attacked/chunk{i}"), &headers, Payload::Chunked(line.len() + length + 88));
        chunk.write(line.as_bytes());
        (0..4).for_each(|_| chunk.write(&part));
        begun.push(chunk);
    }
    (asked, begun)
}

#[test]
fn a_node_stays_within_its_memory_whatever_is_asked_of_it() {
    if !std::path::Path::new("/proc/self/status").exists() {
        skipped("this system does not report the peak memory of a process");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys.toml");
    let text = format!("[[key]]\naccess_key_id = \"attacker\"\nsecret_access_key = \"{SECRET}\"\n");
    std::fs::write(&keys, text).unwrap();
    let store = dir.path().join("store");
    let args = ["--store", store.to_str().unwrap(), "--credentials", keys.to_str().unwrap(), "--memory", MEMORY];
    let served = Served::start(&args);
    let address = served.endpoint().trim_start_matches("http://").to_owned();
    let (victim, attacker) = (Client { address: address.clone(), key: KEY }, Client { address, key: "attacker" });
    victim.put("/attacked", b"");
    prepare(&victim);

    let since = Instant::now();
    let (asked, begun) = attack(&attacker);
    let (mut got, mut selected) = (0, 0);
    while since.elapsed() < ATTACKED {
        let (status, answer) = victim.ask("GET", "/attacked/small.csv", b"");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
        got += 1;
        let (status, answer) =
            victim.select("small.csv", CSV, "SELECT SUM(CAST(s._2 AS INT)) FROM S3Object s").answer();
        let text = String::from_utf8_lossy(&answer);
        assert!(status == 200 && text.contains("6\n"), "{text}");
        selected += 1;
        std::thread::sleep(Duration::from_millis(200));
    }
    let peak = served.peak_bytes();
    let answered = asked.len();
    for connection in asked.into_iter().chain(begun) {
        drop(connection.0.shutdown(Shutdown::Both));
    }
    let (_, metrics) = victim.ask("GET", "/metrics", b"");
    let metrics = String::from_utf8_lossy(&metrics).into_owned();
    let figure =
        |name: &str| metrics.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).map(str::to_owned);
    let figures = ["memory_limit_bytes", "memory_peak_bytes", "memory_refused_total"]
        .map(|name| figure(&format!("pushdowndb_{name}")));
    println!("{answered} scans, {got} reads and {selected} selects beside them, peak {} MiB: {figures:?}", peak >> 20);
    assert!(peak <= MEMORY_BYTES, "the node held {} MiB of {MEMORY}: {figures:?}", peak >> 20);
    assert!(got >= 5 && selected >= 5, "{got} reads and {selected} selects");
}
