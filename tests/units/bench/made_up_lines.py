"""Lines of results as a run would leave them."""


def line(row, column, repetition, error, **more):
    """A line of results as a run would leave it, with this error."""
    return {
        "id": f"{row}-{column}-{more.get('variant')}-{repetition}",
        "row": row,
        "column": column,
        "variant": {},
        "repetition": repetition,
        "config_hash": f"{row} {column} {more.get('variant')}",
        "suite": "tiny",
        "scale": "mini",
        "method": row,
        "error_last": error,
        "error_best_on_test": None,
        "tests": {"test": {"error_last": error, "balanced_error_last": error + 1}},
        "validation": None,
        "seconds": 10.0,
        "machine": "a machine",
        "threads": 1,
        "version": "1",
        "commit": "abc",
        "settings": {},
        "curve": {"on": "test", "step": [2, 4], "error": [error + 5, error]},
        "traces": {"step": [2, 4], "delta_x": [None, 0.5], "delta_u": [None, 0.25]},
        "fused": None,
        **more,
    }
