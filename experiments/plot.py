#!/usr/bin/env python3
"""Draws the figures of a record of `pushdowndb experiment` as SVG: needs matplotlib. The experiment runs it if it can.

    plot.py RECORD.csv RECORD.svg
"""

import csv
import sys

import matplotlib

matplotlib.use("svg")
# The same figures give the same file.
matplotlib.rcParams["svg.hashsalt"] = "pushdowndb"
import matplotlib.pyplot as plt  # noqa: E402

OURS = ["#08519c", "#3182bd", "#6baed6", "#9ecae1", "#c6dbef"]
THEIRS = ["#a63603", "#e6550d", "#fd8d3c", "#fdae6b", "#756bb1", "#9e9ac8", "#636363", "#969696", "#bdbdbd"]
OUR_NAMES = ("node", "library", "engine", "inflate")


def colours(contestants):
    """Ours are blue, others are not."""
    ours, theirs = iter(OURS), iter(THEIRS)
    return {name: next(ours if name.startswith(OUR_NAMES) else theirs, "#d9d9d9") for name in contestants}


def main():
    source, target = sys.argv[1:]
    with open(source, newline="") as file:
        rows = list(csv.DictReader(file))
    formats = list(dict.fromkeys(row["format"] for row in rows))
    contestants = list(dict.fromkeys(row["contestant"] for row in rows))
    colour = colours(contestants)
    figure, axes = plt.subplots(len(formats), 1, figsize=(12, 3.6 * len(formats)), squeeze=False)
    for axis, format in zip(axes[:, 0], formats):
        here = [row for row in rows if row["format"] == format]
        queries = list(dict.fromkeys(row["query"] for row in here))
        names = [name for name in contestants if any(row["contestant"] == name for row in here)]
        width = 0.85 / len(names)
        for place, name in enumerate(names):
            mine = {row["query"]: row for row in here if row["contestant"] == name}
            # CPU seconds a GB as GB a CPU second: longer is better.
            speed = lambda row, field: float(row["bytes"]) / 1e9 / max(float(row[field]), 1e-9)
            x = [at + (place - (len(names) - 1) / 2) * width for at, query in enumerate(queries) if query in mine]
            found = [mine[query] for query in queries if query in mine]
            y = [speed(row, "cpu_s") for row in found]
            low = [value - speed(row, "cpu_s_max") for value, row in zip(y, found)]
            high = [speed(row, "cpu_s_min") - value for value, row in zip(y, found)]
            axis.bar(x, y, width, color=colour[name], label=name, yerr=(low, high), error_kw={"lw": 0.6, "ecolor": "#333333"})
        axis.set_yscale("log")
        axis.set_xticks(range(len(queries)), queries)
        axis.set_ylabel("GB per CPU second")
        axis.set_title(format, loc="left", fontweight="bold")
        axis.legend(fontsize=7, ncol=2, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main()
