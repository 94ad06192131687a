"""Whether the weights of a pretrained network can be had here and now."""

import os
import socket
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from interlude.compat import prepare_torchvision
from interlude.errors import UserError

PATIENCE = 3.0  # seconds to wait for an answer from the hub


class Found(NamedTuple):
    """Whether the weights can be had, and why so."""

    available: bool
    reason: str


def find_weights(model: str, weights: str | None) -> Found:
    """Where the weights of `timm:NAME` would come from: a file, this machine's cache of the hub, the hub."""
    if weights is not None:
        if not Path(weights).expanduser().exists():
            raise UserError(f"there is no file of weights {weights}")
        return Found(True, f"its weights are in {Path(weights).name}")
    hub = _hub_id(model.removeprefix("timm:"))
    if hub is None:
        return Found(False, f"timm has no weights of {model}")
    from huggingface_hub import constants, try_to_load_from_cache

    if any(
        isinstance(try_to_load_from_cache(hub, name), str)
        for name in ("model.safetensors", "pytorch_model.bin")
    ):
        return Found(True, "its weights are on this machine")
    if constants.HF_HUB_OFFLINE or os.environ.get("INTERLUDE_OFFLINE"):
        return Found(False, "its weights are not on this machine, and downloads are switched off")
    address = urlsplit(constants.ENDPOINT)
    try:
        port = address.port or (443 if address.scheme == "https" else 80)
        socket.create_connection((address.hostname or "", port), timeout=PATIENCE).close()
    except OSError:
        return Found(
            False, "its weights are not on this machine, and the hub they come from cannot be reached"
        )
    return Found(True, "its weights will be downloaded once")


def _hub_id(name: str) -> str | None:
    prepare_torchvision()
    import timm

    if not timm.is_model(name):
        return None
    known = timm.models.get_pretrained_cfg(name)
    return known.hf_hub_id if known is not None and known.hf_hub_id else None
