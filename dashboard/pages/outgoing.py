"""Messages that leave the system: what waits, and the quarantine; replayed or discarded by POST."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from dashboard.pages.console import moment, page, show
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.actions.messages import discard_message, replay_message
from runtime.kernel.actor import Actor
from runtime.queries.messages import MOST, list_quarantined, outbox_numbers

# Messages of which it is shown what was done with them.
PAST = 50


@page(v.MESSAGE_READ, section="messages")
def outgoing(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show the quarantine, what was done with earlier ones, and the outbox in numbers."""
    kept = list_quarantined(actor=actor, limit=MOST + 1)
    past = list_quarantined(actor=actor, state="closed", limit=PAST + 1)
    context = {
        "now": moment(actor),
        "crumbs": [(_("Messages"), None)],
        "numbers": outbox_numbers(actor=actor),
        "kept": kept[:MOST],
        "cut": MOST if len(kept) > MOST else 0,
        "past": past[:PAST],
        "past_cut": PAST if len(past) > PAST else 0,
        "may_resolve": may(actor, v.MESSAGE_RESOLVE),
    }
    return show(request, "pages/messages.html", context)


@page(v.MESSAGE_READ, section="messages", methods=("POST",))
def resolve(request: HttpRequest, actor: Actor, message_id: uuid.UUID, verb: str) -> HttpResponse:
    """Send a message again, or give it up."""
    reason = request.POST.get("reason", "")
    if verb == "replay":
        replay_message(actor=actor, message_id=message_id, reason=reason)
        messages.success(request, _("It is sent again under its own id, within a second."))
    else:
        discard_message(actor=actor, message_id=message_id, reason=reason)
        messages.success(request, _("Discarded. It is kept here, and sent no more."))
    return HttpResponseRedirect(reverse("messages"))
