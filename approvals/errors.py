"""Why a decision is refused. Each names what is there now, so that a stale page can show what changed."""

from __future__ import annotations

from runtime.kernel.errors import Conflict, PermissionDenied, Stale


class AlreadyClosed(Conflict):
    """The request was decided, cancelled or superseded before."""

    code, title = "approval_closed", "Request is closed"
    remediation = "Read the request; what it permits is settled."


class TooLate(Conflict):
    """The deadline of the request has passed; nothing was approved."""

    code, title = "approval_expired", "Decision is too late"
    remediation = "Run the step again to be asked anew."


class CannotBeShown(Conflict):
    """What would happen could not be shown, so it cannot be approved."""

    code, title = "approval_unreadable", "Request cannot be approved"
    remediation = "Reject it, or correct the workflow and start a new run."


class OtherVersion(Stale):
    """The request was shown in another version or with another payload."""

    remediation = "Read the request again, look at what it shows now, and decide that."


class HandedOver(Conflict):
    """Another person was chosen to decide this request, or took it on."""

    code, title = "approval_assigned", "Somebody else decides it"
    remediation = "Ask them to decide or to release it; whoever may decide can hand it over."


class AlreadySpoken(Conflict):
    """This person has decided this request before; a voice is given once."""

    code, title = "approval_spoken", "You have decided already"
    remediation = "Others have to decide as well; a voice is neither changed nor given twice."


class ReviewLimitReached(Conflict):
    """One person holds, or has decided within an hour, as much as the tenant lets one person."""

    code, title = "review_limit", "Review limit is reached"
    remediation = "Let another person of the role decide it, or wait."


class OwnRequest(PermissionDenied):
    """Nobody decides what they asked for themselves."""

    code, title = "own_request", "It is your own request"
    remediation = "Let another person of the role decide it."


class NotUsable(Conflict):
    """The request does not allow that."""

    code, title = "approval_refused", "Not possible for this request"


class NotDecided(Conflict):
    """Nobody has decided the request so far."""

    code, title, retryable = "approval_pending", "Request waits for a decision", True
    remediation = "Wait for the decision; nothing may be carried out before it."


class GrantGone(Conflict):
    """The request grants nothing, or no more."""

    code, title = "approval_not_granted", "Nothing is granted"
    remediation = "Ask anew, under another key, for what is still wanted."


class OtherAction(Conflict):
    """It is another action than the one that was asked for."""

    code, title = "approval_other_action", "Another action than was approved"
    remediation = "Carry out exactly what was approved, or ask for the other action under another key."


class Stopped(Conflict):
    """An emergency stop stands."""

    code, title, retryable = "approval_stopped", "External calls are stopped", True
    remediation = "Try again when the stop was lifted; the grant is kept until its time is over."
