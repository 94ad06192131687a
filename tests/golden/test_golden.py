"""The first five losses of every method are what they were when `traces.json` was written."""

import math

import numpy as np
import pytest
import write

from interlude.method import find_method, method_names

TRACES = write.read()


@pytest.mark.parametrize("name", method_names())
def test_a_method_takes_the_steps_it_took_before(name):
    assert name in TRACES, f"{name} has no trace yet: run `python tests/golden/write.py {name}`"
    found, stored = write.trace(find_method(name)), TRACES[name]
    hint = f"if this is meant, run `python tests/golden/write.py {name}` and name the change in CHANGELOG.md"
    assert list(found) == list(stored), f"{name} has other terms than before; {hint}"
    for term, values in stored.items():
        np.testing.assert_allclose(
            found[term], values, rtol=1e-4, atol=1e-6, err_msg=f"{term} of {name} moved; {hint}"
        )


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_belongs_to_a_method_and_says_something(name):
    assert name in method_names(), (
        f"traces.json holds {name}, which is no method: `python tests/golden/write.py`"
    )
    moving = [term for term, values in TRACES[name].items() if len(set(values)) > 1]
    assert {"loss", "supervised"} <= set(moving), f"only {moving} of {name} move: the trace tests nothing"
    assert all(math.isfinite(value) for values in TRACES[name].values() for value in values)
