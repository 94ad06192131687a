"""Import torchvision where its compiled operators do not match the installed torch.

The wheel of torchvision built for CUDA does not find its operators beside a CPU build of torch and fails at
import, although we use none of them. Declaring the two schemas it looks for is enough.
"""

import importlib.util
import sys
from pathlib import Path

import torch

_declared: list[torch.library.Library] = []


def prepare_torchvision() -> None:
    """Make `import torchvision` (and so `import timm`) work; does nothing where torchvision is whole."""
    if "torchvision" in sys.modules or _declared or not _is_built_for_another_torch():
        return
    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)


def _is_built_for_another_torch() -> bool:
    """Whether loading torchvision's compiled operators fails, in which case nothing has declared them."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations:
        return False
    folder = Path(next(iter(spec.submodule_search_locations)))
    for extension in sorted(folder.glob("_C*.so")) + sorted(folder.glob("_C*.pyd")):
        try:
            torch.ops.load_library(str(extension))
        except OSError:
            return True
    return False
