#!/usr/bin/env python3
"""Runs a conformance suite against an S3 server; see README.md beside this file."""

import argparse
import os
import sys
from pathlib import Path

# The folder `select` beside this file must not stand for Python's own module of that name.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from conformance.harness.report import Report, known_gaps  # noqa: E402
from conformance.harness.server import Server  # noqa: E402

HERE = Path(__file__).resolve().parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint", default=os.environ.get("PUSHDOWNDB_ENDPOINT", "http://127.0.0.1:9000"))
    parser.add_argument("--access-key", default=os.environ.get("AWS_ACCESS_KEY_ID"))
    parser.add_argument("--secret-key", default=os.environ.get("AWS_SECRET_ACCESS_KEY"))
    parser.add_argument("--domain", help="the server's domain for virtual-host style")
    parser.add_argument("--limited", nargs=3, metavar=("ACCESS_KEY", "SECRET_KEY", "BUCKET"), help="a key that may only read this bucket")
    parser.add_argument("--suite", choices=["s3", "select"], required=True)
    parser.add_argument("--match", metavar="TEXT", help="only tests whose name contains this")
    parser.add_argument("--json", metavar="FILE", help="write all results there")
    parser.add_argument("--list", action="store_true", help="print the names of the tests and stop")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for every test")
    parser.add_argument("--no-gaps", action="store_true", help="ignore the list of known gaps (foreign servers)")
    args = parser.parse_args()
    if args.suite == "select":
        from conformance.select.runner import suite as tests
    else:
        from conformance.s3.runner import suite as tests
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    if args.list:
        print(*[name for name, _ in tests(None)], sep="\n")
        return 0
    if not args.access_key or not args.secret_key:
        parser.error("--access-key and --secret-key, or the AWS_* variables, are needed")
    server = Server(args.endpoint, args.access_key, args.secret_key, args.domain)
    gaps = {} if args.no_gaps else known_gaps(HERE / args.suite / "known_gaps.txt")
    report = Report(args.suite, gaps, args.verbose)
    for name, test in tests(server, args.limited):
        if not args.match or args.match in name:
            report.run(name, test)
    return 0 if report.finish(args.json, whole=not args.match) else 1


if __name__ == "__main__":
    sys.exit(main())
