"""Why a run is where it is: the diagnostic questions of B11.1 answered from the ledger, for one step. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from dashboard.presenters import states, times
from dashboard.presenters.told import told
from dashboard.presenters.why_focus import Blocker as Blocker
from dashboard.presenters.why_focus import blockers as blockers

YES, NO, WAIT, DOUBT, NONE = "yes", "no", "wait", "doubt", "none"
# What each verdict looks like: the mark of the state that says the same.
MARKS = {YES: "succeeded", NO: "failed", WAIT: "waiting", DOUBT: "unknown", NONE: "skipped"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A question, what the ledger says, how sure that is, and the events (seq) or rows it was read from."""

    question: str
    verdict: str
    text: str
    events: list[int] = field(default_factory=list)
    hint: str = ""

    @property
    def mark(self) -> str:
        """Return the state whose mark stands beside the answer."""
        return MARKS[self.verdict]


@dataclass(slots=True)
class Facts:
    """What the questions are answered from, all read of one moment; lists are those of this node."""

    run: dict[str, Any]
    node: dict[str, Any]
    graph: dict[str, Any]
    events: list[dict[str, Any]]
    created: dict[str, Any] | None
    attempts: list[dict[str, Any]]
    operations: list[dict[str, Any]]
    checkpoint: dict[str, Any] | None
    requests: list[dict[str, Any]]
    stops: list[dict[str, Any]]
    now: datetime
    writes: bool = False  # by its tool's contract
    served: bool = True  # a living worker serves its pool

    @property
    def step(self) -> dict[str, Any]:
        """Return the step's current row."""
        return self.node["step"] or {"status": "waiting", "cause": None, "attempt": 0, "error": None}

    def last(self, *types: str) -> dict[str, Any] | None:
        """Return the newest event of one of ``types``."""
        return next((event for event in reversed(self.events) if event["type"] in types), None)


def answer(facts: Facts) -> list[Answer]:
    """Return the answers in the order of the diagnostic path."""
    return [
        _created(facts),
        _ready(facts),
        _queued(facts),
        _claimed(facts),
        _sent(facts),
        _timed_out(facts),
        _effect(facts),
        _persisted(facts),
        _successors(facts),
        _paused(facts),
    ]


def _at(event: dict[str, Any], facts: Facts) -> str:
    return times.clock(event["occurred_at"], facts.now)


def _created(facts: Facts) -> Answer:
    question = _("Was it created?")
    if facts.created is None or facts.node["step"] is None:
        return Answer(question, NO, _("No row of this step is in the ledger."))
    who = states.person(facts.created.get("actor"))["name"]
    text = _("Yes, with the run at %(at)s by %(who)s, from %(workflow)s v%(version)s.") % {
        "at": _at(facts.created, facts),
        "who": who,
        "workflow": facts.run["workflow"],
        "version": facts.run["workflow_version"],
    }
    version = facts.step.get("execution_version", 1)
    hint = _("This is its execution version %(n)d; older ones stay readable.") % {"n": version} if version > 1 else ""
    return Answer(question, YES, text, [facts.created["seq"]], hint)


def _inputs(facts: Facts) -> tuple[list[tuple[str, dict[str, Any]]], list[str]]:
    """Return the sources of the step with their rows, and the titles of those that are not at an end."""
    nodes = {node["id"]: node for node in facts.graph["nodes"]}
    sources, missing = [], []
    for edge in facts.graph["edges"]:
        if edge["target"] != facts.node["id"] or edge["taken"] is False:
            continue
        source = nodes[edge["source"]]
        row = source["step"] or {"status": "waiting"}
        sources.append((source["title"], row))
        if row["status"] not in states.ENDED_STEPS:
            missing.append(f"{source['title']} ({states.word(row['status'])})")
    return sources, missing


