"""The estimator keeps scikit-learn's conventions, and learns from images, files and tables alike."""

import pickle

import numpy as np
import pandas
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from interlude import InterludeClassifier, UserError, estimator
from interlude.errors import NotFinite, RunError
from interlude.samples import read_labels

QUICK = {"steps": 20, "batch": 8, "mu": 2, "random_state": 0}
PICTURES = {**QUICK, "steps": 5, "settings": {"optimizer.rate": 0.1}}


def table(count=60, *, classes=3, labels=4, seed=0):
    """Rows around a centre for each class, the few labels that are known, and all labels."""
    truth = np.arange(count) % classes
    rows = 6 * np.eye(classes)[truth] + np.random.default_rng(seed).normal(size=(count, classes))
    return rows, np.where(np.arange(count) < labels * classes, truth, -1), truth


def stripes(count=24, *, side=8, channels=1):
    """Images with lying stripes, class 0, and with standing ones, class 1."""
    truth = np.arange(count) % 2
    images = np.random.default_rng(0).integers(0, 60, (count, side, side, channels), dtype=np.uint8)
    images[0::2, 0::4] += 180
    images[0::2, 1::4] += 180
    images[1::2, :, 0::4] += 180
    images[1::2, :, 1::4] += 180
    return images, np.where(np.arange(count) < 8, truth, -1), truth


def test_parameters_are_kept_as_they_are_given():
    settings = {"optimizer.rate": 0.1}
    classifier = InterludeClassifier(steps=7, settings=settings)
    assert classifier.get_params()["settings"] is settings
    assert clone(classifier).set_params(mu=3).get_params() == {**classifier.get_params(), "mu": 3}


def test_a_table_is_learned_and_rows_without_labels_get_one():
    rows, labels, truth = table()
    classifier = InterludeClassifier(**QUICK).fit(rows, labels)
    fresh, _, fresh_truth = table(seed=1)
    assert classifier.score(fresh, fresh_truth) > 0.9
    assert (classifier.transduction_ == truth).mean() > 0.9
    assert classifier.n_features_in_ == 3
    assert classifier.n_iter_ == 20


def test_a_given_label_stays_even_where_the_prediction_is_another():
    rows, labels, truth = table(labels=8)
    labels[0] = 2
    classifier = InterludeClassifier(**QUICK).fit(rows, labels)
    assert classifier.predict(rows)[0] == truth[0] == 0
    assert classifier.transduction_[0] == 2


def test_unlabeled_rows_bend_the_boundary_between_moons():
    rows, truth = make_moons(300, noise=0.08, random_state=0)
    labels = np.full(300, -1)
    for label in (0, 1):
        labels[np.flatnonzero(truth == label)[:4]] = label
    known = labels != -1
    with_pool = InterludeClassifier(steps=120, random_state=0).fit(rows, labels)
    without = InterludeClassifier(steps=120, random_state=0).fit(rows[known], labels[known])
    assert with_pool.score(rows, truth) > without.score(rows, truth) + 0.02


def test_the_scale_of_a_column_does_not_matter():
    rows, labels, _ = table()
    plain = InterludeClassifier(**QUICK).fit(rows, labels).predict_proba(rows)
    moved = rows * [1e-6, 1.0, 1e4] + [0.0, 1e6, -1e8]
    again = InterludeClassifier(**QUICK).fit(moved, labels).predict_proba(moved)
    assert np.allclose(plain, again, atol=1e-3)


def test_unlabeled_samples_may_be_given_apart():
    rows, labels, _ = table()
    known = labels != -1
    apart = InterludeClassifier(**QUICK).fit(rows[known], labels[known], unlabeled=rows[~known])
    among = InterludeClassifier(**QUICK).fit(rows, labels)
    assert np.array_equal(apart.predict_proba(rows), among.predict_proba(rows))
    assert len(apart.transduction_) == known.sum()


