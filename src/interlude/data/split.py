"""A data set divided into labeled, unlabeled, validation and test images."""

from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import NamedTuple

import torch
from torch import Tensor

from interlude.data.address import parse_address
from interlude.data.choose import choose_labeled, choose_some, choose_validation, describe_imbalance
from interlude.data.groups import relatives
from interlude.data.images import UNKNOWN, Images
from interlude.data.open_set import choose_pool, describe_pool, known_classes, narrow
from interlude.data.options import DataConfig
from interlude.data.record import SplitRecord
from interlude.data.resize import resize
from interlude.data.source import Source, open_source
from interlude.errors import UserError


class Groups(NamedTuple):
    """Of each image, the number of what it belongs to, int64; -1: it stands alone."""

    labeled: Tensor
    unlabeled: Tensor


@dataclass(frozen=True, eq=False)
class Split:
    """What a run trains, watches and tests on, and the record from which it can be made again."""

    labeled: Images
    unlabeled: Images
    validation: Images | None
    tests: dict[str, Images]
    num_classes: int
    class_names: tuple[str, ...]
    class_weights: tuple[float, ...] | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    record: SplitRecord
    notes: tuple[str, ...] = ()  # sentences a user should read
    groups: Groups | None = None  # what the images belong to, as patients, where known
    sampled: Tensor | None = None  # which labeled images were drawn at random, bool, where a table says so


def load(
    cfg: DataConfig,
    *,
    labels: int | None,
    fold: int,
    all_labels: bool = False,
    record: SplitRecord | None = None,
) -> Split:
    """Read a data set and divide it; a record, or a split file in `cfg`, is followed and nothing is drawn.

    `labels=None` uses all labels of the training images; `all_labels=True` does, whatever `labels` says.
    """
    address = parse_address(cfg.name, labels, fold)
    source = full = open_source(replace(cfg, name=address.name), address.fold)
    wanted = None if all_labels else address.labels
    content_hash = source.content_hash()
    known = _known(full, cfg)
    if known:
        source = narrow(full, known)
    if record is not None:
        record = _follow(record, source, content_hash, where="the split of this run")
    elif cfg.split is not None:
        record = _from_file(cfg, source, content_hash, wanted=wanted, all_labels=all_labels)
    else:
        record = _choose(source, cfg, wanted, address.fold)
    record = _with_pool(record, full, known, cfg, keep_labeled=all_labels)
    if cfg.pool is not None:
        record = _bounded(record, source, cfg, all_labels=all_labels)
    # a name without folders: results travel, paths do not
    kind, colon, path = address.name.partition(":")
    name = kind + colon + PurePath(path).name if colon else PurePath(kind).name
    record = replace(record, data=record.data or name, content_hash=content_hash, sizes=full.sizes())
    split = _divide(source, record, cfg)
    if not known:
        return split
    return replace(split, notes=(*split.notes, *describe_pool(full, known, torch.tensor(record.pool))))


def _known(source: Source, cfg: DataConfig) -> tuple[int, ...]:
    """The classes known in an open-set study; none where it is not one."""
    if cfg.out_of_class is None:
        if cfg.known_classes is not None:
            raise UserError("known_classes has a meaning with out_of_class only: set both or neither")
        return ()
    if cfg.pool is not None:
        raise UserError("out_of_class decides how large the pool is: leave pool unset")
    if source.fixed is not None:
        raise UserError(f"{cfg.name} comes with its own uncurated pool: leave out_of_class unset")
    return known_classes(source, cfg.known_classes)


def _choose(source: Source, cfg: DataConfig, labels: int | None, fold: int) -> SplitRecord:
    """The rows that the data set prescribes, or else those that the fold draws."""
    if source.fixed is None:
        validation = _validation(source, cfg)
        labeled = choose_labeled(source, labels, fold=fold, validation=validation)
    else:
        if cfg.validation or labels not in (None, len(source.fixed.labeled)):
            raise UserError(
                f"{cfg.name} comes with its own labeled and validation images: choose among its folds, and "
                "leave labels and validation unset"
            )
        labeled, validation = source.fixed
    return SplitRecord(tuple(labeled.tolist()), tuple(validation.tolist()), fold=fold)


