"""Orthogonal edges between the layers of a drawing, bundled into shared trunks.

Coordinates here are *flow* (the direction edges run in) and *cross* (at right angles to it). Between two layers lies a
channel. Edges that leave one node together, or enter one together, share a trunk there, so that a fan of four hundred
edges needs one track and not four hundred.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

# Trunks on one track keep this distance; closer ones would read as one line.
CLEAR = 10.0


@dataclass(slots=True)
class Hop:
    """One edge's way through one channel: from ``start`` (cross) of item ``tail`` to ``end`` of item ``head``."""

    tail: int
    head: int
    start: float
    end: float
    track: int = -1

    @property
    def straight(self) -> bool:
        return abs(self.start - self.end) < 0.5


@dataclass(slots=True)
class _Net:
    hops: list[Hop] = field(default_factory=list)
    low: float = float("inf")
    high: float = float("-inf")
    track: int = -1
    after: set[int] = field(default_factory=set)

    def add(self, hop: Hop) -> None:
        self.hops.append(hop)
        self.low = min(self.low, hop.start, hop.end)
        self.high = max(self.high, hop.start, hop.end)


def assign_tracks(hops: Sequence[Hop]) -> int:
    """Set ``track`` of every hop that bends; return how many tracks the channel needs."""
    bent = [hop for hop in hops if not hop.straight]
    leaving: dict[int, int] = defaultdict(int)
    entering: dict[int, int] = defaultdict(int)
    for hop in hops:
        leaving[hop.tail] += 1
        entering[hop.head] += 1
    nets: dict[tuple[str, int], _Net] = defaultdict(_Net)
    for hop in bent:
        forks = leaving[hop.tail] >= entering[hop.head]
        nets["s" if forks else "t", hop.tail if forks else hop.head].add(hop)
    ordered = list(nets.values())
    _constrain(ordered)
    tracks: list[list[tuple[float, float]]] = []
    for net in _in_order(ordered):
        lowest = 1 + max((ordered[i].track for i in net.after), default=-1)
        net.track = _free_track(tracks, lowest, net.low, net.high)
        for hop in net.hops:
            hop.track = net.track
    return len(tracks)


def _constrain(nets: list[_Net]) -> None:
    """Where one net comes down to its trunk at the place at which another goes on from its own, it must come first."""
    above: dict[int, set[int]] = defaultdict(set)
    below: dict[int, set[int]] = defaultdict(set)
    for index, net in enumerate(nets):
        for hop in net.hops:
            above[round(hop.start)].add(index)
            below[round(hop.end)].add(index)
    for place, comers in above.items():
        for index in below.get(place, ()):
            nets[index].after |= comers - {index}


def _in_order(nets: list[_Net]) -> list[_Net]:
    """Return the nets so that constraints hold where they can; a circle of them is cut at its leftmost net."""
    left = [len(net.after) for net in nets]
    follows: dict[int, list[int]] = defaultdict(list)
    for index, net in enumerate(nets):
        for other in net.after:
            follows[other].append(index)
    open_ = sorted(range(len(nets)), key=lambda i: nets[i].low)
    done: list[_Net] = []
    seen: set[int] = set()
    while open_:
        ready = [i for i in open_ if left[i] <= 0] or [min(open_, key=lambda i: left[i])]
        for index in ready:
            seen.add(index)
            done.append(nets[index])
            nets[index].after &= seen
            for other in follows[index]:
                left[other] -= 1
        open_ = [i for i in open_ if i not in seen]
    return done


def _free_track(tracks: list[list[tuple[float, float]]], lowest: int, low: float, high: float) -> int:
    for index in range(lowest, len(tracks)):
        if all(high + CLEAR <= a or b + CLEAR <= low for a, b in tracks[index]):
            tracks[index].append((low, high))
            return index
    while len(tracks) <= lowest:
        tracks.append([])
    if not tracks[-1]:
        tracks[-1].append((low, high))
        return len(tracks) - 1
    tracks.append([(low, high)])
    return len(tracks) - 1


def simplified(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return an orthogonal line without the points it only passes through."""
    kept: list[tuple[float, float]] = []
    for point in points:
        if kept and abs(kept[-1][0] - point[0]) < 0.25 and abs(kept[-1][1] - point[1]) < 0.25:
            continue
        if len(kept) > 1 and _aligned(kept[-2], kept[-1], point):
            kept[-1] = point
        else:
            kept.append(point)
    return kept


def _aligned(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (abs(a[0] - b[0]) < 0.25 and abs(b[0] - c[0]) < 0.25) or (
        abs(a[1] - b[1]) < 0.25 and abs(b[1] - c[1]) < 0.25
    )


def flat(points: Sequence[tuple[float, float]]) -> list[Any]:
    """Return points as one list x, y, x, y, … in whole pixels where they are whole."""
    return [int(v) if v == int(v) else v for point in points for v in (round(point[0], 1), round(point[1], 1))]