def _ready(facts: Facts) -> Answer:
    question = _("Is the ready set right?")
    sources, missing = _inputs(facts)
    if not sources:
        return Answer(question, YES, _("It has no inputs to wait for."))
    if (late := _decided_late(facts)) is not None:
        return Answer(question, YES, _late_text(facts, late), [late["seq"]])
    status, any_of = facts.step["status"], facts.node["join"]["mode"] == "any"
    begun = status not in ("waiting", "skipped") or (status == "waiting" and facts.step["cause"] is not None)
    done = len(sources) - len(missing)
    counted = _("%(done)d of %(all)d inputs are at an end.") % {"done": done, "all": len(sources)}
    if begun and missing and not any_of:
        return Answer(
            question, DOUBT, _("It began although inputs are open: %(names)s.") % {"names": ", ".join(missing)}
        )
    if not begun and not missing and status == "waiting":
        return Answer(question, DOUBT, _("All inputs are at an end, and it still waits."), hint=counted)
    if status == "skipped" and missing:
        return Answer(question, NONE, _("It was skipped before its inputs were at an end."), hint=counted)
    if not begun and missing:
        text = _("It waits for %(names)s.") % {"names": ", ".join(missing)}
        return Answer(question, WAIT, text, hint=_limit_text(facts) or counted)
    return Answer(question, YES, counted, hint=_("Any one of them is enough.") if any_of else "")


def _decided_late(facts: Facts) -> dict[str, Any] | None:
    """Return the event by which a join's time limit decided this execution of it, None when it did not."""
    event = facts.last("JOIN_TIMED_OUT")
    version = facts.step.get("execution_version", 1)
    return event if event is not None and event.get("execution_version", version) == version else None


def _late_text(facts: Facts, event: dict[str, Any]) -> str:
    titles = {node["id"]: node["title"] for node in facts.graph["nodes"]}
    names = ", ".join(titles.get(one, one) for one in (event["payload"] or {}).get("missing", ()))
    limit = facts.node["join"].get("timeout_s")
    text = _("Its time to wait (%(limit)s) was over at %(at)s: it was decided without %(names)s.")
    return text % {"limit": times.duration(limit or 0.0), "at": _at(event, facts), "names": names or "–"}


def _limit_text(facts: Facts) -> str:
    """Return until when a join waits for its open inputs; "" without a limit, or before its first input has ended."""
    step = facts.step
    if facts.node["join"].get("timeout_s") is None or step["cause"] is not None or not step.get("not_before"):
        return ""
    return _("At %(at)s it is decided without them.") % {"at": times.clock(step["not_before"], facts.now)}


def _queued(facts: Facts) -> Answer:
    question = _("Was it queued?")
    event = facts.last("STEP_QUEUED", "STEP_RERUN")
    step = facts.step
    if event is not None:
        return Answer(
            question,
            YES,
            _("Yes, at %(at)s in pool %(pool)s.") % {"at": _at(event, facts), "pool": step["pool"]},
            [event["seq"]],
        )
    if step["status"] == "hold":
        return Answer(question, WAIT, _("No: it is held, and a held step occupies no worker."))
    if step["status"] == "skipped":
        return Answer(question, NONE, _("No: it was skipped, %(cause)s.") % {"cause": states.cause_word(step["cause"])})
    if step.get("not_before") and not _limit_text(facts):
        at = times.clock(step["not_before"], facts.now)
        return Answer(question, WAIT, _("Not before %(at)s: a timer is set.") % {"at": at})
    return Answer(question, WAIT, _("Not yet: its inputs are not there."))


def _claimed(facts: Facts) -> Answer:
    question = _("Did a worker claim it?")
    step = facts.step
    if facts.attempts:
        last = facts.attempts[-1]
        place = f"{last['host']}:{last['pid']}" if last.get("host") else states.kind_word("worker")
        text = _("Yes, attempt %(n)d by %(place)s at %(at)s, epoch %(epoch)d.") % {
            "n": last["number"], "place": place, "at": times.clock(last["started_at"], facts.now),
            "epoch": last["owner_epoch"],
        }  # fmt: skip
        if step["status"] == "running" and last.get("lease_until") and last["lease_until"] <= facts.now:
            return Answer(question, DOUBT, text, hint=_("Its worker's lease is over: lost, and being taken over."))
        started = facts.last("STEP_STARTED")
        return Answer(question, YES, text, [started["seq"]] if started else [])
    if step["status"] == "queued":
        waited = times.duration(times.seconds_between(step.get("queued_at"), facts.now))
        why = _("The run is paused, so nothing is claimed.") if facts.run["paused"] else _bound(facts)
        if not why and not facts.served:
            why = _("No worker that is alive serves the pool %(pool)s.") % {"pool": step["pool"]}
        if not why and step.get("prefer_until"):
            until = times.clock(step["prefer_until"], facts.now)
            why = _("It prefers the pool %(pool)s until %(at)s; then it goes to its ordinary pool.") % {
                "pool": step["pool"], "at": until,
            }  # fmt: skip
        return Answer(question, WAIT, _("Not yet, it has been ready for %(time)s.") % {"time": waited}, hint=why)
    return Answer(question, NONE, _("No worker has had it."))


