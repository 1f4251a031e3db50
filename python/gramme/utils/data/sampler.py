# SPDX-License-Identifier: Apache-2.0
"""Samplers: the order in which a loader asks for samples."""

from types import GenericAlias

import gramme


class Sampler:
    """The base: subclasses define __iter__ over indices, and __len__ where it is known."""

    __class_getitem__ = classmethod(GenericAlias)  # Sampler[int] says what it gives

    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__()")


class SequentialSampler(Sampler):
    """SequentialSampler(data_source): 0, 1, 2 ..."""

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler):
    """RandomSampler(data_source, replacement=False, num_samples=None, generator=None): a new random
    order each time; with replacement each index is drawn by itself.  num_samples: as many as there
    are, if None; more go around again.
    """

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        if num_samples is not None and (
            not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0
        ):
            raise ValueError(f"num_samples is a positive int, not {num_samples!r}")
        self.data_source, self.replacement, self._num_samples, self.generator = (
            data_source,
            replacement,
            num_samples,
            generator,
        )

    @property
    def num_samples(self):
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        n, left = len(self.data_source), self.num_samples
        if self.replacement:
            while left > 0:  # a few at a time: there may be more than memory holds
                yield from gramme.randint(0, n, (min(left, 32),), generator=self.generator).tolist()
                left -= 32
            return
        while left > 0:
            yield from gramme.randperm(n, generator=self.generator).tolist()[:left]
            left -= n

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """SubsetRandomSampler(indices, generator=None): these indices, in a new random order each
    time."""

    def __init__(self, indices, generator=None):
        self.indices, self.generator = indices, generator

    def __iter__(self):
        for i in gramme.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """WeightedRandomSampler(weights, num_samples, replacement=True, generator=None): indices drawn
    in proportion to their weights."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples is a positive int, not {num_samples!r}")
        self.weights = gramme.as_tensor(weights, dtype=gramme.float64)
        if self.weights.dim() != 1:
            raise ValueError(
                f"weights are a list of numbers, and this has the shape {tuple(self.weights.shape)}"
            )
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self):
        return iter(
            gramme.multinomial(
                self.weights, self.num_samples, self.replacement, generator=self.generator
            ).tolist()
        )

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """BatchSampler(sampler, batch_size, drop_last): lists of indices; drop_last: without a last one
    that is shorter."""

    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size is a positive int, not {batch_size!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self):
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
