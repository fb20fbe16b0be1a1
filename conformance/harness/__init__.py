"""What both suites share: clients for the server under test, and the report."""
