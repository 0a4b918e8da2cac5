"""A run's large contents: listed with size and hash for all who may see that they exist, read by those who may read."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from runtime.actions.artifacts import upload_artifact
from tests.support.actors import member
from tests.support.pages import Reader, Scene, node

pytestmark = [pytest.mark.req("A9.7", "A9.8", "C2.3")]
LARGE = {"text": "x" * 90_000}


@pytest.fixture
def run_id(made: Scene) -> Any:
    """A run whose input names a file and whose first step answered with much."""
    body = b"order;amount\nA-1;12.50\n"
    sender = member(made.tenant, "integrator")
    sha256 = hashlib.sha256(body).digest()
    stored = upload_artifact(actor=sender, body=body, media_type="text/csv", sha256=sha256)
    named = {"artifact_id": stored["artifact_id"], "sha256": stored["sha256"]}
    spec = {"format": "quarterdeck/1", "name": "large", "nodes": [node("fetch"), node("tell", "fetch")]}
    run_id = made.engine.submit(spec, {"orders": [named], "note": f'no reference: {{"artifact_id":"{named}"}}'})
    made.engine.finish("fetch", value=LARGE)
    return run_id


def test_inputs_and_outputs_are_listed_with_size_and_hash(run_id: Any, admin: Reader):
    page = admin.get(f"/runs/{run_id}/artifacts/")
    assert page.count("/content/") == 2
    for words in ("Named by the task", "text/csv", "23\xa0bytes", "Output of fetch", "87.9\xa0KB"):
        assert words in page, words


def test_a_download_is_the_content_and_its_hash_is_the_one_shown(run_id: Any, admin: Reader):
    page = admin.get(f"/runs/{run_id}/artifacts/")
    address = page.split('class="btn btn-sm" href="')[1].split('"')[0]
    body = admin.client.get(address).content
    assert f"sha256:{hashlib.sha256(body).hexdigest()}" in page


def test_who_reads_no_contents_sees_that_they_exist(run_id: Any, made: Scene):
    viewer = Reader(made.tenant, "viewer")
    page = viewer.get(f"/runs/{run_id}/artifacts/")
    assert "Output of fetch" in page
    assert "/content/" not in page
    assert page.count("Your role reads no contents.") == 2


def test_another_tenant_sees_nothing(run_id: Any, other_tenant: Any):
    Reader(other_tenant, "admin").get(f"/runs/{run_id}/artifacts/", 404)


def test_a_run_without_large_contents_says_so(made: Scene, admin: Reader):
    assert "This run refers to no large content" in admin.get(f"/runs/{made.runs['done']}/artifacts/")
