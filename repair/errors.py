"""Why a repair is refused. Each names what is there now, so that a stale page can show what changed."""

from __future__ import annotations

from runtime.kernel.errors import AskedTooSoon as AskedTooSoon
from runtime.kernel.errors import Conflict, PermissionDenied, Stale


class CaseHeld(Conflict):
    """Somebody else holds the case."""

    code, title = "case_held", "Somebody else holds the case"
    remediation = "Ask them to hand it over or to release it."


class CaseNotHeld(Conflict):
    """Only who holds a case works on it."""

    code, title = "case_not_held", "You do not hold the case"
    remediation = "Claim it first."


class CaseResolved(Conflict):
    """The case is resolved; its state is never left."""

    code, title = "case_resolved", "Case is resolved"
    remediation = "A new fact opens a new case; open one by hand if you know of one."


class OtherCaseVersion(Stale):
    """The case was shown in another version."""

    remediation = "Read the case again, look at what changed, and decide anew."


class NotPermitted(Conflict):
    """The tool's contract and what is known outside do not permit this resolution."""

    code, title = "resolution_refused", "Resolution is not permitted"
    remediation = "Choose one of `permitted`, or find out more first."


class NotProved(Conflict):
    """The tool's contract asks for evidence of a success, and what is told shows none."""

    code, title = "not_proved", "No evidence of success"
    remediation = "Give the evidence that the tool's contract names."


class BulkMoved(Conflict):
    """The bulk repair is in a state from which that is no move."""

    code, title = "bulk_moved", "Bulk repair is elsewhere by now"
    remediation = "Read it again."


class OtherPreview(Conflict):
    """What would run is not what was shown when it was proposed."""

    code, title = "preview_changed", "Something else would run now"
    remediation = "Look at the preview again, and propose it anew."


class SamePerson(PermissionDenied):
    """The second person is another one than who proposed it."""

    code, title = "second_person", "A second person is needed"
    remediation = "Ask somebody else who may review repairs."
