"""The verb `export`: a trained model as one ONNX file that takes bytes and gives calibrated answers."""

import copy
import json
import logging
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from interlude import __version__
from interlude.augment.views import scaling
from interlude.errors import RunError, UserError
from interlude.options import run_verb
from interlude.predictor import Predictor, embedded

OPSET = 18  # the first with antialiased scaling
TOLERANCE = 1e-4  # of probabilities, and of logits relative to the largest
CHECKED = 9  # images; another number than the graph is traced with, so that the batch is seen to be free
PLAIN = ("probabilities", "logits")
CALIBRATED = (*PLAIN, "in_set", "ood", "abstain")


def main(tokens: Sequence[str]) -> None:
    """Run the verb with its tokens."""
    run_verb("export", run, tokens)


def run(folder: Path, /, *, onnx: bool = False, out: Path | None = None, force: bool = False) -> None:
    """Write the model of a run folder as one ONNX file, preprocessing and calibration inside.

    Parameters
    ----------
    folder
        A run folder with a trained model.
    onnx
        The format; the only one so far.
    out
        The file; default model.onnx in the run folder.
    force
        Replace the file if it exists.
    """
    if not onnx:
        raise UserError("say in which format: interlude export RUN --onnx")
    path = out or folder / "model.onnx"
    if path.exists() and not force:
        raise UserError(f"{path} exists already; choose another --out, or replace it with --force")
    difference = to_onnx(Predictor.load(folder), path)
    print(f"wrote {path}; onnxruntime and PyTorch differ by at most {difference:.1e} in a probability")


def to_onnx(predictor: Predictor, path: Path) -> float:
    """Write `path`, checked against PyTorch; returns the largest difference of a probability.

    The file appears only if onnxruntime gives the same answers.
    """
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401  (torch's exporter needs it)
    except ImportError as error:
        raise UserError("export to ONNX needs more packages: pip install 'interlude-ssl[onnx]'") from error
    graph = Graph(predictor).eval()
    content = _traced(graph)
    onnx.helper.set_model_props(content, describe(predictor))
    fresh = path.with_name(f"{path.name}.tmp")
    try:
        fresh.write_bytes(content.SerializeToString())
        session = onnxruntime.InferenceSession(fresh, providers=["CPUExecutionProvider"])
        difference = compare(replace(predictor, model=graph.model), graph.names, session)
        fresh.replace(path)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from error
    except RunError:
        raise
    except Exception as error:  # those of onnxruntime have nothing in common
        raise RunError(f"onnxruntime cannot run this network: {_first_line(error)}") from error
    finally:
        fresh.unlink(missing_ok=True)
    return difference


class Graph(nn.Module):
    """Bytes (N, H, W, C) in; probabilities, logits and, where the model is calibrated, verdicts out."""

    scale: Tensor
    offset: Tensor

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        if predictor.image_size is None:
            raise UserError("only a model that knows the size of its images can be exported")
        self.model = copy.deepcopy(predictor.model).cpu()
        self.model.precision = "fp32"  # half precision is for training
        self.calibration = predictor.calibration
        self.usual = predictor.usual
        self.shape = (*predictor.image_size, predictor.channels)
        scale, offset = scaling(predictor.mean, predictor.std)
        self.register_buffer("scale", scale)
        self.register_buffer("offset", offset)
        self.names = CALIBRATED if self.calibration.has_sets and self.usual else PLAIN

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """The outputs in the order of `names`."""
        values = images.float() * self.scale + self.offset
        features, logits = embedded(self.model, values.permute(0, 3, 1, 2))
        verdicts = self.calibration.judge(logits, self.usual.share(features) if self.usual else None)
        return tuple(getattr(verdicts, name) for name in self.names)


def _traced(graph: Graph) -> Any:
    """The graph in ONNX's own form, for any number of images."""
    example = torch.zeros(2, *graph.shape, dtype=torch.uint8)
    log = logging.getLogger("torch.onnx")
    level = log.level
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of torch about itself
        log.setLevel(logging.ERROR)
        try:
            program = torch.onnx.export(
                graph,
                (example,),
                input_names=["images"],
                output_names=list(graph.names),
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            raise RunError(f"torch cannot export this network: {_first_line(error)}") from error
        finally:
            log.setLevel(level)
    assert program is not None
    return program.model_proto


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def describe(predictor: Predictor) -> dict[str, str]:
    """What a user of the file has to know, as ONNX metadata."""
    about = {
        "label_names": list(predictor.class_names),
        "image_size": list(predictor.image_size or ()),
        "channels": predictor.channels,
        "fit": predictor.fit,
        "calibration": predictor.calibration.to_json(),
    }
    return {name: json.dumps(value) for name, value in about.items()} | {"interlude": __version__}


def compare(predictor: Predictor, names: Sequence[str], session: Any) -> float:
    """The largest difference of a probability between the two; an error where it is no matter of rounding."""
    assert predictor.image_size is not None
    images = pictures((*predictor.image_size, predictor.channels))
    worst = 0.0
    for batch in (images, images[:1]):
        wanted = predictor.judge(batch)
        found = dict(zip(names, session.run(None, {"images": batch}), strict=True))
        for name, scale in (("probabilities", 1.0), ("logits", 1 + float(wanted.logits.abs().max()))):
            difference = float(np.abs(found[name] - getattr(wanted, name).numpy()).max())
            if not difference <= TOLERANCE * scale:  # no number either
                raise RunError(
                    f"onnxruntime and PyTorch differ by {difference:.1e} in {name}; nothing was written"
                )
            worst = max(worst, difference if name == "probabilities" else 0.0)
    return worst


def pictures(shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Images to compare with: noise, and slopes that are as smooth as photographs are."""
    height, width, channels = shape
    noise = np.random.default_rng(0).integers(0, 256, (CHECKED // 2, height, width, channels))
    rows, columns = np.mgrid[0:height, 0:width]
    angles = np.linspace(0, np.pi, CHECKED - len(noise))[:, None, None]
    waves = np.cos(np.cos(angles) * rows / height * 6 + np.sin(angles) * columns / width * 6)
    smooth = np.repeat((127.5 * (1 + waves))[..., None], channels, axis=-1)
    images: NDArray[np.uint8] = np.concatenate([noise, smooth]).astype(np.uint8)
    return images
