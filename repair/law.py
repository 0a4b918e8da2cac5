"""The law of repair cases as data (design: state-machine.md): moves, answers from outside, what each answer permits.

The database guard is made from :data:`MOVES`; pages, actions and tests read the same tables.
"""

from __future__ import annotations

from typing import Final

OPEN, CLAIMED, INVESTIGATING = "open", "claimed", "investigating"
PROPOSED, REVIEWING, RESOLVED = "proposed", "reviewing", "resolved"
STATES = (OPEN, CLAIMED, INVESTIGATING, PROPOSED, REVIEWING, RESOLVED)
HELD = (CLAIMED, INVESTIGATING, PROPOSED, REVIEWING)

MOVES: dict[tuple[str, str], str] = {
    ("open", "claimed"): "an authorised person takes it, with a new owner_epoch on its step",
    ("open", "resolved"): "settled by itself: the fact arrived before anybody took it",
    ("claimed", "open"): "released",
    ("claimed", "investigating"): "the outside is asked",
    ("claimed", "proposed"): "a resolution is proposed",
    ("investigating", "claimed"): "handed over, or kept pending",
    ("investigating", "open"): "released",
    ("investigating", "proposed"): "a resolution is proposed",
    ("proposed", "claimed"): "handed over, kept pending, or withdrawn",
    ("proposed", "open"): "released",
    ("proposed", "reviewing"): "a second person is asked",
    ("proposed", "resolved"): "carried out; no second person was needed",
    ("reviewing", "proposed"): "sent back",
    ("reviewing", "claimed"): "handed over",
    ("reviewing", "open"): "released",
    ("reviewing", "resolved"): "carried out after another person's review",
}

RECORD_SUCCESS, RESUME_STEP, COMPENSATE = "record_success", "resume_step", "compensate"
CONFIRM_ABSENT, WRITE_OFF, KEEP_PENDING = "confirm_absent", "write_off", "keep_pending"
SETTLED = "settled"
RESOLUTIONS = (RECORD_SUCCESS, RESUME_STEP, COMPENSATE, CONFIRM_ABSENT, WRITE_OFF)

# What the outside says of an effect. ``unknown``: it cannot tell, or nobody has asked.
DONE, ABSENT, UNKNOWN, UNREACHABLE, CONTRADICTS = "done", "absent", "unknown", "unreachable", "contradicts"
ANSWERS: dict[str, str] = {
    DONE: "The effect is there, as it was intended.",
    ABSENT: "The effect is not there, and the tool's consistency lets that count.",
    UNKNOWN: "The outside cannot tell, or has not been asked.",
    UNREACHABLE: "The outside could not be asked.",
    CONTRADICTS: "There is another effect than the one that was intended.",
}
RECOVERY_CLASSES = ("replayable", "idempotent", "query", "compensable", "human")

_WAIT = frozenset({KEEP_PENDING, WRITE_OFF})
_NOTHING_SENT_AGAIN: Final = "Sent again only once the outside has said that it is absent."

