"""Random statements whose answers DuckDB, PostgreSQL and every way of ours must agree on."""
