"""Conformance suites that any S3 server can be held against. Start at README.md."""
