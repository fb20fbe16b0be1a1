"""Generated CSV, NDJSON and Parquet files whose rows we read as pyarrow, pandas and DuckDB do."""
