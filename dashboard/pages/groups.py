"""Groups that decide, and who is whose manager; changed by POST through the same actions as the API."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from approvals.actions.groups import put_group, remove_group, set_manager
from approvals.teams import list_groups, list_managers
from dashboard.forms.groups import GroupForm, ManagerForm
from dashboard.pages.console import page, show
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, NotFound, QuarterdeckError
from runtime.queries.people import list_members


@page(v.MEMBER_READ, section="members", methods=("GET", "HEAD", "POST"))
def groups(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show groups and managers; an admin says who is in a group, removes one, or names a manager."""
    group, manager, problem = GroupForm(), ManagerForm(), None
    if request.method == "POST":
        act = request.POST.get("act")
        if act == "manager":
            form: Any = (manager := ManagerForm(request.POST))
        else:
            form = (group := GroupForm(request.POST))
        if form.is_valid():
            try:
                messages.success(request, _done(actor, str(act), form.cleaned_data))
                return HttpResponseRedirect(reverse("groups"))
            except (BadInput, Conflict, NotFound) as refused:
                problem = refused
    context = {
        "crumbs": [(_("Members"), reverse("members")), (_("Groups"), None)],
        "groups": list_groups(actor=actor),
        "managers": list_managers(actor=actor),
        "group": group,
        "manager": manager,
        "problem": problem,
        "names": sorted(one["username"] for one in list_members(actor=actor)),
        "may_manage": may(actor, v.MEMBER_MANAGE),
    }
    return show(request, "pages/groups.html", context, status=_status(request, problem))


def _done(actor: Actor, act: str, said: dict[str, Any]) -> str:
    if act == "manager":
        answer = set_manager(actor=actor, username=said["user"], manager=said["manager"])
        if answer["manager"] is None:
            return _("%(name)s has no manager any more.") % {"name": answer["user"]}
        return _("%(manager)s is the manager of %(name)s.") % {"manager": answer["manager"], "name": answer["user"]}
    if act == "remove":
        return _("The group %(name)s was removed.") % {"name": remove_group(actor=actor, name=said["name"])["name"]}
    answer = put_group(actor=actor, name=said["name"], members=said["members"], expected_members=said["were"])
    text = _("The group %(name)s was made.") if answer["created"] else _("The group %(name)s was changed.")
    return text % {"name": answer["name"]}


def _status(request: HttpRequest, problem: QuarterdeckError | None) -> int:
    if problem is not None:
        return problem.http_status
    return 400 if request.method == "POST" else 200
