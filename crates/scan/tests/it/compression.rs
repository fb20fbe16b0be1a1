//! Compressed text: streamed, complete or refused.

use std::io::Write;

use arrow::datatypes::DataType;
use flate2::Compression as Level;
use flate2::write::GzEncoder;
use pushdowndb_contract::{Compression, CsvOptions, ErrorKind};
use pushdowndb_scan::InMemory;

use crate::support::*;

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Level::fast());
    encoder.write_all(text.as_bytes()).expect("compressed");
    encoder.finish().expect("compressed")
}

async fn compress(text: &str, compression: Compression) -> Vec<u8> {
    use async_compression::tokio::bufread::{BzEncoder, ZstdEncoder};
    use tokio::io::AsyncReadExt;
    let mut bytes = Vec::new();
    match compression {
        Compression::None => bytes = text.into(),
        Compression::Gzip => bytes = gzip(text),
        Compression::Bzip2 => _ = BzEncoder::new(text.as_bytes()).read_to_end(&mut bytes).await.expect("compressed"),
        Compression::Zstd => _ = ZstdEncoder::new(text.as_bytes()).read_to_end(&mut bytes).await.expect("compressed"),
    }
    bytes
}

#[tokio::test]
async fn every_format_reads_all_members_and_refuses_a_part() {
    let columns = schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
    let first: String = std::iter::once("a,b\n".into()).chain((0..50_000).map(|i| format!("{i},x{i}\n"))).collect();
    let second: String = (50_000..60_000).map(|i| format!("{i},x{i}\n")).collect();
    for compression in [Compression::Gzip, Compression::Bzip2, Compression::Zstd] {
        let fragment = csv(&columns, CsvOptions { compression, ..CsvOptions::default() });
        let mut bytes = compress(&first, compression).await;
        let end_of_first = bytes.len();
        bytes.extend(compress(&second, compression).await);
        let reader = InMemory::new("k", bytes.clone()).with_piece_bytes(1000);
        let (batch, counters) = try_run_with(&fragment, reader, None, 8192).await.expect("rows");
        assert_eq!(batch.num_rows(), 60_000, "{compression:?}");
        assert_eq!(counters.bytes_scanned.into_inner(), bytes.len() as u64);
        for cut in [1, 5, 100, end_of_first / 2, end_of_first - 1, end_of_first + 3, bytes.len() - 1] {
            let error = try_run(&fragment, bytes[..cut].to_vec()).await.map(|b| b.num_rows()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{compression:?} cut at {cut}: {error}");
            assert!(error.to_string().starts_with("s3://b/k: "), "{error}");
        }
        assert_eq!(run(&fragment, Vec::new()).await.num_rows(), 0);
        let garbage = try_run(&fragment, "this is not compressed").await.map(|b| b.num_rows()).unwrap_err();
        assert_eq!(garbage.kind(), ErrorKind::Corrupt, "{garbage}");
        let range = try_run_with(&fragment, InMemory::new("k", bytes), Some(0..10), 10).await.map(|_| ()).unwrap_err();
        assert_eq!(range.to_string(), "k: is compressed, so a byte range of it cannot be read alone");
    }
}
