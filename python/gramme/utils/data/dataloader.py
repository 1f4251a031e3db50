# SPDX-License-Identifier: Apache-2.0
"""DataLoader: batches of a data set, made by the caller or by workers.

Workers are threads: what they share needs no pipes, and reading, decompression and tensor functions
let each other run.  Batches come in the order of the sampler, whoever made them, and an error is
raised where its batch would have come.
"""

import collections
import threading
from types import GenericAlias

import gramme
from gramme.utils.data.collate import default_collate, default_convert
from gramme.utils.data.dataset import IterableDataset
from gramme.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler

_here = threading.local()


class WorkerInfo:
    """What get_worker_info() returns: id, num_workers, seed, dataset."""

    def __init__(self, id, num_workers, seed, dataset):
        self.id, self.num_workers, self.seed, self.dataset = id, num_workers, seed, dataset


def get_worker_info():
    """Which worker of a loader this is; None in the caller."""
    return getattr(_here, "info", None)


class _Everything:
    """The order of an iterable data set: there are no numbers."""

    def __iter__(self):
        while True:
            yield None


class DataLoader:
    """DataLoader(dataset, batch_size=1, shuffle=False, ...): iterating gives batches of samples, as
    torch's does.

    sampler or batch_sampler give another order; batch_size None gives samples as they are.
    collate_fn makes a batch of a list of samples.  drop_last leaves out a last batch that is
    shorter.  num_workers threads make batches ahead, prefetch_factor each; worker_init_fn (id) runs
    in each.  generator draws the order.  timeout, in seconds: how long a batch may take; 0: for
    ever.
    pin_memory, multiprocessing_context, persistent_workers and in_order change nothing: batches
    always come in order.
    """

    __class_getitem__ = classmethod(GenericAlias)  # DataLoader[Tensor] says what its batches are

    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=None,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        collate_fn=None,
        pin_memory=False,
        drop_last=False,
        timeout=0,
        worker_init_fn=None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_factor=None,
        persistent_workers=False,
        pin_memory_device="",
        in_order=True,
    ):
        if num_workers < 0 or timeout < 0:
            raise ValueError("num_workers and timeout are not below 0")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor is for workers, and num_workers is 0")
        if sampler is not None and shuffle:
            raise ValueError("a sampler is an order already: give it, or shuffle")
        if batch_sampler is not None and (
            batch_size != 1 or shuffle or sampler is not None or drop_last
        ):
            raise ValueError(
                "a batch_sampler stands for batch_size, shuffle, sampler and drop_last"
            )
        if batch_size is None and drop_last:
            raise ValueError("without batches (batch_size=None) there is no last one to drop")
        iterable = isinstance(dataset, IterableDataset)
        if iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError(
                "an IterableDataset has an order of its own: no shuffle, sampler or batch_sampler"
            )
        if batch_sampler is not None:
            batch_size = None
        elif sampler is None:
            sampler = (
                _Everything()
                if iterable
                else RandomSampler(dataset, generator=generator)
                if shuffle
                else SequentialSampler(dataset)
            )
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset, self.batch_size, self.sampler, self.batch_sampler = (
            dataset,
            batch_size,
            sampler,
            batch_sampler,
        )
        self.num_workers, self.drop_last, self.timeout, self.worker_init_fn = (
            num_workers,
            drop_last,
            timeout,
            worker_init_fn,
        )
        self.generator, self.pin_memory, self.persistent_workers = (
            generator,
            pin_memory,
            persistent_workers,
        )
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.collate_fn = collate_fn or (
            default_convert if batch_sampler is None else default_collate
        )
        self._iterable = iterable

    @property
    def _order(self):
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self):
        if not self._iterable:
            return len(self._order)
        n = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self):
        if self.num_workers:
            return iter(_Workers(self))
        if self._iterable:
            return self._stream()
        return (self._fetch(which) for which in self._order)

    def _fetch(self, which):
        """The batch, or sample, of what the order gives."""
        if self.batch_sampler is None:
            return self.collate_fn(self.dataset[which])
        several = getattr(self.dataset, "__getitems__", None)
        return self.collate_fn(several(which) if several else [self.dataset[i] for i in which])

    def _stream(self):
        """Batches, or samples, of an iterable data set."""
        if self.batch_size is None:
            yield from map(self.collate_fn, self.dataset)
            return
        batch = []
        for sample in self.dataset:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.collate_fn(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.collate_fn(batch)


class _Workers:
    """Threads that make batches ahead of who asks.  Task i is worker i % n's; results are handed
    out by the tasks' order."""

    def __init__(self, loader):
        self.loader, self.n = loader, loader.num_workers
        self.changed = threading.Condition()
        self.tasks = [
            collections.deque() for _ in range(self.n)
        ]  # of each worker: (number, what to fetch)
        self.results = {}  # number -> ("batch", it), ("error", it) or ("end", None)
        self.ended = set()  # workers whose stream has no more
        self.stopped = False

    def __iter__(self):
        loader = self.loader
        seed = gramme.randint(0, 2**62, (1,), generator=loader.generator).item()
        threads = [
            threading.Thread(target=self._work, args=(i, seed + i), daemon=True)
            for i in range(self.n)
        ]
        for thread in threads:
            thread.start()
        return self._hand_out(iter(loader._order))

    def _hand_out(self, order):
        given = taken = 0
        ahead = self.n * self.loader.prefetch_factor
        more = True
        try:
            while True:
                while more and given - taken < ahead:
                    try:
                        which = next(order)
                    except StopIteration:
                        more = False
                        break
                    with self.changed:
                        if self.loader._iterable and len(self.ended) == self.n:
                            more = False
                            break
                        self.tasks[given % self.n].append((given, which))
                        self.changed.notify_all()
                    given += 1
                if taken == given:
                    return
                kind, value = self._take(taken)
                taken += 1
                if kind == "error":
                    raise value
                if kind == "batch":
                    yield value
        finally:
            with self.changed:
                self.stopped = True
                self.changed.notify_all()

    def _take(self, number):
        with self.changed:
            if not self.changed.wait_for(
                lambda: number in self.results, self.loader.timeout or None
            ):
                raise RuntimeError(
                    f"a worker of the DataLoader took more than {self.loader.timeout} s for batch "
                    f"{number}"
                )
            return self.results.pop(number)

    def _work(self, i, seed):
        import copy

        loader = self.loader
        stream = None
        try:
            dataset = copy.copy(loader.dataset) if loader._iterable else loader.dataset
            _here.info = WorkerInfo(i, self.n, seed, dataset)
            if loader._iterable:
                mine = copy.copy(loader)
                mine.dataset = dataset
                stream = mine._stream()
            if loader.worker_init_fn is not None:
                loader.worker_init_fn(i)
            failed = None
        except BaseException as error:
            failed = error
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.stopped or self.tasks[i])
                if self.stopped:
                    return
                number, which = self.tasks[i].popleft()
            try:
                if failed is not None:
                    raise failed
                result = "batch", next(stream) if stream is not None else loader._fetch(which)
            except StopIteration as error:
                result = (
                    ("end", None)
                    if stream is not None
                    else ("error", RuntimeError(f"the data set raised {error!r}"))
                )
            except BaseException as error:
                result = "error", error
            with self.changed:
                if result[0] == "end":
                    self.ended.add(i)
                self.results[number] = result
                self.changed.notify_all()
