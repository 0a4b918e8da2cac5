"""The addresses of this app under ``/api/v1/``."""

from __future__ import annotations

from django.urls import path

from repair.api import bulk, chain, runbooks, views

urlpatterns = [
    path("repairs/", views.Repairs.as_view()),
    path("bulk-repairs/", bulk.Bulks.as_view()),
    path("bulk-repairs/<str:bulk_id>/", bulk.Bulk.as_view()),
    path("bulk-repairs/<str:bulk_id>/order/", bulk.Order.as_view()),
    path("bulk-repairs/<str:bulk_id>/review/", bulk.Review.as_view()),
    path("bulk-repairs/<str:bulk_id>/pause/", bulk.Pause.as_view()),
    path("bulk-repairs/<str:bulk_id>/resume/", bulk.GoOn.as_view()),
    path("bulk-repairs/<str:bulk_id>/abort/", bulk.Abort.as_view()),
    path("escalation-chain/", chain.EscalationChain.as_view()),
    path("escalation-chain/versions/", chain.ChainVersions.as_view()),
    path("runbooks/", runbooks.Runbooks.as_view()),
    path("runbooks/versions/", runbooks.Versions.as_view()),
    path("runs/<str:run_id>/effects/", views.RunEffects.as_view()),
    path("repairs/<str:repair_id>/", views.Repair.as_view()),
    path("repairs/<str:repair_id>/claim/", views.Claim.as_view()),
    path("repairs/<str:repair_id>/release/", views.Release.as_view()),
    path("repairs/<str:repair_id>/hand-over/", views.HandOver.as_view()),
    path("repairs/<str:repair_id>/investigate/", views.Investigate.as_view()),
    path("repairs/<str:repair_id>/propose/", views.Propose.as_view()),
    path("repairs/<str:repair_id>/review/", views.Review.as_view()),
    path("repairs/<str:repair_id>/resume-preview/", views.ResumePreview.as_view()),
    path("repairs/<str:repair_id>/resolve/", views.Resolve.as_view()),
    path("repairs/<str:repair_id>/keep-pending/", views.KeepPending.as_view()),
]
