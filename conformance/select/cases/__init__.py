"""The cases, a file by theme. Each has `CASES`: rows of tables, and `(name, function)` where a table is not enough."""
