"""The benchmarks of what a person sees, with tiny sizes: what they measure is there, and their line holds it."""

from __future__ import annotations

import pytest

from runtime.management.bench.figures import AIMS
from tests.bench.test_bench_command import bench, printed


def aimed_at(name):
    return {figure for figure, _side, _number in AIMS[name]}


def test_pages_measures_page_and_graph(fresh_db):
    found = printed(bench(fresh_db, "pages", "--samples", "3"))
    assert (found["unit"], found["n"]) == ("ms", 3)
    assert 0 < found["p50"] <= found["p95"] < 10_000
    assert found["bytes"]["graph"] > 100_000
    assert found["cpu_ms"]["page"] > 0
    assert set(found["aim"]) == aimed_at("pages") == {"p95"}


def test_live_measures_from_commit_to_pixel_with_fifty_watchers(fresh_db):
    found = printed(bench(fresh_db, "live", "--samples", "20"))
    assert (found["unit"], found["readers"], found["gaps"]) == ("ms", 49, 0)
    assert 18 <= found["n"] <= 20
    assert 0 < found["socket_p50"] < found["p50"] < 10_000
    assert set(found["aim"]) == aimed_at("live")


@pytest.mark.slow
def test_lists_measures_each_way_of_asking_over_many_runs(fresh_db):
    found = printed(bench(fresh_db, "lists", "--fill", "2000", "--samples", "2", "--workers", "1"))
    assert {"day", "all", "failed", "next"} <= set(found["p95_of"])
    assert set(found["aim"]) == aimed_at("lists") == {"p95"}


@pytest.mark.slow
def test_graph_measures_the_main_thread(fresh_db):
    found = printed(bench(fresh_db, "graph", "--samples", "60"))
    assert set(found["views"]) == {"groups", "steps", "all"}
    assert found["longest_ms"] > 0
    assert found["aim"]["longest_ms"]["most"] == 50
    assert all(view["elements"] < 4000 for view in found["views"].values())
