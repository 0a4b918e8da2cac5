"""The process that asks graphlay: one shape a line on standard input, its drawing a line on standard output.

    python -m runtime.graph.layout_child

It knows neither Django nor the database; whoever starts it may kill it when it takes too long.
"""

from __future__ import annotations

import json
import sys

from runtime.graph.layout import Shape, drawing_of


def main() -> None:
    """Draw until the input ends. A shape that graphlay refuses is drawn by our own means."""
    for line in sys.stdin:
        names, tools, edges = json.loads(line)
        shape = Shape(names, tools, [(source, target) for source, target in edges])
        try:
            drawing = drawing_of(shape, "graphlay")
        except ValueError:
            drawing = drawing_of(shape, "layered")
        sys.stdout.write(json.dumps(drawing, separators=(",", ":")) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
