"""Add the curves of an audit to a job summary, as a chart that GitHub draws itself: it shows no pictures from files or data URIs.

    python draw_curves.py audit.json SUMMARY.md

Prints ``verdict=...`` for $GITHUB_OUTPUT.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

COLOURS = {"blue": "#0072B2", "orange": "#D55E00", "green": "#009E73", "purple": "#8E44AD", "grey": "#666666", "gold": "#B8860B"}
POINTS = 25


def draw(subject: dict[str, Any], outcome: str) -> str:
    """A Mermaid chart of the expected outcome by score, where every drawn group has people."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in (subject.get("curves") or {}).get("rows", ()):
        if row["estimate"] is not None:
            curves.setdefault(label(row["group"]), []).append((row["score"], row["estimate"]))
    shown = dict(list(curves.items())[: len(COLOURS)])
    low = max((points[0][0] for points in shown.values()), default=math.nan)
    high = min((points[-1][0] for points in shown.values()), default=math.nan)
    if not low < high:
        return ""
    grid = [low + (high - low) * i / (POINTS - 1) for i in range(POINTS)]
    lines = {name: [interpolate(points, score) for score in grid] for name, points in shown.items()}
    heights = [height for line in lines.values() for height in line]
    palette = ", ".join(list(COLOURS.values())[: len(lines)])
    legend = ", ".join(f"{colour}: {plain(name)}" for colour, name in zip(COLOURS, lines))
    more = f" ({len(curves) - len(shown)} more groups in the report)" if len(curves) > len(shown) else ""
    return "\n".join(
        [
            "",
            "```mermaid",
            f'%%{{init: {{"themeVariables": {{"xyChart": {{"plotColorPalette": "{palette}"}}}}}}}}%%',
            "xychart-beta",
            f'    x-axis "{quoted(str(subject["score"]))}" {low:.4g} --> {high:.4g}',
            f'    y-axis "expected {quoted(outcome)}" {min(heights):.4g} --> {max(heights):.4g}',
            *(f"    line [{', '.join(f'{height:.4g}' for height in line)}]" for line in lines.values()),
            "```",
            "",
            f"{legend}{more}. Limits are in the report.",
            "",
        ]
    )


def interpolate(points: list[tuple[float, float]], score: float) -> float:
    """On the straight line between the two nearest points."""
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if x0 <= score <= x1:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (score - x0) / (x1 - x0)
    return points[-1][1] if score > points[-1][0] else points[0][1]


def label(group: Any) -> str:
    return " x ".join(map(str, group)) if isinstance(group, list) else str(group)


def quoted(text: str) -> str:
    """Inside a Mermaid string: no quotes, no line ends."""
    return "".join(char if char.isalnum() or char in " _-.:,()%/" else " " for char in text)


def plain(text: str) -> str:
    """As Markdown that means itself."""
    return "".join(char if char.isalnum() or char in " -." else f"&#{ord(char)};" for char in text)


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    audit = json.loads(source.read_text(encoding="utf-8"))
    outcome = str(audit["provenance"]["configuration"].get("outcome") or "outcome")  # a tally may not know its name
    with target.open("a", encoding="utf-8") as summary:
        for subject in audit["subjects"][:3]:
            summary.write(draw(subject, outcome))
    print(f"verdict={audit['verdict']}")


if __name__ == "__main__":
    main()
