"""Queries whose rows do not fit into memory: killed at any time, and compared with the same ones that have memory."""
