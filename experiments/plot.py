#!/usr/bin/env python3
"""Draws the figures of a record of `pushdowndb-bench` as SVG: needs matplotlib. `pushdowndb-bench plot` runs it.

    plot.py RECORD.csv RECORD.svg

A record of scans becomes bars of speed. A record of a grid becomes a row of panels for each condition: seconds and
dollars, by format, with what the paper's text says as hollow marks.
"""

import csv
import sys

import matplotlib

matplotlib.use("svg")
# The same figures give the same file.
matplotlib.rcParams["svg.hashsalt"] = "pushdowndb"
# Text as text: a tenth of the bytes of its outlines.
matplotlib.rcParams["svg.fonttype"] = "none"
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator  # noqa: E402

OURS = ["#08519c", "#3182bd", "#6baed6", "#9ecae1", "#c6dbef"]
THEIRS = ["#a63603", "#e6550d", "#fd8d3c", "#fdae6b", "#756bb1", "#9e9ac8", "#636363", "#969696", "#bdbdbd"]
OUR_NAMES = ("node", "library", "engine", "inflate")


def colours(contestants):
    """Ours are blue, others are not."""
    ours, theirs = iter(OURS), iter(THEIRS)
    return {name: next(ours if name.startswith(OUR_NAMES) else theirs, "#d9d9d9") for name in contestants}


# What every figure has looks the same in all of them; the other series take turns.
LOOKS = {
    "none": ("#636363", "o"),
    "server side": ("#636363", "o"),
    "datafusion": ("#8c510a", "s"),
    "duckdb": ("#e6ab02", "D"),
    "polars": ("#c51b7d", "X"),
    "select": ("#fd8d3c", "D"),
    "fragment": ("#6baed6", "^"),
    "auto": ("#08519c", "v"),
    "auto for cost": ("#31a354", "P"),
    "auto for cost outside": ("#756bb1", "*"),
}
OTHERS = [("#e6550d", "s"), ("#fdae6b", "D"), ("#a63603", "X"), ("#d6604d", "<"), ("#b35806", ">"), ("#f4a582", "h")]


def grid(about, rows, target):
    """A row of panels for each condition."""
    title = next((text for name, text in about if name == "title"), "")
    axis_name = next((text for name, text in about if name == "axis"), "")
    papers = [text.split("|", 4) for name, text in about if name == "paper"]
    formats, conditions, series, points = (
        list(dict.fromkeys(row[key] for row in rows)) for key in ("format", "condition", "series", "point")
    )
    panels = [(format, metric) for format in formats for metric in ("seconds", "paper")]
    size = (5.2 * len(panels), 3.4 * len(conditions) + 0.8)
    figure, axes = plt.subplots(len(conditions), len(panels), figsize=size, squeeze=False, layout="constrained")
    others = iter(OTHERS * len(series))
    looks = {name: LOOKS.get(name) or next(others) for name in series}
    for condition, line in zip(conditions, axes):
        for (format, metric), axis in zip(panels, line):
            here = [row for row in rows if (row["condition"], row["format"]) == (condition, format) and row[metric]]
            axis.set_title(f"{format}, {condition}", loc="left", fontsize=9)
            axis.set_ylabel("seconds" if metric == "seconds" else "dollars (paper)")
            axis.spines[["top", "right"]].set_visible(False)
            if not here:
                axis.set_axis_off()
                axis.set_title(f"{format}, {condition}: not measured", loc="left", fontsize=9)
                continue
            place, is_line = places(axis, here, points, axis_name)
            axis.set_yscale("log")
            plain_labels(axis.yaxis, [float(row[metric]) for row in here])
            for name in series:
                mine = sorted((row for row in here if row["series"] == name), key=lambda row: place(row["point"]))
                x, y = [place(row["point"]) for row in mine], [float(row[metric]) for row in mine]
                below = [value - float(row[f"{metric} min"]) for value, row in zip(y, mine)]
                above = [float(row[f"{metric} max"]) - value for value, row in zip(y, mine)]
                color, marker = looks[name]
                style = {"color": color, "marker": marker, "ms": 4, "lw": 1.2, "ls": "-" if is_line else "", "elinewidth": 0.6}
                axis.errorbar(x, y, yerr=(below, above), label=name, **style)
            for of_metric, over, of, ratio, where in papers:
                wanted = [row for row in here if row["series"] == over and of_metric == metric]
                wanted = [row for row in wanted if not where or row["point"] in where.split("|")]
                if wanted and of in series:
                    x = [place(row["point"]) for row in wanted]
                    y = [float(row[metric]) / float(ratio) for row in wanted]
                    color, marker = looks[of]
                    label = f"{of}, the paper's ratio to {over}"
                    axis.plot(x, y, ls="", ms=8, mfc="none", color=color, marker=marker, label=label)
    all_labels = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            all_labels.setdefault(label, handle)
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    columns = 3 if len(panels) < 3 else 5
    figure.legend(all_labels.values(), all_labels.keys(), fontsize=8, ncol=columns, loc="outside lower left", frameon=False)
    figure.savefig(target, metadata={"Date": None})


def plain_labels(axis, values):
    """Labels of a logarithmic axis as people write numbers; between powers of ten where there are few of these."""
    few = max(values) / min(values) < 30
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(LogLocator(subs=(2, 5) if few else "auto"))
    axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}") if few else NullFormatter())
    axis.set_tick_params(which="minor", labelsize=7)


def places(axis, rows, points, name):
    """Where a point stands on the axis, at its x or in the order of the definition, and whether lines mean something."""
    values = {row["point"]: float(row["x"]) for row in rows if row["x"]}
    if len(values) < len({row["point"] for row in rows}) or len(set(values.values())) < len(values):
        axis.set_xticks(range(len(points)), points, rotation=60, ha="right", rotation_mode="anchor", fontsize=7)
        return points.index, False
    least, most = min(values.values()), max(values.values())
    if least > 0 and most / least > 10:
        axis.set_xscale("log")
        # Where something was measured; of many places some.
        ticks = sorted(values.values())
        ticks = ticks[:: 1 + len(ticks) // 10]
        axis.set_xticks(ticks, [f"{value:g}" for value in ticks])
        axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel(name)
    return values.__getitem__, True


def main():
    source, target = sys.argv[1:]
    with open(source, newline="") as file:
        lines = file.readlines()
    about = [tuple(line[2:].rstrip("\n").split(": ", 1)) for line in lines if line.startswith("# ") and ": " in line]
    rows = list(csv.DictReader(line for line in lines if not line.startswith("# ")))
    if rows and "series" in rows[0]:
        grid(about, rows, target)
    else:
        scans(rows, target)


def scans(rows, target):
    """Bars of GB a CPU second."""
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
