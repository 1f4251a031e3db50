# SPDX-License-Identifier: Apache-2.0
"""Data sets: what a loader takes samples from, by index or in order."""

import bisect
import itertools
import math
from types import GenericAlias

import gramme


class Dataset:
    """The base of data sets with numbered samples: subclasses define __getitem__ and, for most
    samplers, __len__."""

    __class_getitem__ = classmethod(GenericAlias)  # Dataset[Tensor] says what its samples are

    def __getitem__(self, index):
        raise NotImplementedError(f"{type(self).__name__} defines no __getitem__()")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """The base of data sets that only say what comes next: subclasses define __iter__.  With
    workers each of them iterates over a copy of its own; get_worker_info() tells it which it is."""

    def __getitem__(self, index):
        raise TypeError(f"{type(self).__name__} is an IterableDataset: its samples have no numbers")

    def __add__(self, other):
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """TensorDataset(*tensors): sample i is the tuple of their elements i; all have the same first
    size."""

    def __init__(self, *tensors):
        sizes = [tensor.size(0) for tensor in tensors]
        if len(set(sizes)) > 1:
            raise ValueError(
                f"the tensors of a TensorDataset have the same first size, not {sizes}"
            )
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """StackDataset(*datasets) or StackDataset(name=dataset ...): sample i is the tuple, or dict, of
    their samples i."""

    def __init__(self, *args, **kwargs):
        if bool(args) == bool(kwargs):
            raise ValueError("a StackDataset takes data sets either by place or by name")
        self.datasets = kwargs or args
        sizes = [len(dataset) for dataset in (kwargs.values() if kwargs else args)]
        if len(set(sizes)) > 1:
            raise ValueError(f"the data sets of a StackDataset are of one length, not {sizes}")
        self._length = sizes[0]

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self):
        return self._length


class ConcatDataset(Dataset):
    """ConcatDataset(datasets): one after the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("a ConcatDataset needs a data set at least")
        for dataset in self.datasets:
            if isinstance(dataset, IterableDataset):
                raise TypeError(
                    f"a ConcatDataset numbers its samples, and {type(dataset).__name__} has no "
                    "numbers: use ChainDataset"
                )
        self.cumulative_sizes = list(
            itertools.accumulate([len(dataset) for dataset in self.datasets])
        )

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, index):
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no sample {index} of {len(self)}")
        index %= len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset):
    """ChainDataset(datasets): iterates over one after the other."""

    def __init__(self, datasets):
        self.datasets = datasets

    def __iter__(self):
        for dataset in self.datasets:
            yield from dataset

    def __len__(self):
        return sum([len(dataset) for dataset in self.datasets])


class Subset(Dataset):
    """Subset(dataset, indices): those samples, in that order."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


def random_split(dataset, lengths, generator=None):
    """Subsets of random samples, each in one of them.  lengths: how many each gets, which add up to
    len (dataset); or fractions that add up to 1, and what rounding leaves goes to the first ones,
    one each.  Errors: ValueError."""
    n = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        if not all(0 <= fraction <= 1 for fraction in lengths):
            raise ValueError(f"fractions are between 0 and 1, not {list(lengths)}")
        sizes = [math.floor(n * fraction) for fraction in lengths]
        for i in range(n - sum(sizes)):
            sizes[i % len(sizes)] += 1
        lengths = sizes
    if sum(lengths) != n:
        raise ValueError(
            f"the lengths {list(lengths)} add up to {sum(lengths)}, and the data set has {n} "
            "samples"
        )
    order = gramme.randperm(n, generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, order[end - length : end]) for end, length in zip(ends, lengths)]
