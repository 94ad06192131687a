"""Any file given as settings is settings or one line about what is wrong with it."""

import string
from dataclasses import fields

import pytest
import yaml
from answers import value_or_one_line
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlude.config import Config, Layer, compose, read_file, resolve, stored
from interlude.errors import UserError
from interlude.method import find_method

pytestmark = pytest.mark.slow

NAMES = [item.name for item in fields(Config)]
PARTS = {"method", "data", "model", "optimizer", "augment", "features", "ema"}
INNER = [
    f"{part}.{item.name}"
    for part in sorted(PARTS)
    for item in fields(type(getattr(compose(find_method("interlude"))(), part)))
]

texts = st.text(alphabet=string.printable, max_size=12)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=8) | st.dates()
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)


def check(path):
    """The settings of a file, if it has any."""
    with value_or_one_line():
        assert isinstance(resolve([read_file(path)]), Config)


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@example(b"[" * 500)
@example(b"{" * 500)
@example(b"- " * 500)
@example(b"a: &a [*a]\nb: *a\n")
@example(b"steps: 2024-13-45\n")
@example(b"steps: " + b"9" * 5000)
@example(b"steps: 0b\n")
@example(b"steps: 0x_\n")
@example(b"steps: 1:99999999999999999999:3\n")
@example(b"seed: !!int ''\n")
@example(b"seed: !!float abc\n")
@example(b"seed: !!binary '?'\n")
@example(b"seed: !!timestamp abc\n")
@example(b"seed: !!bool abc\n")
@example(b"? [a, b]\n: 1\n")
@example(b"method: {name: [1]}\n")
@example(b"method.name.name: 3\n")
@example(b"method: interlude\nmethod.name: 3\n")
@example(b"out: {a: b}\n")
@example(b"steps: .inf\n")
@example(b"steps: .nan\n")
@example(b"1: 2\n")
@example(b"data: null\ndata.name: 3\n")
@example(b"steps:\n  a: 1\nsteps.b: 2\n")
@example(b"<<: 3\n")
@example(b"<<: [a]\n")
@example("steps: \ud800".encode("utf-8", "surrogatepass"))
def test_any_bytes_give_settings_or_one_line(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    check(path)


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.sampled_from(NAMES + INNER) | texts, values, max_size=4))
def test_any_values_of_known_names_give_settings_or_one_line(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "values.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    check(path)


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.sampled_from(NAMES + INNER), values, max_size=4))
def test_any_values_given_by_python_give_settings_or_one_line(content):
    with value_or_one_line():
        assert isinstance(resolve([Layer("train()", content)]), Config)


@pytest.mark.parametrize("tag", ["python/object/apply:os.system ['touch ran']", "python/name:os.system ''"])
def test_a_file_of_settings_runs_no_code(tmp_path, monkeypatch, tag):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.yaml").write_text(f"steps: !!{tag}\n")
    with pytest.raises(UserError, match="cannot read"):
        read_file("evil.yaml")
    assert not (tmp_path / "ran").exists()


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=100))
def test_a_run_folder_with_any_settings_is_gone_on_with_or_refused_in_one_line(tmp_path_factory, content):
    folder = tmp_path_factory.getbasetemp() / "run-of-bytes"
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_bytes(content)
    with value_or_one_line():
        stored([Layer("test", {"out": str(folder)})])
