"""The examples of docs/s3-select.md."""

from conformance.select.docs import cases

CASES = cases()
