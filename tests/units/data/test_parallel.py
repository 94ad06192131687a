import threading

import pytest

from interlude.data.parallel import AHEAD, chunks, in_order


@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_the_order_of_the_pieces(threads):
    assert list(in_order(lambda piece: piece * 2, range(100), threads=threads)) == list(range(0, 200, 2))
    assert list(in_order(str, [], threads=threads)) == []


def test_work_does_not_run_far_ahead_of_who_takes_it():
    begun = []
    results = in_order(lambda piece: begun.append(piece), range(1000), threads=2)
    for _ in range(5):
        next(results)
    assert len(begun) <= 5 + 2 * AHEAD
    results.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_where_its_result_is_taken(threads):
    results = in_order(lambda piece: 1 // (piece - 3), range(50), threads=threads)
    assert [next(results) for _ in range(3)] == [-1, -1, -1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_threads_work_side_by_side():
    both = threading.Barrier(2, timeout=30)
    assert len(list(in_order(lambda piece: both.wait(), range(4), threads=2))) == 4


def test_chunks_hold_everything_once():
    assert list(chunks([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
    assert list(chunks([], 2)) == []
