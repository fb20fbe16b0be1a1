#!/usr/bin/env python3
"""Measures all strategies of all operators through a slow link for docs/operators.md.

    scripts/strategies.py --mb 40 --scale 1 --binary target/release/pushdowndb [--operator join] [--runs 3]

Each operator's queries run with each of its strategies, in turns; level none is the baseline. Rows
are compared with the baseline's. Prints a Markdown table: median seconds, speed-up over the
baseline, bytes over the network, requests, and dollars under the price books paper and
paper-egress. Needs root, Linux and iproute2.
"""

import argparse
import statistics
import sys

from link import ROOT, Link, common_arguments, settings_of, shape

BASELINE = "level=none"
# What each operator is measured with: its queries, and the settings that choose its strategies.
OPERATORS = {
    "filter": (["op_filter_1em4"], [
        "level=select,filter=storage", "level=select,filter=index", "level=fragment,filter=storage", "level=fragment,filter=index"]),
    "join": (["op_join_c950", "op_join_c450"], [
        "level=select,join=filtered", "level=select,join=bloom", "level=fragment,join=filtered", "level=fragment,join=bloom"]),
    "group-by": (["op_group_2", "op_group_32"], [
        "level=select,group_by=filtered", "level=select,group_by=storage", "level=select,group_by=hybrid",
        "level=fragment,group_by=filtered", "level=fragment,group_by=storage", "level=fragment,group_by=hybrid"]),
    "top-k": (["op_topk_100"], ["level=select,top_k=sampling", "level=fragment,top_k=sampling", "level=fragment,top_k=storage"]),
}
# Made before the link is shaped, used by `filter=index` alone.
INDEXES = ["CREATE INDEX IF NOT EXISTS by_price ON lineitem (l_extendedprice)"]


def bytes_of(count):
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common_arguments(parser)
    parser.add_argument("--operator", help="only this one: " + ", ".join(OPERATORS))
    args = parser.parse_args()
    with Link(args.binary, 0, args.scale, "csv", args.store) as link:
        if args.operator in (None, "filter"):
            for statement in INDEXES:
                link.statement(statement)
        shape(args.mb)
        print("| query | settings | seconds | faster | network | requests | $ paper | $ paper-egress |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for operator, (queries, strategies) in OPERATORS.items():
            if args.operator not in (None, operator):
                continue
            for query in queries:
                measure(link, query, [BASELINE, *strategies], args.runs)


def measure(link, query, variants, runs):
    sql = ROOT / "sql" / "tpch" / f"{query}.sql"
    results = {variant: [] for variant in variants}
    dollars, expected = {}, None
    for turn in range(runs + 1):
        for variant in variants:
            # The first turn warms the page cache and asks for the other bill.
            usage = link.query(sql, settings_of(variant), "paper" if turn else "paper-egress")
            expected = expected or link.rows()
            if link.rows() != expected:
                sys.exit(f"{query} with {variant}: other rows than with {BASELINE}")
            if turn:
                results[variant].append(usage)
            else:
                dollars[variant] = usage["cost_usd"]["total"]
    first = statistics.median(u["wall"] for u in results[BASELINE])
    for variant in variants:
        seconds, last = statistics.median(u["wall"] for u in results[variant]), results[variant][-1]
        print(f"| `{query}` | {variant.replace(',', ', ')} | {seconds:.2f} | {first / seconds:.1f} × | {bytes_of(last['bytes_network'])} "
              f"| {sum(last['requests'].values())} | {last['cost_usd']['total']:.3g} | {dollars[variant]:.3g} |", flush=True)


if __name__ == "__main__":
    main()
