"""The live addresses of the API; they belong to ``/api/v1/``."""

from django.urls import path

from dashboard.live.stream import RunStream
from dashboard.live.waiting import ApprovalWait

urlpatterns = [
    path("runs/<str:run_id>/stream/", RunStream.as_view(), name="run-stream"),
    path("approvals/<str:approval_id>/wait/", ApprovalWait.as_view(), name="approval-wait"),
]
