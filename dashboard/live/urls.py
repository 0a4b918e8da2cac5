"""The live addresses of the API; they belong to ``/api/v1/``."""

from django.urls import path

from dashboard.live.stream import RunStream

urlpatterns = [path("runs/<str:run_id>/stream/", RunStream.as_view(), name="run-stream")]