# Recovery class → answer → the only resolutions there are. Keeping it pending never changes a fact.
PERMITTED: dict[str, dict[str, frozenset[str]]] = {
    # A read has no effect: it may be made again whatever is known of it.
    "replayable": {
        DONE: frozenset({RECORD_SUCCESS, RESUME_STEP, KEEP_PENDING}),
        ABSENT: frozenset({CONFIRM_ABSENT, RESUME_STEP, KEEP_PENDING}),
        UNKNOWN: frozenset({RESUME_STEP, KEEP_PENDING}),
        UNREACHABLE: frozenset({RESUME_STEP, KEEP_PENDING}),
        CONTRADICTS: frozenset({RESUME_STEP, KEEP_PENDING}),
    },
    "idempotent": {
        DONE: frozenset({RECORD_SUCCESS, KEEP_PENDING}),
        ABSENT: frozenset({CONFIRM_ABSENT, RESUME_STEP, KEEP_PENDING}),
        UNKNOWN: _WAIT,
        UNREACHABLE: _WAIT,
        CONTRADICTS: _WAIT,
    },
    "query": {
        DONE: frozenset({RECORD_SUCCESS, KEEP_PENDING}),
        ABSENT: frozenset({CONFIRM_ABSENT, RESUME_STEP, KEEP_PENDING}),
        UNKNOWN: _WAIT,
        UNREACHABLE: _WAIT,
        CONTRADICTS: _WAIT,
    },
    "compensable": {
        DONE: frozenset({RECORD_SUCCESS, COMPENSATE, KEEP_PENDING}),
        ABSENT: frozenset({CONFIRM_ABSENT, RESUME_STEP, KEEP_PENDING}),
        UNKNOWN: _WAIT,
        UNREACHABLE: _WAIT,
        CONTRADICTS: frozenset({COMPENSATE, WRITE_OFF, KEEP_PENDING}),
    },
    # Only a person repeats it: the same act as above, but always before a second pair of eyes.
    "human": {
        DONE: frozenset({RECORD_SUCCESS, KEEP_PENDING}),
        ABSENT: frozenset({CONFIRM_ABSENT, RESUME_STEP, KEEP_PENDING}),
        UNKNOWN: _WAIT,
        UNREACHABLE: _WAIT,
        CONTRADICTS: _WAIT,
    },
}
# A case about no effect: kind → the only resolutions there are → what each does, what has to be so before it closes.
# What is read of the rows now narrows it down once more (:mod:`repair.standing`).
_GIVEN_UP: Final = "Gives the step up: it fails or is skipped as rejected, and what follows takes its failure policy."
_GOES_ON: Final = "The step goes on, or is run again; what has ended starts a new run of the task."
_ON_A_WORD: Final = "The step succeeds with the reference and the output that two people stand for."
WITHOUT_EFFECT: dict[str, dict[str, str]] = {
    "poison_message": {
        RESUME_STEP: "The topic's messages are sent again, each under its own event_id; that they went is read after.",
        CONFIRM_ABSENT: "Closes only when no message of the topic is left in quarantine.",
        WRITE_OFF: "Discards the topic's messages in quarantine; they are never sent.",
    },
    "invariant_breach": {
        CONFIRM_ABSENT: "The invariant is checked again; the case closes only when it holds.",
        WRITE_OFF: "Closes the case though the breach stays in the rows.",
    },
    "version_mismatch": {
        RESUME_STEP: "Releases the held step: it goes on under the versions that are there now.",
        CONFIRM_ABSENT: "Closes only when the step holds no more.",
        WRITE_OFF: _GIVEN_UP,
    },
    "failed_with_effects": {
        COMPENSATE: "Each effect whose contract names what undoes it is undone by a new action of the run.",
        CONFIRM_ABSENT: "Closes only when no effect of the run is left applied.",
        WRITE_OFF: "The effects stay as they are; nobody looks after them any more.",
    },
    "run_attention": {CONFIRM_ABSENT: "The run goes on; only when nothing of it is unknown, open or held."},
    "stuck": {
        RECORD_SUCCESS: _ON_A_WORD,
        RESUME_STEP: _GOES_ON,
        CONFIRM_ABSENT: "Closes only when the step ended by other means.",
        WRITE_OFF: _GIVEN_UP,
    },
    "by_hand": {
        RECORD_SUCCESS: _ON_A_WORD,
        RESUME_STEP: _GOES_ON,
        CONFIRM_ABSENT: "What it was opened for is not there, on your word; an unknown step fails.",
        WRITE_OFF: _GIVEN_UP,
    },
}