@pytest.mark.parametrize(
    "unknown", [-1, "-1", "", None, np.nan], ids=["number", "text", "empty", "None", "NaN"]
)
def test_labels_may_be_words_with_any_mark_for_the_unlabeled(unknown):
    classes, codes = read_labels(["dog", unknown, "cat", "dog"])
    assert classes.tolist() == ["cat", "dog"]
    assert codes.tolist() == [1, -1, 0, 1]


def test_numbers_take_nan_for_unlabeled_and_objects_none():
    for labels in (np.array([3.0, np.nan, 5.0]), np.array([3, None, 5], dtype=object)):
        classes, codes = read_labels(labels)
        assert classes.tolist() == [3, 5]
        assert codes.tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [([-1, -1], "no labels"), ([4, -1, 4], "only one class, 4"), ([0.5, 1.5, 2.5], "continuous")],
)
def test_labels_that_teach_nothing_are_refused(labels, complaint):
    with pytest.raises(ValueError, match=complaint):
        read_labels(labels)


def test_an_integer_state_decides_everything_and_another_one_differs():
    rows, labels, _ = table()
    first, same = (InterludeClassifier(**QUICK).fit(rows, labels).predict_proba(rows) for _ in range(2))
    other = InterludeClassifier(**{**QUICK, "random_state": 1}).fit(rows, labels).predict_proba(rows)
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


def test_fitting_leaves_the_random_numbers_and_threads_of_torch_alone():
    rows, labels, _ = table()
    torch.set_num_threads(2)
    before = torch.get_rng_state()
    InterludeClassifier(**QUICK).fit(rows, labels)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("kind", ["table", "images"])
def test_a_pickled_classifier_says_the_same(kind):
    samples, labels, _ = table() if kind == "table" else stripes()
    classifier = InterludeClassifier(**QUICK).fit(samples, labels)
    again = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(again.predict_proba(samples), classifier.predict_proba(samples))


def test_images_are_learned():
    images, labels, truth = stripes()
    classifier = InterludeClassifier(**{**PICTURES, "steps": 40}).fit(images, labels)
    assert classifier.score(images, truth) > 0.9
    assert not hasattr(classifier, "n_features_in_")


def test_images_come_in_arrays_of_any_order():
    images, labels, _ = stripes()
    arrays = [images, images[..., 0], images.transpose(0, 3, 1, 2), torch.from_numpy(images), list(images)]
    found = [InterludeClassifier(**PICTURES).fit(array, labels).transduction_ for array in arrays]
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_files_pictures_and_arrays_give_the_same_classifier(tmp_path):
    images, labels, _ = stripes(channels=3)
    pictures = [Image.fromarray(image) for image in images]
    files = [tmp_path / f"{number}.png" for number in range(len(images))]
    for file, picture in zip(files, pictures, strict=True):
        picture.save(file)
    found = [
        InterludeClassifier(**PICTURES, image_size=12).fit(samples, labels).predict_proba(pictures)
        for samples in (images, pictures, files, list(map(str, files)))
    ]
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_pictures_of_many_sizes_are_brought_to_one():
    images, labels, _ = stripes(side=16)
    pictures = [Image.fromarray(image[..., 0]) for image in images]
    pictures[0] = pictures[0].resize((20, 40))
    classifier = InterludeClassifier(**PICTURES, image_size=8).fit(pictures, labels, unlabeled=images)
    assert classifier.predictor_.image_size == (8, 8)
    assert classifier.predictor_.channels == 1
    assert classifier.predict_proba(pictures).shape == (24, 2)


def test_an_unreadable_file_is_named(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"broken\.png cannot be used"):
        InterludeClassifier(**QUICK).fit([tmp_path / "broken.png"] * 2, [0, 1])


def test_labels_and_images_must_be_as_many():
    images, labels, _ = stripes()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        InterludeClassifier(**QUICK).fit(images, labels[:-1])


def test_unlabeled_images_of_another_size_need_an_image_size():
    images, _, _ = stripes()
    wide = np.zeros((4, 8, 12, 1), np.uint8)
    with pytest.raises(UserError, match="another size than X; give an image_size"):
        InterludeClassifier(**QUICK).fit(wide, [0, 1, -1, -1], unlabeled=images)


