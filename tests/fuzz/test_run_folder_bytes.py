"""Whatever stands in the files of a run folder, the answer is a value or one line."""

import json

import pytest
from answers import value_or_one_line
from hypothesis import given, settings
from hypothesis import strategies as st

from interlude import models
from interlude.bench.store import read_lines
from interlude.data.record import SplitRecord
from interlude.errors import UserError
from interlude.fitting.request import Memo
from interlude.fitting.trials import read as read_trials
from interlude.journal import Journal
from interlude.models import ModelConfig
from interlude.models.weights import read_weights
from interlude.predictor import Predictor

pytestmark = pytest.mark.slow

leaves = st.none() | st.booleans() | st.integers(-3, 300) | st.floats() | st.text(max_size=8)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
anything = st.binary(max_size=120) | trees.map(lambda tree: json.dumps(tree).encode())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a small model in it."""
    folder = tmp_path_factory.mktemp("run")
    config = ModelConfig(name="cnn")
    classifier = models.build(config, num_classes=2, channels=1, image_size=(8, 8))
    models.save(
        folder,
        classifier,
        model_config=config,
        image_size=(8, 8),
        channels=1,
        mean=(0.5,),
        std=(0.2,),
        label_names=("a", "b"),
    )
    (folder / "good.json").write_bytes((folder / "config.json").read_bytes())
    return folder


def load(folder):
    with value_or_one_line():
        assert isinstance(Predictor.load(folder), Predictor)


@settings(deadline=None, max_examples=150)
@given(anything)
def test_any_description_of_a_model_gives_a_predictor_or_one_line(folder, content):
    (folder / "config.json").write_bytes(content)
    load(folder)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_changed_description_of_a_model_gives_a_predictor_or_one_line(folder, data):
    content = json.loads((folder / "good.json").read_text())
    name = data.draw(st.sampled_from([*sorted(content), "calibration"]))
    content[name] = data.draw(trees)
    (folder / "config.json").write_text(json.dumps(content))
    load(folder)


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=200))
def test_any_bytes_for_weights_give_one_line(folder, content):
    (folder / "weights.safetensors").write_bytes(content)
    (folder / "weights.pt").write_bytes(content)
    for name in ("weights.safetensors", "weights.pt"):
        with pytest.raises(UserError):
            read_weights(folder / name)


@settings(deadline=None, max_examples=200)
@given(anything)
def test_any_bytes_for_a_split_give_one_or_one_line(folder, content):
    (folder / "split.json").write_bytes(content)
    with value_or_one_line():
        assert isinstance(SplitRecord.from_json(folder / "split.json"), SplitRecord)


@settings(deadline=None, max_examples=200)
@given(st.lists(anything, max_size=3).map(b"\n".join))
def test_any_lines_in_a_journal_are_passed_over_or_kept(folder, content):
    (folder / "metrics.jsonl").write_bytes(content)
    Journal(folder, step=5).write(6, {"train/loss": 0.5})
    assert (folder / "metrics.jsonl").read_bytes().endswith(b'{"step": 6, "train/loss": 0.5}\n')


@settings(deadline=None, max_examples=200)
@given(st.lists(anything, max_size=3).map(b"\n".join))
def test_any_lines_among_results_are_passed_over_or_kept(folder, content):
    path = folder / "lines.jsonl"
    path.write_bytes(content)
    assert all("id" in line for line in read_lines(path))
    assert all(trial.candidate is not None for trial in read_trials(path))
    memo = Memo(path)
    memo.write("views", {"input_size": 3})
    assert memo.read("views") == {"input_size": 3}
