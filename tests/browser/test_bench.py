"""The benchmarks of what a person sees, with tiny sizes: what they measure is there, and their line holds it."""

from __future__ import annotations

import pytest

from tests.bench.test_bench_command import bench, printed


def test_pages_measures_page_and_graph(fresh_db):
    found = printed(bench(fresh_db, "pages", "--samples", "3"))
    assert (found["unit"], found["n"]) == ("ms", 3)
    assert 0 < found["p50"] <= found["p95"] < 10_000
    assert found["bytes"]["graph"] > 100_000
    assert found["cpu_ms"]["page"] > 0


def test_live_measures_from_commit_to_pixel_with_fifty_watchers(fresh_db):
    found = printed(bench(fresh_db, "live", "--samples", "20"))
    assert (found["unit"], found["readers"], found["gaps"]) == ("ms", 49, 0)
    assert 18 <= found["n"] <= 20
    assert 0 < found["socket_p50"] < found["p50"] < 10_000


@pytest.mark.slow
def test_graph_measures_the_main_thread(fresh_db):
    found = printed(bench(fresh_db, "graph", "--samples", "60"))
    assert set(found["views"]) == {"groups", "steps", "all"}
    assert found["longest_ms"] > 0
    assert all(view["elements"] < 4000 for view in found["views"].values())
