"""Small suites."""

import pytest
import yaml

from interlude.bench.suites import load_suite

TINY = {
    "title": "tiny",
    "rows": ["supervised", "interlude"],
    "columns": {
        "digits@40": {"config": "digits", "steps": 4},
        "digits@20": {"config": "digits", "steps": 4, "labels": 20, "data": "digits"},
    },
    "seeds": [0, 1],
    "scales": {"mini": {}},
}


@pytest.fixture
def suite_of(tmp_path):
    """A suite made of a tree, as if read from a file; the tree is laid over a tiny one."""

    def make(scale="mini", **tree):
        path = tmp_path / "tiny.yaml"
        path.write_text(yaml.safe_dump({**TINY, **tree}, sort_keys=False))
        return load_suite(str(path), scale)

    return make