def test_a_method_that_needs_pixels_is_refused_for_tables():
    rows, labels, _ = table()
    with pytest.raises(UserError, match="fixmatch-saa cannot learn from rows of a table"):
        InterludeClassifier(**QUICK, method="fixmatch-saa").fit(rows, labels)


def test_an_unknown_head_is_told_with_those_there_are():
    rows, labels, _ = table()
    with pytest.raises(UserError, match="unknown model of tables 'cnn'; choose from linear, mlp"):
        InterludeClassifier(**QUICK, model="cnn").fit(rows, labels)


def test_settings_reach_the_run_and_come_last(monkeypatch):
    rows, labels, _ = table()
    seen, learn = [], estimator.learn
    monkeypatch.setattr(estimator, "learn", lambda cfg, *a, **k: seen.append(cfg) or learn(cfg, *a, **k))
    settings = {"method.alpha": 0.3, "labels_first": 2, "batch": 5}
    InterludeClassifier(**{**QUICK, "steps": 3}, settings=settings).fit(rows, labels)
    assert (seen[0].method.alpha, seen[0].labels_first, seen[0].batch, seen[0].steps) == (0.3, 2, 5, 3)


def test_a_loss_that_is_no_number_is_an_error_with_a_cure(monkeypatch):
    def fail(self):
        raise NotFinite("the loss term 'delta' became nan at step 3")

    monkeypatch.setattr("interlude.journal.Meter.drain", fail)
    rows, labels, _ = table()
    with pytest.raises(RunError, match=r"at step 3; a lower optimizer\.rate"):
        InterludeClassifier(**QUICK).fit(rows, labels)


def test_pipelines_and_searches_take_it():
    rows, _, truth = table(30)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), InterludeClassifier(**{**QUICK, "steps": 3})),
        {"interludeclassifier__model": ["linear", "mlp"]},
        cv=2,
    )
    assert search.fit(rows, truth).best_params_["interludeclassifier__model"] in ("linear", "mlp")


def test_cross_validation_hands_the_unlabeled_rows_to_every_fit():
    rows, labels, truth = table()
    known = labels != -1
    classifier = InterludeClassifier(**QUICK)
    scores = cross_val_score(classifier, rows[known], truth[known], cv=2, params={"unlabeled": rows[~known]})
    assert scores.min() > 0.9


def test_data_frames_and_their_missing_labels_are_understood():
    rows, labels, truth = table(30)
    frame = pandas.DataFrame(rows, columns=["a", "b", "c"])
    words = pandas.Series(np.array(["x", "y", "z"])[truth]).where(labels != -1)
    classifier = InterludeClassifier(**QUICK).fit(frame, words)
    assert classifier.classes_.tolist() == ["x", "y", "z"]
    assert classifier.feature_names_in_.tolist() == ["a", "b", "c"]
    assert classifier.predict(frame)[:3].tolist() == ["x", "y", "z"]
    for missing in (pandas.Series([1, 2, None]), pandas.Series([1, 2, None], dtype="Int64")):
        assert read_labels(missing)[1].tolist() == [0, 1, -1]


def test_lists_of_arrays_and_of_names_are_judged_too(tmp_path):
    images, labels, _ = stripes()
    classifier = InterludeClassifier(**PICTURES).fit(images, labels)
    expected = classifier.predict_proba(images[:2])
    Image.fromarray(images[0, ..., 0]).save(tmp_path / "a.png")
    assert np.allclose(classifier.predict_proba(list(images[:2])), expected)
    assert np.allclose(classifier.predict_proba(np.array([str(tmp_path / "a.png")])), expected[:1])


def test_words_and_numbers_do_not_mix():
    with pytest.raises(UserError, match="both texts and numbers"):
        read_labels(["cat", 3, "dog"])


def test_a_classifier_fitted_again_to_images_forgets_the_columns():
    (rows, row_labels, _), (images, labels, _) = table(), stripes()
    classifier = InterludeClassifier(**PICTURES).fit(rows, row_labels).fit(images, labels)
    assert not hasattr(classifier, "n_features_in_")
