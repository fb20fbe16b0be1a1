//! TPC-H data in CSV, Parquet and NDJSON, as many objects per table as asked.
