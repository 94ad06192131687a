"""Semi-supervised image classification for people with many images and few labels."""

import importlib
from typing import TYPE_CHECKING, Any

from interlude import machine as machine  # takes its first look at what else the machine is doing

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from interlude.errors import RunError, UserError
    from interlude.estimator import InterludeClassifier
    from interlude.method import Batch, Clock, Method, Objective, Task, find_method, method_names, register
    from interlude.models import Classifier
    from interlude.options import option
    from interlude.predictor import Predictor, load
    from interlude.session import Result
    from interlude.training import train

_HOMES = {
    "errors": ("RunError", "UserError"),
    "estimator": ("InterludeClassifier",),
    "method": ("Batch", "Clock", "Method", "Objective", "Task", "find_method", "method_names", "register"),
    "models": ("Classifier",),
    "options": ("option",),
    "predictor": ("Predictor", "load"),
    "session": ("Result",),
    "training": ("train",),
}

__all__ = [
    "Batch",
    "Classifier",
    "Clock",
    "InterludeClassifier",
    "Method",
    "Objective",
    "Predictor",
    "Result",
    "RunError",
    "Task",
    "UserError",
    "__version__",
    "find_method",
    "load",
    "method_names",
    "option",
    "register",
    "train",
]


def __getattr__(name: str) -> Any:
    """Public names are fetched when first used: `import interlude` itself does not import torch."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"interlude.{module}"), name)
    raise AttributeError(f"module 'interlude' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
