"""The addresses of this app under ``/api/v1/``."""

from __future__ import annotations

from django.urls import path

from approvals.api import acts, delegations, groups, hooks, own, past, policies, statistics, views

urlpatterns = [
    path("approvals/", views.Approvals.as_view()),
    path("approvals/bulk/", acts.Bulk.as_view()),
    path("approvals/export/", own.Export.as_view()),
    path("approvals/statistics/", statistics.Statistics.as_view()),
    path("approvals/schema/", own.RecordSchema.as_view()),
    path("approvals/limits/", acts.ReviewLimits.as_view()),
    path("approvals/groups/", groups.Groups.as_view()),
    path("approvals/groups/<str:name>/", groups.Group.as_view()),
    path("approvals/managers/", groups.Managers.as_view()),
    path("approvals/hooks/", hooks.Hooks.as_view()),
    path("approvals/hooks/<str:hook_id>/", hooks.Hook.as_view()),
    path("approvals/hooks/<str:hook_id>/rotate/", hooks.RotateHook.as_view()),
    path("approvals/<str:approval_id>/", views.Approval.as_view()),
    path("approvals/<str:approval_id>/past/", past.Past.as_view()),
    path("approvals/<str:approval_id>/decide/", views.Decide.as_view()),
    path("approvals/<str:approval_id>/consume/", own.Consume.as_view()),
    path("approvals/<str:approval_id>/outcome/", own.Outcome.as_view()),
    path("approvals/<str:approval_id>/withdraw/", own.Withdraw.as_view()),
    path("approvals/<str:approval_id>/propose/", acts.Propose.as_view()),
    path("approvals/<str:approval_id>/claim/", acts.Claim.as_view()),
    path("approvals/<str:approval_id>/release/", acts.Release.as_view()),
    path("approvals/<str:approval_id>/delegate/", acts.Delegate.as_view()),
    path("approvals/<str:approval_id>/extend/", acts.Extend.as_view()),
    path("approvals/<str:approval_id>/escalate/", acts.Escalate.as_view()),
    path("approvals/<str:approval_id>/revoke/", acts.Revoke.as_view()),
    path("approvals/<str:approval_id>/comments/", acts.Comments.as_view()),
    path("steps/<str:step_id>/input/", acts.Input.as_view()),
    path("policies/", policies.Policies.as_view()),
    path("policies/try/", policies.Try.as_view()),
    path("policies/<str:policy_id>/withdraw/", policies.Withdraw.as_view()),
    path("delegations/", delegations.Delegations.as_view()),
    path("delegations/<str:delegation_id>/end/", delegations.EndDelegation.as_view()),
]
