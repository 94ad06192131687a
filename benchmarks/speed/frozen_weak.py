"""FixMatch's step with the weak views in a pass of their own, without gradient, over the joint pass.

Exact where rows do not see each other (a ViT), where it is the default; an option (`--model.targets
separate`) with BatchNorm, whose statistics it changes. Measured with a network that has BatchNorm.
"""

from typing import Any

import measure
import ours

MODEL = "wrn-10-1"


def rows() -> list[dict[str, Any]]:
    """The ratio of the two kinds of step."""
    ours.single_steps()
    runs = {
        targets: ours.run(method="fixmatch", model={"name": MODEL, "targets": targets}, batch=64, mu=7)
        for targets in ("separate", "joint")
    }
    times = measure.interleaved(
        {name: lambda run=run: ours.advance(run) for name, run in runs.items()}  # type: ignore[misc]
    )
    conditions = f"1 thread, {MODEL}, B 64, mu 7, {measure.milliseconds(times)}"
    values = measure.ratios(times["separate"], times["joint"])
    return [measure.row("frozen-weak", values, conditions=conditions)]


if __name__ == "__main__":
    measure.main(rows)