def _bound(facts: Facts) -> str:
    """Return what a parked step waits for; "" when it is in the queue."""
    gate = facts.step.get("waits_for")
    if not gate:
        return ""
    if gate["kind"] == "breaker":
        until = times.clock(gate["until"], facts.now) if gate["until"] else ""
        return _("%(tool)s keeps failing: its calls wait, at %(at)s one tries.") % {"tool": gate["name"], "at": until}
    sentences = {
        "run": _("So many steps of this run as the workflow allows are under way."),
        "state": _("Another call writes the same state; one at a time may."),
        "tool": _("The limit of %(name)s is reached.") % {"name": gate["name"]},
        "workflow": _("The limit of the workflow is reached."),
        "tenant": _("The tenant's limit is reached."),
        "global": _("The installation's limit is reached."),
    }
    return sentences[gate["kind"]]


def _sent(facts: Facts) -> Answer:
    question = _("Was a request sent?")
    if not facts.operations:
        if facts.writes:
            return _unsent(question, facts)
        if facts.node["kind"] in ("tool", "agent", "notify", "verifier") and facts.attempts:
            return Answer(
                question, NONE, _("It declares no side effect; calls without one are not recorded one by one.")
            )
        return Answer(question, NONE, _("No: it has no side effect."))
    last = facts.operations[-1]
    if not last["sends"]:
        return Answer(question, NO, _("No: the intent was recorded and nothing left."), hint=last["business_key"])
    text = _("Yes, %(n)d× to %(tool)s, last at %(at)s, key %(key)s.") % {
        "n": last["sends"], "tool": last["tool"], "at": times.clock(last["sent_at"], facts.now),
        "key": last["business_key"],
    }  # fmt: skip
    return Answer(question, YES, text)


def _unsent(question: str, facts: Facts) -> Answer:
    """Answer for a call that has an effect and that nothing is written down of: its intent comes before it is sent."""
    if facts.step["status"] in states.ENDED_STEPS:
        return Answer(question, NO, _("No: it ended before a call was written down, so none left."))
    return Answer(question, WAIT, _("Not yet: a call that has an effect is written down before it is sent."))


def _timed_out(facts: Facts) -> Answer:
    question = _("Did it time out, and where?")
    late = [one for one in facts.attempts if "timeout" in str((one["error"] or {}).get("class", ""))]
    lost = [event for event in facts.events if event.get("cause") == "lease_lost"]
    if late:
        one = late[-1]
        text = _("Yes, attempt %(n)d: %(message)s") % {
            "n": one["number"],
            "message": told((one["error"] or {}).get("message")),
        }
        return Answer(question, NO, text)
    if lost:
        return Answer(
            question,
            DOUBT,
            _("Its worker's lease ran out at %(at)s.") % {"at": _at(lost[-1], facts)},
            [lost[-1]["seq"]],
        )
    if facts.run["deadline"] and facts.run["deadline"] <= facts.now and not facts.run["finished_at"]:
        return Answer(question, NO, _("The run's deadline has passed."))
    if (waited := _decided_late(facts)) is not None:
        text = _("Not itself: its time to wait for inputs was over at %(at)s.") % {"at": _at(waited, facts)}
        return Answer(question, NONE, text, [waited["seq"]])
    return Answer(question, NONE, _("No time limit was reached."))


def _effect(facts: Facts) -> Answer:
    question = _("Can it have had an effect outside?")
    if not facts.operations and facts.writes and facts.step["status"] not in states.ENDED_STEPS:
        return Answer(question, WAIT, _("Not yet: nothing was sent."))
    if not facts.operations:
        return Answer(question, NONE, _("No effect is recorded for it."))
    last = facts.operations[-1]
    word = states.word(last["status"], "operation")
    texts = {
        "intended": (NO, _("No: it was intended, not sent.")),
        "void": (NO, _("No: the intent was given up before sending.")),
        "refused": (NO, _("No: the other side refused it.")),
        "absent": (NO, _("No: the other side was asked and has no record of it.")),
        "succeeded": (
            YES,
            _("Yes, confirmed: %(ref)s.") % {"ref": last["external_ref"]}
            if last["external_ref"]
            else _("Yes, confirmed; the answer named no reference of its own."),
        ),
        "compensating": (YES, _("It had one, and that is being undone.")),
        "compensated": (YES, _("It had one, and that was undone.")),
    }
    verdict, text = texts.get(
        last["status"], (DOUBT, _("Possibly: %(word)s. Nothing is sent again until it is known.") % {"word": word})
    )
    hint = ""
    if last.get("next_query_at"):
        at = {"at": times.clock(last["next_query_at"], facts.now)}
        if last.get("finding") == "held":
            hint = _("A stop, a limit or a failing tool keeps the question back; it's looked at again at %(at)s.") % at
        else:
            hint = _("The other side is asked again at %(at)s.") % at
    return Answer(question, verdict, text, hint=hint)


