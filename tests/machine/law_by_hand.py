"""The law of states written out by hand from the design, not from the code: what the tests expect."""

from __future__ import annotations

STATUSES = "waiting queued running hold succeeded failed killed skipped mark_successed unknown".split()

# The 10 × 10 step moves. Lower case names who moves; a dot is refused. "rerun" makes a new row: in place it is refused.
#   e engine · o operator · a admin · w owner (worker) · c cancel · r reconciliation
STEP_MATRIX = """
                 waiting  queued  running  hold  succeeded  failed  killed  skipped  mark_successed  unknown
waiting          .        e       .        eo    .          .       .       oec      a               .
queued           .        .       e        .     .          .       oce     oce      a               .
running          we       .       .        .     w          w       wocae   .        .               we
hold             eo       .       .        .     .          .       .       oec      a               .
succeeded        .        rerun   .        .     .          .       .       .        .               .
failed           .        rerun   .        .     .          .       .       .        a               .
killed           .        rerun   .        .     .          .       .       .        a               .
skipped          oe       .       .        .     .          .       .       .        a               .
mark_successed   .        .       .        .     .          .       .       .        .               .
unknown          re       .       .        .     r          r       co      .        a               .
"""
ROLES = {"e": "engine", "o": "operator", "a": "admin", "w": "owner", "c": "cancel", "r": "reconciler"}

RUN_STATUSES = (
    "accepted queued running waiting_tool waiting_approval waiting_external paused cancelling compensating"
    " needs_attention completed partially_completed failed cancelled"
).split()
RUN_MOVES = {
    "accepted": "queued cancelling failed",
    "queued": "running paused cancelling failed",
    "running": (
        "waiting_tool waiting_approval waiting_external paused cancelling compensating needs_attention completed"
        " partially_completed failed"
    ),
    "waiting_tool": "running cancelling needs_attention failed",
    "waiting_approval": "running cancelling needs_attention failed",
    "waiting_external": "running cancelling needs_attention failed",
    "paused": "running cancelling needs_attention failed",
    "cancelling": "cancelled compensating needs_attention",
    "compensating": "cancelled partially_completed failed needs_attention",
    "needs_attention": "running compensating completed partially_completed failed cancelled",
    "completed": "",
    "partially_completed": "",
    "failed": "",
    "cancelled": "",
}

OPERATION_STATUSES = (
    "intended sent succeeded refused absent partially_applied unknown void needs_human compensating compensated"
    " compensation_failed written_off"
).split()
OPERATION_MOVES = {
    "intended": "sent void unknown",
    "sent": "succeeded refused absent partially_applied unknown",
    "unknown": "succeeded absent partially_applied needs_human",
    "absent": "sent",
    "succeeded": "compensating",
    "partially_applied": "compensating succeeded needs_human",
    "compensating": "compensated compensation_failed",
    "needs_human": "succeeded absent compensating written_off",
    "compensation_failed": "succeeded absent compensating written_off",
    "refused": "",
    "void": "",
    "compensated": "",
    "written_off": "",
}


def step_moves() -> dict[tuple[str, str], frozenset[str]]:
    """Return every one of the 100 pairs with the roles that may cause it; empty: refused; "rerun": by a new row."""
    lines = STEP_MATRIX.strip().splitlines()
    targets = lines[0].split()
    found = {}
    for line in lines[1:]:
        source, *cells = line.split()
        for target, cell in zip(targets, cells, strict=True):
            roles = {"rerun"} if cell == "rerun" else {ROLES[letter] for letter in cell if letter != "."}
            found[source, target] = frozenset(roles)
    return found


def pairs(statuses: list[str], moves: dict[str, str]) -> dict[tuple[str, str], bool]:
    """Return every pair of statuses with whether it is a move."""
    return {(a, b): b in moves[a].split() for a in statuses for b in statuses}
