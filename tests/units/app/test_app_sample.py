"""The random sample among the labels: its order, how far it reaches, its share of what is asked about."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from interlude.app import propose
from interlude.app.labels import Labels
from interlude.app.log import Log
from interlude.app.sample import Sample, random_order

PATHS = [f"{number:03d}.png" for number in range(120)]


def marked(*rows):
    found = np.zeros(len(PATHS), np.bool_)
    found[list(rows)] = True
    return found


@pytest.fixture
def sample():
    return Sample(PATHS, np.zeros(len(PATHS), np.bool_))


def test_the_order_is_the_same_for_the_same_files_and_that_of_the_others_when_one_comes():
    order = [PATHS[row] for row in random_order(PATHS)]
    again = [PATHS[row] for row in random_order(PATHS)]
    more = [*PATHS, "new.png"]
    with_new = [more[row] for row in random_order(more)]
    assert order == again == [path for path in with_new if path != "new.png"]
    assert sorted(order) == PATHS != order


def test_every_image_is_as_likely_to_come_early():
    counts = Counter()
    for folder in range(300):
        counts.update(random_order([f"{folder}/{path}" for path in PATHS[:6]])[:3].tolist())
    assert all(100 < counts[row] < 200 for row in range(6)), "expected 150, give or take 9"


def test_the_sample_ends_before_the_first_image_without_a_mark(sample):
    a, b, c, d, *_ = sample.order.tolist()
    assert sample.drawn(marked()).tolist() == []
    assert sample.drawn(marked(b, d)).tolist() == []
    assert sample.drawn(marked(a, b, d)).tolist() == [a, b]
    assert sample.drawn(marked(*range(120))).tolist() == sample.order.tolist()
    assert sample.waiting(marked(a, b, d))[0] == c


def test_the_sample_passes_over_files_that_cannot_be_read(sample):
    a, b, c, *_ = sample.order.tolist()
    sample.unreadable[b] = True
    assert sample.drawn(marked(a, c)).tolist() == [a, c]
    assert sample.waiting(marked(a))[0] == c


def test_what_was_chosen_and_marked_makes_the_sample_no_other_than_a_random_one():
    """Of a folder of which a third is easy, all easy ones chosen or not, a third of the sample is easy."""
    random = np.random.default_rng(0)
    shares = []
    for folder in range(400):
        sample = Sample([f"{folder}/{path}" for path in PATHS], np.zeros(120, np.bool_))
        easy = np.arange(120) < 40
        found = easy & (random.random(120) < 0.2)
        while len(drawn := sample.drawn(found)) < 12:
            found[sample.waiting(found)[0]] = True
        shares.append(easy[drawn].mean())
    assert np.mean(shares) == pytest.approx(1 / 3, abs=3 * np.std(shares) / 20 + 0.005)


@pytest.fixture
def proposer(tmp_path):
    labels = Labels(Log(tmp_path / "queue.sqlite"), PATHS)
    labels.add_classes(["a", "b"])
    points = np.random.default_rng(0).normal(size=(120, 2)).astype(np.float32)
    looks = SimpleNamespace(points=points, rows=lambda: np.arange(120), broken=np.zeros(120, np.bool_))
    yield propose.Proposer(labels, looks)
    labels.log.close()


def whys(proposals):
    return [proposal.why == "random" for proposal in proposals]


def sizes(proposer):
    found = proposer.labels.marks != -1
    return len(proposer.sample.drawn(found)), int(found.sum())


def test_every_second_proposal_is_the_next_of_the_random_order(proposer):
    found = proposer.next(8, set())
    assert whys(found) == [True, False] * 4
    assert [p.row for p in found if p.why == "random"] == proposer.sample.order[:4].tolist()
    assert len({p.row for p in found}) == 8


def test_what_the_page_has_ahead_counts_as_if_it_were_answered(proposer):
    first = proposer.next(5, set())
    assert proposer.next(5, {p.row for p in first}) == proposer.next(10, set())[5:]


def test_an_undo_takes_the_image_out_of_the_sample_and_proposes_it_again(proposer):
    before = proposer.next(4, set())
    proposer.labels.mark([before[0].row], 0)
    assert sizes(proposer) == (1, 1)
    proposer.labels.undo()
    assert sizes(proposer) == (0, 0)
    assert proposer.next(4, set()) == before


def test_whoever_answers_only_chosen_images_is_asked_about_random_ones_alone_in_the_end(proposer):
    for _ in range(12):
        found = proposer.next(6, set())
        chosen = [p.row for p in found if p.why != "random"]
        if not chosen:
            break
        proposer.labels.mark(chosen, 0)
    assert whys(proposer.next(6, set())) == [True] * 6


def test_the_share_holds_among_answers_whatever_is_marked_besides(proposer):
    proposer.labels.mark(list(range(30)), 1)  # on the screen Look, say
    for _ in range(25):
        proposer.labels.mark([proposer.next(1, set())[0].row], 0)
    size, total = sizes(proposer)
    assert abs(2 * size - total) <= 2


def test_labels_from_before_do_not_call_for_more_random_images(proposer):
    proposer.labels.read_in(dict.fromkeys(proposer.sample.order[60:110].tolist(), "a"), "folder")
    assert whys(proposer.next(6, set())) == [True, False] * 3


def test_chosen_images_take_no_notice_of_the_sample(proposer):
    """Where an image of the sample lies changes no choice: held out, it is like a new image."""
    first = proposer.sample.order[:10]
    found = []
    for shift in (0, 50):
        proposer.looks.points[first] += shift
        proposer.labels.mark(first.tolist(), 0)
        proposer.learn(None, None)
        proposer._queue = []
        found.append([p.row for p in proposer.next(20, set()) if p.why != "random"])
    assert found[0] == found[1]