def _validation(source: Source, cfg: DataConfig) -> Tensor:
    """The rows that the data set sets aside for validation, or else those drawn."""
    if source.validation is None:
        return choose_validation(source, cfg.validation)
    if cfg.validation:
        raise UserError(f"{cfg.name} comes with its own validation images: leave validation unset")
    return source.validation[source.train.labels_of(source.validation) != UNKNOWN]


def _with_pool(
    record: SplitRecord, full: Source, known: tuple[int, ...], cfg: DataConfig, *, keep_labeled: bool
) -> SplitRecord:
    """The record with the pool of an open-set study, drawn unless it has one."""
    names = tuple(full.class_names[label] for label in known)
    if record.pool:
        if (record.out_of_class, record.known_classes) != (cfg.out_of_class, names):
            raise UserError(
                f"the split was made with out_of_class={record.out_of_class} and the known classes "
                f"{','.join(record.known_classes)}: ask for the same, or draw a new split"
            )
        return record
    if not known:
        return record
    assert cfg.out_of_class is not None
    taken = torch.tensor(record.validation if keep_labeled else record.validation + record.labeled).long()
    taken = torch.cat([taken, relatives(full.groups, torch.tensor(record.validation).long())])
    pool = choose_pool(full, known, share=cfg.out_of_class, taken=taken, fold=record.fold)
    share = float(cfg.out_of_class)
    return replace(record, out_of_class=share, known_classes=names, pool=tuple(pool.tolist()))


def _bounded(record: SplitRecord, source: Source, cfg: DataConfig, *, all_labels: bool) -> SplitRecord:
    """The record with a pool of the size asked for, drawn unless it has one."""
    assert cfg.pool is not None
    if record.pool:
        if len(record.pool) != cfg.pool:
            raise UserError(
                f"the split has a pool of {len(record.pool)} images, not of {cfg.pool}: ask for the same, or "
                "draw a new split"
            )
        return record
    pool, _ = _whole_pool(source, record, cfg)
    always = torch.tensor(record.labeled if cfg.include_labeled and not all_labels else ()).long()
    chosen = choose_some(pool, cfg.pool, always=always, total=len(source.train))
    return replace(record, pool=tuple(chosen.tolist()))


def _from_file(
    cfg: DataConfig, source: Source, content_hash: str, *, wanted: int | None, all_labels: bool
) -> SplitRecord:
    """The record of a user's split file, with all labels but those of its validation images if wanted."""
    assert cfg.split is not None
    where = f"split file {cfg.split}"
    record = _follow(SplitRecord.from_json(Path(cfg.split).expanduser()), source, content_hash, where=where)
    if cfg.validation and not record.validation:
        raise UserError(
            f"{where} sets no validation images aside: leave validation at 0, or draw a new split"
        )
    if all_labels:
        rows = choose_labeled(
            source, None, fold=record.fold, validation=torch.tensor(record.validation).long()
        )
        return replace(record, labeled=tuple(rows.tolist()))
    if wanted not in (None, record.labels):
        raise UserError(
            f"{where} has {record.labels} labeled images, but {wanted} labels are asked for: drop one"
        )
    return record


