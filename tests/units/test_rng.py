import subprocess
import sys
import timeit

import torch

from interlude import rng


def test_keys_never_change():
    assert rng.key(0) == 6450899586159507901
    assert rng.key(7, "weak", 3) == 5848382689291818679


def test_keys_are_the_same_in_another_process():
    command = [sys.executable, "-c", "from interlude import rng; print(rng.key(7, 'weak', 3))"]
    assert int(subprocess.run(command, capture_output=True, check=True, text=True).stdout) == rng.key(
        7, "weak", 3
    )


def test_keys_fit_63_bits_and_use_them():
    keys = [rng.key(0, number) for number in range(1000)]
    assert all(0 <= key < 2**63 for key in keys)
    assert max(keys) > 2**62


def test_every_word_and_its_place_count():
    words = [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, "1"), (0, "a", "b"), (0, "ab"), (0, "b", "a"), (0, -1)]
    assert len({rng.key(*some) for some in words}) == len(words)


def test_generators_of_equal_words_draw_alike():
    first, second = (torch.rand(4, generator=rng.generator(3, "strong", 9)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, torch.rand(4, generator=rng.generator(3, "strong", 10)))


def test_a_seeded_step_repeats_what_the_network_draws():
    draws = []
    for step in (5, 6, 5):
        rng.seed(1, step)
        draws.append(torch.rand(4))
    assert torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], draws[1])


def test_seeding_a_step_costs_microseconds():
    seconds = min(timeit.repeat(lambda: rng.seed(0, 1), number=1000, repeat=5)) / 1000
    assert seconds < 50e-6, f"{seconds * 1e6:.1f} microseconds; torch.manual_seed takes hundreds"
