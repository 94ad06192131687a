import json
from dataclasses import replace

import pytest

from interlude.data.record import SplitRecord
from interlude.errors import UserError

RECORD = SplitRecord(
    (1, 5, 7), (2, 3), data="digits", fold=2, content_hash="abc", sizes={"train": 9, "test": 4}
)


def test_a_record_survives_its_file(tmp_path):
    RECORD.to_json(tmp_path / "split.json")
    assert SplitRecord.from_json(tmp_path / "split.json") == RECORD


def test_a_pool_survives_its_file(tmp_path):
    record = replace(RECORD, out_of_class=0.5, known_classes=("cat", "dog"), pool=(0, 6, 8))
    record.to_json(tmp_path / "split.json")
    assert SplitRecord.from_json(tmp_path / "split.json") == record


def test_an_ordinary_file_does_not_speak_of_a_pool(tmp_path):
    RECORD.to_json(tmp_path / "split.json")
    content = json.loads((tmp_path / "split.json").read_text())
    assert not {"out_of_class", "known_classes", "pool"} & set(content)


def test_the_split_hash_of_an_ordinary_split_does_not_change_between_versions():
    assert RECORD.split_hash == "0a7388af3353266b8edaee246e8ecbcb"


def test_a_file_can_be_read_by_people(tmp_path):
    RECORD.to_json(tmp_path / "split.json")
    lines = (tmp_path / "split.json").read_text().splitlines()
    assert '  "labels": 3,' in lines
    assert '  "labeled": [1, 5, 7],' in lines


def test_writing_leaves_nothing_else_behind(tmp_path):
    for _ in range(2):
        RECORD.to_json(tmp_path / "split.json")
    assert [path.name for path in tmp_path.iterdir()] == ["split.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    RECORD.to_json(tmp_path / "split.json")
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "disk full")))
    with pytest.raises(OSError, match="disk full"):
        replace(RECORD, fold=9).to_json(tmp_path / "split.json")
    assert SplitRecord.from_json(tmp_path / "split.json") == RECORD
    assert [path.name for path in tmp_path.iterdir()] == ["split.json"]


@pytest.mark.parametrize(
    "change",
    [
        {"labeled": (1, 5)},
        {"validation": ()},
        {"content_hash": "abd"},
        {"sizes": {"train": 8}},
        {"pool": (0, 6)},
    ],
)
def test_the_split_hash_sees_data_and_division(change):
    assert replace(RECORD, **change).split_hash != RECORD.split_hash


def test_the_split_hash_is_the_same_under_another_name():
    assert replace(RECORD, data="npz:digits.npz").split_hash == RECORD.split_hash


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ('{"labeled": [1, 2', "is not JSON"),
        ("[1, 2]", "has no list 'labeled'"),
        ('{"rows": [1]}', "has no list 'labeled'"),
        ('{"labeled": ["a.png"]}', "'labeled' must be a list of row numbers"),
        ('{"labeled": [1.5]}', "'labeled' must be a list of row numbers"),
        ('{"labeled": [true]}', "'labeled' must be a list of row numbers"),
        ('{"labeled": 4}', "'labeled' must be a list of row numbers"),
        ('{"labeled": [1], "validation": null}', "'validation' must be a list of row numbers"),
        ('{"labeled": [1], "pool": "all"}', "'pool' must be a list of row numbers"),
        ('{"labeled": [1], "known_classes": "cat"}', "'known_classes' must be of type list"),
        ('{"labeled": [1], "content_hash": 7}', "'content_hash' must be of type str"),
    ],
)
def test_a_file_that_is_no_split_is_refused(tmp_path, text, message):
    (tmp_path / "split.json").write_text(text)
    with pytest.raises(UserError, match=message):
        SplitRecord.from_json(tmp_path / "split.json")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"cannot read split file .* No such file"):
        SplitRecord.from_json(tmp_path / "split.json")


def test_a_changed_file_is_noticed(tmp_path):
    RECORD.to_json(tmp_path / "split.json")
    content = json.loads((tmp_path / "split.json").read_text())
    content["labeled"][0] = 0
    (tmp_path / "split.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="was changed or damaged; delete its 'split_hash'"):
        SplitRecord.from_json(tmp_path / "split.json")
    del content["split_hash"]
    (tmp_path / "split.json").write_text(json.dumps(content))
    assert SplitRecord.from_json(tmp_path / "split.json").labeled == (0, 5, 7)
