"""What a run folder holds for its report; only fit.json must be there."""

import json
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import yaml

from interlude.errors import UserError

SCHEMA = 1
FOLDER = "folder:"  # how settings name a folder of images
Curve = list[tuple[float, float]]


@dataclass(frozen=True)
class Content:
    """The files of a run, read; what is missing is empty."""

    fit: dict[str, Any]
    curves: dict[str, Curve]
    doctor: dict[str, Any] | None
    settings: dict[str, Any]
    settings_text: str
    split_hash: str
    images: Path | None

    @property
    def classes(self) -> list[str]:
        """Their names."""
        return [str(name) for name in self.fit.get("classes") or []]

    @property
    def counts(self) -> dict[str, Any]:
        """How many images of each kind."""
        return self.fit.get("counts") or {}

    @property
    def num_labels(self) -> int:
        """How many images have a label to learn from."""
        return sum((self.counts.get("labeled") or {}).values())

    @property
    def kept(self) -> dict[str, Any]:
        """The candidate whose model was saved."""
        name = (self.fit.get("verdict") or {}).get("kept")
        return next((one for one in self.fit.get("candidates") or [] if one.get("name") == name), {})


def read_content(folder: Path, images: Path | None, *, thumbnails: bool) -> Content:
    """Read the files of a run folder; the folder of its images is taken from its settings if not given."""
    fit = _json(folder / "fit.json")
    if fit is None:
        raise UserError(f"{folder} has no fit.json: give the run folder of a finished `interlude fit`")
    if fit.get("schema") != SCHEMA:
        raise UserError(
            f"{folder / 'fit.json'} is of schema {fit.get('schema')}, not {SCHEMA}: "
            f"make the report with the version of interlude that made the run"
        )
    text = _text(folder / "config.yaml")
    settings = _settings(text)
    return Content(
        fit=fit,
        curves=_curves(_text(folder / "metrics.jsonl")),
        doctor=_json(folder / "doctor.json"),
        settings=settings,
        settings_text=text,
        split_hash=str((_json(folder / "split.json") or {}).get("split_hash", "")),
        images=(images or _images(settings)) if thumbnails else None,
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None


def _json(path: Path) -> dict[str, Any] | None:
    """The object in a file; None if there is no file."""
    text = _text(path)
    if not text:
        return None
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UserError(f"{path} is damaged: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} is damaged: it holds no object")
    return content


def _settings(text: str) -> dict[str, Any]:
    try:
        settings = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    return settings if isinstance(settings, dict) else {}


def _images(settings: dict[str, Any]) -> Path | None:
    """The folder that the run was trained on, if it is still there."""
    name = str((settings.get("data") or {}).get("name", ""))
    place = Path(name.removeprefix(FOLDER))
    return place if name.startswith(FOLDER) and place.is_dir() else None


def _curves(text: str) -> dict[str, Curve]:
    """What was logged, by name, as (step, value); a line that was cut short is left out."""
    curves: dict[str, Curve] = {}
    for line in text.splitlines():
        try:
            values = json.loads(line)
            step = values.pop("step")
        except (ValueError, KeyError, AttributeError):
            continue
        for name, value in values.items():
            if isinstance(value, int | float) and isfinite(value):
                curves.setdefault(name, []).append((step, float(value)))
    return curves
