//! A hash join that spills partitions of both sides when its build side does not fit into memory.
