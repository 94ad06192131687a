"""What the speed benchmarks share: one thread, CPU time, sides taken in turn, median and quartiles."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import table

REPEATS = 7
SEED = 0


class Spread(NamedTuple):
    """The median of some figures and their quartiles."""

    median: float
    low: float
    high: float
    repeats: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of measured figures; of one figure, that figure."""
        low, median, high = (
            statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        )
        return cls(median, low, high, len(values))


def one_thread() -> None:
    """Bind this process and those it starts to one thread."""
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    import torch

    torch.set_num_threads(1)


def cpu_seconds(work: Callable[[], Any]) -> float:
    """The CPU time of this process for one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def interleaved(
    sides: dict[str, Callable[[], Any]], *, repeats: int = REPEATS, warmups: int = 1, calls: int = 1
) -> dict[str, list[float]]:
    """CPU seconds of each side, `repeats` rounds in which every side has its turn of `calls` calls.

    A side that returns a float has measured itself; otherwise its call is timed here.
    """
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(-warmups, repeats):
        for name, work in sides.items():
            seconds = [_timed(work) for _ in range(calls if number >= 0 else 1)]
            if number >= 0:
                times[name].append(sum(seconds) / calls)
    return times


def _timed(work: Callable[[], Any]) -> float:
    began = time.process_time()
    result = work()
    return result if isinstance(result, float) else time.process_time() - began


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """One side over the other, round by round."""
    return [a / b for a, b in zip(above, below, strict=True)]


def row(name: str, values: Sequence[float], *, conditions: str = "") -> dict[str, Any]:
    """One measured row of the table; `ours` is its figure in words."""
    known = table.ROWS[name]
    spread = Spread.of(values)
    return {
        "row": name,
        "ours": table.shown(spread.median, known.unit),
        "target": known.target,
        "unit": known.unit,
        **{key: round(value, 5) for key, value in spread._asdict().items()},
        "conditions": conditions,
    }


def milliseconds(times: dict[str, list[float]]) -> str:
    """The median CPU time of every side, for the conditions of a row."""
    return ", ".join(f"{name} {1e3 * statistics.median(values):.4g} ms" for name, values in times.items())


def main(rows: Callable[[], list[dict[str, Any]]]) -> None:
    """What a benchmark does when it is run alone."""
    one_thread()
    measured = rows()
    print(table.render(measured))
    for conditions in dict.fromkeys(row["conditions"] for row in measured):
        print(f"\n{conditions}")
