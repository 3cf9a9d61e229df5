"""Two plots as SVG, drawn with nothing else: bars of several series on a logarithmic scale, and lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["bars", "lines"]

COLOURS = ("#1f6f8b", "#7fb7be", "#d1a21f", "#c0504d", "#8c6bb1")
WIDTH = 900
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 60, 50


def bars(title: str, unit: str, names: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> str:
    """One group of bars for each name, one bar for each series; a value that is None has none. The scale is
    logarithmic, as it must be where values differ by powers of ten."""
    height = 380
    values = [value for row in series.values() for value in row if value]
    scale = _Scale(values, TOP, height - BOTTOM)
    group = (WIDTH - LEFT - RIGHT) / len(names)
    thick = group * 0.8 / len(series)
    drawn = _axis(scale, unit)
    for i, row in enumerate(series.values()):
        for j, value in enumerate(row):
            if value:
                x, y = LEFT + group * (j + 0.1) + thick * i, scale.place(value)
                drawn.append(_shape("rect", x=x, y=y, width=thick, height=scale.bottom - y, fill=COLOURS[i]))
    drawn += [_text(LEFT + group * (j + 0.5), height - BOTTOM + 18, name, "middle") for j, name in enumerate(names)]
    return _picture(title, height, drawn, list(series))


def lines(title: str, unit: str, along: str, series: Mapping[str, Mapping[float, float]]) -> str:
    """One line for each series, from places on the horizontal scale (`along` is its name) to values; both scales are
    logarithmic."""
    height = 380
    scale = _Scale([value for row in series.values() for value in row.values()], TOP, height - BOTTOM)
    places = sorted({place for row in series.values() for place in row})
    across = _Scale(places, WIDTH - RIGHT - 30, LEFT + 30, whole_decades=False)
    drawn = _axis(scale, unit)
    for i, row in enumerate(series.values()):
        points = [(across.place(place), scale.place(value)) for place, value in sorted(row.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[i]}" stroke-width="2.5"/>')
        drawn += [_shape("circle", cx=x, cy=y, r=4, fill=COLOURS[i]) for x, y in points]
    drawn += [_text(across.place(place), height - BOTTOM + 18, f"{place:,.0f}", "middle") for place in places]
    drawn.append(_text((WIDTH + LEFT) / 2, height - 12, along, "middle"))
    return _picture(title, height, drawn, list(series))


class _Scale:
    """From values above zero to places between `top` (the greatest) and `bottom` (the least)."""

    def __init__(self, values: Sequence[float], top: float, bottom: float, whole_decades: bool = True) -> None:
        low, high = math.log10(min(values)), math.log10(max(values))
        if whole_decades:
            low, high = math.floor(low), math.ceil(high)
        self.low, self.high = low, high if high > low else low + 1
        self.top, self.bottom = top, bottom

    def place(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.bottom - share * (self.bottom - self.top)


def _axis(scale: _Scale, unit: str) -> list[str]:
    drawn = [_text(LEFT - 8, scale.top - 12, unit, "end")]
    for power in range(int(scale.low), int(scale.high) + 1):
        y = scale.place(10.0**power)
        drawn.append(_shape("line", x1=LEFT, y1=y, x2=WIDTH - RIGHT, y2=y, stroke="#cccccc"))
        drawn.append(_text(LEFT - 8, y + 4, f"{10.0**power:,g}" if power < 0 else f"{10**power:,}", "end"))
    return drawn


def _picture(title: str, height: int, drawn: Sequence[str], series: Sequence[str]) -> str:
    legend: list[str] = []
    for i, name in enumerate(series):
        x = LEFT + 150 * i
        legend += [_shape("rect", x=x, y=32, width=12, height=12, fill=COLOURS[i]), _text(x + 17, 42, name, "start")]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">'
    ground = _shape("rect", x=0, y=0, width=WIDTH, height=height, fill="white")
    named = f'<text x="{LEFT}" y="20" font-size="15">{escape(title)}</text>'
    return "\n".join([head, ground, named, *legend, *drawn, "</svg>"]) + "\n"


def _shape(kind: str, **attributes: float | str) -> str:
    written = (
        f'{name}="{value}"' if isinstance(value, str) else f'{name}="{value:.1f}"' for name, value in attributes.items()
    )
    return f"<{kind} {' '.join(written)}/>"


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