_WHY_NOT: dict[str, dict[str, str]] = {
    RECORD_SUCCESS: {
        ABSENT: "The outside says that the effect is absent.",
        UNKNOWN: "Nothing outside has confirmed the effect: ask the tool, or say what you saw and where.",
        UNREACHABLE: "The outside could not be asked, so nothing confirms the effect.",
        CONTRADICTS: "The outside tells of another effect than the one that was intended.",
    },
    CONFIRM_ABSENT: {
        DONE: "The outside says that the effect is there.",
        UNKNOWN: "No answer is no proof of absence.",
        UNREACHABLE: "The outside could not be asked; that proves no absence.",
        CONTRADICTS: "Something was applied: it is not absent.",
    },
    RESUME_STEP: {
        DONE: "The effect is there; sending again would make a second one.",
        UNKNOWN: _NOTHING_SENT_AGAIN,
        UNREACHABLE: _NOTHING_SENT_AGAIN,
        CONTRADICTS: "Another effect is there under this key; the same key is never sent over it.",
    },
    COMPENSATE: {
        DONE: "The tool's contract names nothing that undoes it.",
        ABSENT: "There is no effect to undo.",
        UNKNOWN: "Nothing to undo until an effect is confirmed.",
        UNREACHABLE: "Nothing to undo until an effect is confirmed.",
        CONTRADICTS: "The tool's contract names nothing that undoes it.",
    },
    WRITE_OFF: {
        DONE: "The effect is known; there is nothing to give up.",
        ABSENT: "The absence is known; there is nothing to give up.",
    },
}


_NO_EFFECT: dict[str, str] = {
    RECORD_SUCCESS: "There is no effect outside that this could be about.",
    COMPENSATE: "There is no effect outside that this could be about.",
    RESUME_STEP: "The case names no step to resume.",
    WRITE_OFF: "Nothing of it can be given up; it is looked after until it is settled.",
}


def permitted(recovery: str | None, answer: str, kind: str = "by_hand") -> frozenset[str]:
    """Return the resolutions of a case whose tool has this recovery class under this answer.

    None is the class of a case about no effect: there the kind of the case decides.
    """
    if recovery is not None:
        return PERMITTED[recovery][answer]
    return frozenset({*WITHOUT_EFFECT.get(kind, WITHOUT_EFFECT["by_hand"]), KEEP_PENDING})


def why_not(resolution: str, recovery: str | None, answer: str, kind: str = "by_hand") -> str | None:
    """Return why a resolution is refused under this answer, one sentence; None when it is permitted."""
    if resolution in permitted(recovery, answer, kind):
        return None
    if recovery is None:
        return _NO_EFFECT.get(resolution, "It is nothing that this kind of case could be closed by.")
    if resolution == WRITE_OFF and recovery == "replayable":
        return "A read leaves nothing open outside; run it again."
    return _WHY_NOT[resolution].get(answer, "The tool's recovery class does not allow it.")


def pairs() -> list[str]:
    """Return every move as ``source>target``, sorted."""
    return sorted(f"{source}>{target}" for source, target in MOVES)


# -- many cases at once

DRAFT, BULK_REVIEWING, RUNNING, PAUSED, DONE_ALL, ABORTED = "draft", "reviewing", "running", "paused", "done", "aborted"
BULK_STATES = (DRAFT, BULK_REVIEWING, RUNNING, PAUSED, DONE_ALL, ABORTED)
BULK_MOVES: dict[tuple[str, str], str] = {
    ("draft", "reviewing"): "ordered; a second person is asked",
    ("draft", "running"): "ordered; no second person is needed",
    ("draft", "aborted"): "given up before it began",
    ("reviewing", "running"): "another person has approved it",
    ("reviewing", "aborted"): "sent back, or given up",
    ("running", "paused"): "a person or the capacity watch stops it",
    ("running", "done"): "every item is answered",
    ("running", "aborted"): "given up; what is done stays",
    ("paused", "running"): "a person lets it go on",
    ("paused", "aborted"): "given up; what is done stays",
}
# Of an item: it waits, it is under way, carried out, refused with its reason, left out at the preview, or it failed.
NOT_BEGUN, WORKING, CARRIED_OUT, REFUSED, LEFT_OUT, BROKEN = "todo", "working", "done", "refused", "left", "failed"
ITEM_STATES = (NOT_BEGUN, WORKING, CARRIED_OUT, REFUSED, LEFT_OUT, BROKEN)
# What may be ordered for many cases at once.
IN_BULK = (*RESOLUTIONS, KEEP_PENDING)


def bulk_pairs() -> list[str]:
    """Return every move of a bulk repair as ``source>target``, sorted."""
    return sorted(f"{source}>{target}" for source, target in BULK_MOVES)
