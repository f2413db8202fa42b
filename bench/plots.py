"""Draws docs/benchmarks/*.svg from the recorded results. Nothing in a picture that is not in a table: they show shape, not digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from attach import SHAPES, SIZES_BYTES, STEPS, shape_name
from matplotlib import pyplot as plt
from rows import Row

STYLE = {
    "svg.hashsalt": "wcache", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
}  # fmt: skip
OURS, THEIRS = "#2166ac", "#bbbbbb"
Results = dict[str, dict[str, Any]]


def draw(results: Results, directory: Path) -> None:
    """One file a picture whose program is among the results."""
    mpl.use("svg")
    mpl.rcParams.update(STYLE)
    directory.mkdir(exist_ok=True)
    pictures = {"attach": _attach, "page_cache": _page_cache, "scale": _scale}
    for name, picture in pictures.items():
        if name in results:
            rows = {row["what"]: row for row in results[name]["rows"]}
            _save(picture(rows), directory / f"{name}.svg")
    _save(_ratios(results), directory / "ratios.svg")


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    plt.close(figure)


def _attach(rows: dict[str, Row]) -> Any:
    """The steps of an attach as one bar a shape, beside safetensors' load of the same files; each shape on a scale of its own."""
    figure, axes = plt.subplots(1, len(SHAPES), figsize=(9, 3.4), layout="constrained")
    colours = plt.get_cmap("viridis")([place / (len(STEPS) - 1) for place in range(len(STEPS))])
    for axis, (tensors, shards) in zip(axes, SHAPES, strict=True):
        shape, bottom = shape_name(tensors, shards), 0.0
        for step, colour in zip(STEPS, colours, strict=True):
            value = rows[f"{shape}: step, {step}"]["value"]
            axis.bar(0, value, bottom=bottom, color=colour, label=step, width=0.6)
            bottom += value
        axis.bar(1, rows[f"{shape}: safetensors load_file (mmap, warm page cache)"]["value"], color=THEIRS, width=0.6)
        axis.set_xticks([0, 1], ["attach", "safetensors"], fontsize=7.5)
        axis.set_title(shape.replace(" in ", "\nin "), fontsize=9)
    axes[0].set_ylabel("ms (medians)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right", frameon=False, fontsize=8)
    figure.suptitle(f"Steps of an attach, {SIZES_BYTES[0] >> 20} and {SIZES_BYTES[1] >> 20} MiB together", fontsize=10)
    return figure


def _page_cache(rows: dict[str, Row]) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(7, 2.8), layout="constrained")
    for axis, state in zip(axes, ("warm", "cold"), strict=True):
        for place, what in enumerate(("tensors ready", "every byte read")):
            for offset, loader, colour in ((-0.2, "safetensors", THEIRS), (0.2, "wcache", OURS)):
                row = rows[f"{state} page cache, {loader}: {what}"]
                spread = [[row["value"] - row["low"]], [row["high"] - row["value"]]]
                axis.bar(place + offset, row["value"], yerr=spread, color=colour, width=0.38, label=None if place else loader, capsize=2)
        axis.set_xticks([0, 1], ["tensors ready", "every byte read"])
        axis.set_title(f"{state} page cache", fontsize=9)
    axes[0].set_ylabel("ms (medians, quartiles)")
    axes[0].legend(frameon=False)
    return figure


def _scale(rows: dict[str, Row]) -> Any:
    figure, axis = plt.subplots(figsize=(6, 1.8), layout="constrained")
    shown = [row for what, row in rows.items() if what.endswith("an attach") and "low" in row and row["unit"] == "ms"]
    for place, row in enumerate(reversed(shown)):
        spread = [[row["value"] - row["low"]], [row["high"] - row["value"]]]
        axis.barh(place, row["value"], xerr=spread, color=OURS, capsize=2)
    axis.set_yticks(range(len(shown)), [row["what"].removesuffix(", an attach") for row in reversed(shown)])
    axis.set_xlabel("ms an attach (medians, quartiles)")
    return figure


def _ratios(results: Results) -> Any:
    """Every ratio of the recorded run with its lowest and highest round."""
    found = [(name, row) for name, result in sorted(results.items()) for row in result["rows"] if row["unit"] == "x" and row["value"] > 0]
    figure, axis = plt.subplots(figsize=(9, 0.24 * len(found) + 0.8), layout="constrained")
    for place, (_, row) in enumerate(reversed(found)):
        axis.plot([row.get("low", row["value"]), row.get("high", row["value"])], [place, place], color=THEIRS, linewidth=3)
        axis.plot(row["value"], place, "o", color=OURS, markersize=4)
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xticks([0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000], minor=False)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter("")
    axis.set_yticks(range(len(found)), [f"{name}: {row['what']}" for name, row in reversed(found)], fontsize=7)
    axis.set_xlabel("ratio within one run: median, lowest and highest round")
    return figure