def _follow(record: SplitRecord, source: Source, content_hash: str, *, where: str) -> SplitRecord:
    """The record, if it fits the data."""
    if record.content_hash not in ("", content_hash):
        raise UserError(
            f"{where} was made for other data (content {record.content_hash[:8]}, here {content_hash[:8]}): "
            "use the data it was made for, or draw a new split"
        )
    labels = source.train.labels_of().tolist()
    seen: dict[int, str] = {}
    for kind, rows in (("labeled", record.labeled), ("validation", record.validation)):
        for row in rows:
            if not 0 <= row < len(labels):
                raise UserError(f"{where}: {kind} row {row} is outside the {len(labels)} training images")
            if row in seen:
                raise UserError(
                    f"{where}: row {row} is listed as {seen[row]} and again as {kind}; list it once"
                )
            if labels[row] == UNKNOWN:
                raise UserError(
                    f"{where}: {kind} row {row} is an image without a label; remove it from the list"
                )
            seen[row] = kind
    labeled, validation = (torch.tensor(rows).long() for rows in (record.labeled, record.validation))
    if torch.isin(labeled, relatives(source.groups, validation)).any():
        raise UserError(f"{where}: labeled and validation rows share a group; keep each group on one side")
    if record.pool and not 0 <= record.pool[0] <= record.pool[-1] < len(labels):
        raise UserError(f"{where}: a row of its pool is outside the {len(labels)} training images")
    if not record.labeled:
        raise UserError(f"{where} lists no labeled images; list at least one")
    return record


def _divide(source: Source, record: SplitRecord, cfg: DataConfig) -> Split:
    """The parts that the record and the settings describe."""
    labeled, validation = (torch.tensor(rows).long() for rows in (record.labeled, record.validation))
    pool, told = torch.tensor(record.pool), list[str]()
    if not record.pool:
        pool, told = _whole_pool(source, record, cfg)
    imbalance = describe_imbalance(source.train.labels_of(labeled), source.num_classes)

    if cfg.image_size is not None:
        tests = {name: resize(images, cfg.image_size) for name, images in source.tests.items()}
        source = replace(source, train=resize(source.train, cfg.image_size), tests=tests)
    return Split(
        labeled=source.train.subset(labeled),
        unlabeled=source.train.subset(pool),
        validation=source.train.subset(validation) if len(validation) else None,
        tests=source.tests,
        num_classes=source.num_classes,
        class_names=source.class_names,
        class_weights=source.class_weights,
        mean=source.mean,
        std=source.std,
        record=record,
        notes=tuple(filter(None, [imbalance, *source.notes, *told])),
        groups=None if source.groups is None else Groups(source.groups[labeled], source.groups[pool]),
    )


def _whole_pool(source: Source, record: SplitRecord, cfg: DataConfig) -> tuple[Tensor, list[str]]:
    """All rows that may be in the pool, and what to tell about those that may not."""
    duplicates, told = _test_duplicates(source, keep=cfg.keep_test_duplicates)
    in_pool = torch.ones(len(source.train), dtype=torch.bool)
    in_pool[duplicates] = False
    for rows in (record.validation, () if cfg.include_labeled else record.labeled):
        in_pool[torch.tensor(rows).long()] = False
    related = relatives(source.groups, torch.tensor(record.validation).long())
    if number := int(in_pool[related].sum()):
        in_pool[related] = False
        told.append(f"{number:,} images of groups that are in validation are left out of the pool")
    return in_pool.nonzero().squeeze(1), told


def _test_duplicates(source: Source, *, keep: bool) -> tuple[Tensor, list[str]]:
    """Rows of unlabeled images that are also test images and so must go, and what to tell about them."""
    without_label = (source.train.labels_of() == UNKNOWN).nonzero().squeeze(1)
    if not len(without_label):
        return without_label, []
    test_hashes = {digest for images in source.tests.values() for digest in images.image_hashes()}
    is_test = torch.tensor(
        [digest in test_hashes for digest in source.train.subset(without_label).image_hashes()]
    )
    duplicates = without_label[is_test]
    if not len(duplicates):
        return duplicates, []
    note = f"{len(duplicates):,} unlabeled images that are byte-identical to test images"
    return (duplicates[:0], [f"kept {note}"]) if keep else (duplicates, [f"dropped {note}"])