def _persisted(facts: Facts) -> Answer:
    question = _("Was the result persisted?")
    if facts.checkpoint is not None:
        digest = facts.checkpoint["output_sha256"] or ""
        text = _("Yes, as of event %(seq)d, %(kind)s, sha256 %(hash)s.") % {
            "seq": facts.checkpoint["run_seq"], "kind": facts.checkpoint["kind"], "hash": digest[:12],
        }  # fmt: skip
        return Answer(question, YES, text, [facts.checkpoint["run_seq"]])
    status = facts.step["status"]
    if status in ("succeeded",):
        return Answer(question, NONE, _("It succeeded without an output to keep."))
    if status == "mark_successed":
        return Answer(question, NO, _("No: a person set its success, there is no result."))
    if status in ("failed", "killed"):
        return Answer(question, NO, _("No: it ended without a result; its error is kept."))
    return Answer(question, WAIT, _("There is no result yet."))


def _successors(facts: Facts) -> Answer:
    question = _("Why was what follows not scheduled?")
    nodes = {node["id"]: node for node in facts.graph["nodes"]}
    following = [edge for edge in facts.graph["edges"] if edge["source"] == facts.node["id"]]
    if not following:
        return Answer(question, NONE, _("Nothing follows it."))
    waiting = []
    for edge in following:
        node = nodes[edge["target"]]
        row = node["step"] or {"status": "waiting", "cause": None}
        if edge["taken"] is False:
            continue
        if row["status"] == "waiting" and row["cause"] is None:
            waiting.append(node["title"])
        elif row["status"] == "skipped":
            waiting.append(f"{node['title']} ({states.word('skipped')}: {states.cause_word(row['cause'])})")
    if not waiting:
        return Answer(question, YES, _("What follows it went on."))
    names = ", ".join(waiting[:4])
    if facts.step["status"] in states.ENDED_STEPS:
        return Answer(
            question, WAIT, _("%(names)s: other inputs are open, or its failure stops them.") % {"names": names}
        )
    return Answer(question, WAIT, _("%(names)s: this step is not at an end.") % {"names": names})


def _paused(facts: Facts) -> Answer:
    question = _("Does a permission, a budget, an approval or a stop hold it?")
    run, step = facts.run, facts.step
    # What has ended, nobody can hold any more, whatever is asked of its run since.
    open_ = step["status"] not in states.ENDED_STEPS and not run["finished_at"]
    asked = next((one for one in facts.requests if one["state"] == "pending"), None)
    if asked is not None:
        by = _(" until %(at)s") % {"at": times.clock(asked["deadline"], facts.now)} if asked["deadline"] else ""
        text = _("Yes, an approval: “%(title)s”. It waits for the role %(role)s%(by)s.")
        return Answer(
            question, WAIT, text % {"title": asked["title"], "role": states.role_word(asked["role"]), "by": by}
        )
    if facts.stops:
        return Answer(question, NO, _("Yes, an emergency stop: %(reason)s") % {"reason": facts.stops[0]["reason"]})
    if open_ and run["cancel_requested"]:
        return Answer(question, NO, _("The run is being cancelled: nothing new starts."))
    if step["status"] == "hold":
        return Answer(question, WAIT, _("Yes: %(cause)s.") % {"cause": states.cause_word(step["cause"])})
    if open_ and run["paused"]:
        return Answer(question, WAIT, _("Yes, an operator paused the run."))
    if step.get("hold_requested"):
        return Answer(question, WAIT, _("An operator asked for a hold; it takes effect at the next yield."))
    error = step["error"] if isinstance(step.get("error"), dict) else {}
    if error.get("class") in ("permission", "policy", "budget"):
        return Answer(question, NO, _("Yes, it was refused: %(message)s") % {"message": told(error.get("message"))})
    return Answer(question, NONE, _("No."))
