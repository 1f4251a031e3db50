# SPDX-License-Identifier: Apache-2.0
"""gramme.utils.data: data sets, samplers, collation and loaders; batches are the same whoever makes
them."""

import collections
import threading
import time

import numpy as np
import pytest

import gramme
from gramme.utils import data


class Squares(data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if not 0 <= i < self.n:
            raise IndexError(i)
        return i * i


class Counter(data.IterableDataset):
    """0 ... n - 1, shared between the workers."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = data.get_worker_info()
        return (
            iter(range(self.n)) if info is None else iter(range(info.id, self.n, info.num_workers))
        )


def lists(loader):
    return [batch.tolist() for batch in loader]


def test_batches_are_stacked_in_order_and_the_last_may_be_short():
    x, y = gramme.arange(14.0).reshape(7, 2), gramme.arange(7)
    loader = data.DataLoader(data.TensorDataset(x, y), batch_size=3)
    batches = list(loader)
    assert len(loader) == len(batches) == 3 and type(batches[0]) is list
    gramme.testing.assert_bits_equal(gramme.cat([b[0] for b in batches]), x)
    assert [b[1].tolist() for b in batches] == [[0, 1, 2], [3, 4, 5], [6]]
    dropped = data.DataLoader(Squares(7), batch_size=3, drop_last=True)
    assert len(dropped) == 2 and lists(dropped) == [[0, 1, 4], [9, 16, 25]]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_seed_gives_one_order_whoever_makes_the_batches(workers):
    def epochs():
        generator = gramme.Generator().manual_seed(5)
        loader = data.DataLoader(
            Squares(10), batch_size=4, shuffle=True, generator=generator, num_workers=workers
        )
        return [lists(loader), lists(loader)]

    first, second = epochs()
    assert sorted(sum(first, [])) == [i * i for i in range(10)] and first != second
    assert epochs() == [first, second]
    if workers == 0:
        order = gramme.randperm(10, generator=gramme.Generator().manual_seed(5)).tolist()
        assert sum(first, []) == [i * i for i in order]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_keep_the_order_even_if_the_first_are_slow(workers):
    class Slow(Squares):
        def __getitem__(self, i):
            time.sleep(0.02 if i < 4 else 0)
            return super().__getitem__(i)

    loader = data.DataLoader(Slow(12), batch_size=2, num_workers=workers, prefetch_factor=3)
    assert lists(loader) == [[a * a, (a + 1) ** 2] for a in range(0, 12, 2)]


def test_workers_know_who_they_are_and_run_ahead():
    seen = set()

    class Who(Squares):
        def __getitem__(self, i):
            info = data.get_worker_info()
            seen.add(
                (
                    info.id,
                    info.num_workers,
                    threading.current_thread() is not threading.main_thread(),
                )
            )
            return i

    begun = []
    loader = data.DataLoader(Who(8), batch_size=2, num_workers=2, worker_init_fn=begun.append)
    assert lists(loader) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert seen == {(0, 2, True), (1, 2, True)} and sorted(begun) == [0, 1]
    assert data.get_worker_info() is None


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_is_raised_in_the_place_of_its_batch(workers):
    class Bad(Squares):
        def __getitem__(self, i):
            if i == 5:
                raise KeyError("sample 5")
            return i

    got = []
    with pytest.raises(KeyError, match="sample 5"):
        for batch in data.DataLoader(Bad(8), batch_size=2, num_workers=workers):
            got.append(batch.tolist())
    assert got == [[0, 1], [2, 3]]


def test_a_batch_that_takes_too_long_is_an_error():
    class Stuck(Squares):
        def __getitem__(self, i):
            time.sleep(0.5)
            return i

    with pytest.raises(RuntimeError, match="more than 0.05 s for batch 0"):
        list(data.DataLoader(Stuck(2), num_workers=1, timeout=0.05))


def test_a_loader_that_is_left_early_ends_its_threads():
    before = threading.active_count()
    for batch in data.DataLoader(Squares(100), num_workers=3):
        break
    del batch
    for _ in range(100):
        if threading.active_count() <= before:
            break
        time.sleep(0.02)
    assert threading.active_count() <= before


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_iterable_data_sets_are_read_to_their_end(workers):
    loader = data.DataLoader(Counter(10), batch_size=2, num_workers=workers)
    assert sorted(sum(lists(loader), [])) == list(range(10))
    assert list(data.DataLoader(Counter(4), batch_size=None)) == [0, 1, 2, 3]
    assert list(data.DataLoader(Counter(3) + Counter(2), batch_size=None)) == [0, 1, 2, 0, 1]


def test_samples_are_collated_place_by_place():
    Pair = collections.namedtuple("Pair", "a b")
    collate = data.default_collate
    a = collate([{"x": gramme.ones(2), "n": 1, "s": "p"}, {"x": gramme.zeros(2), "n": 2, "s": "q"}])
    assert (
        a["x"].tolist() == [[1, 1], [0, 0]]
        and a["n"].dtype == gramme.int64
        and a["s"] == ["p", "q"]
    )
    p = collate([Pair(1.5, (np.float32(1), True)), Pair(2.5, (np.float32(2), False))])
    assert type(p) is Pair and p.a.dtype == gramme.float64 and type(p.b) is list
    assert p.b[0].dtype == gramme.float32 and p.b[1].tolist() == [True, False]
    assert collate([np.arange(3), np.arange(3)]).shape == (2, 3)
    with pytest.raises(TypeError, match="give a collate_fn"):
        collate([object()])
    with pytest.raises(RuntimeError, match="2, 1"):
        collate([[1, 2], [1]])


def test_data_sets_are_joined_cut_and_split():
    both = Squares(3) + Squares(2)
    assert [both[i] for i in range(-5, 5)] == [0, 1, 4, 0, 1] * 2 and len(both) == 5
    with pytest.raises(IndexError):
        both[5]
    assert list(data.Subset(Squares(9), [8, 2])) == [64, 4]
    stacked = data.StackDataset(a=Squares(3), b=both.datasets[0])
    assert stacked[2] == {"a": 4, "b": 4} and len(stacked) == 3
    parts = data.random_split(range(10), [0.5, 0.3, 0.2], gramme.Generator().manual_seed(1))
    assert [len(p) for p in parts] == [5, 3, 2] and sorted(i for p in parts for i in p) == list(
        range(10)
    )
    assert [len(p) for p in data.random_split(range(10), [1 / 3] * 3)] == [4, 3, 3]
    with pytest.raises(ValueError, match="add up to 9"):
        data.random_split(range(10), [4, 5])


def test_samplers_draw_what_they_say():
    assert len(list(data.RandomSampler(range(3), num_samples=7))) == 7
    assert set(data.RandomSampler(range(3), replacement=True, num_samples=50)) == {0, 1, 2}
    assert sorted(data.SubsetRandomSampler([4, 7, 9])) == [4, 7, 9]
    assert set(data.WeightedRandomSampler([0.0, 1.0, 0.0], 5)) == {1}
    assert list(data.BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    own = data.DataLoader(Squares(6), batch_sampler=[[5, 0], [1]])
    assert lists(own) == [[25, 0], [1]]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"shuffle": True, "sampler": [0]}, "sampler"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "stands for"),
        ({"num_workers": -1}, "below 0"),
        ({"batch_size": 0}, "positive"),
        ({"prefetch_factor": 2}, "num_workers is 0"),
    ],
)
def test_options_that_contradict_each_other_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        data.DataLoader(Squares(2), **options)
