# SPDX-License-Identifier: Apache-2.0
"""UntypedStorage: the memory that a tensor and its views share, as bytes; TypedStorage: the same as
elements."""

from gramme._core import Tensor


class UntypedStorage:
    """What Tensor.untyped_storage() gives; it keeps the memory alive.

    Two are equal if they are the same memory.  len() and nbytes() count bytes, storage[i] reads or
    writes one of them, a number from 0 to 255.
    """

    def __init__(self, tensor):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"UntypedStorage() takes a tensor, not {type(tensor).__name__}")
        self._tensor = tensor.detach()

    @property
    def _cdata(self):
        return self._tensor._storage_bytes()[1]

    @property
    def device(self):
        return self._tensor.device

    def _bytes(self):
        return self._tensor._storage_bytes()[0]

    def data_ptr(self):
        """The address of the first byte; 0 if there is none."""
        return self._bytes().data_ptr()

    def nbytes(self):
        return self._bytes().numel()

    size = __len__ = nbytes

    def element_size(self):
        return 1

    def resize_(self, size):
        """Makes it `size` bytes large, for all tensors that have it: they keep their elements.

        Errors: RuntimeError for fewer bytes than there are, as tensors may lie in them, and for
        memory of another library or device.
        """
        if size < self.nbytes():
            raise RuntimeError(
                f"the storage has {self.nbytes()} bytes, in which tensors may lie, and cannot be "
                f"made smaller ({size}); drop the tensors"
            )
        self._tensor._storage_grow(size)
        return self

    def tolist(self):
        """All bytes, as numbers."""
        return self._bytes().tolist()

    def clone(self):
        """A copy in memory of its own."""
        return UntypedStorage(self._bytes().clone())

    def cpu(self):
        """The same bytes on the CPU: itself, if it is there."""
        return self if self.device.type == "cpu" else UntypedStorage(self._bytes().cpu())

    def copy_(self, source, non_blocking=None):
        """Writes the bytes of another storage of this size."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(f"a storage of {self.nbytes()} bytes cannot take {source.nbytes()}")
        self._bytes().copy_(source._bytes())
        return self

    def fill_(self, value):
        """Writes one number into all bytes."""
        self._bytes().fill_(value)
        return self

    def is_shared(self):
        return False

    is_pinned = is_shared

    def __getitem__(self, index):
        return (
            self._bytes()[index].item()
            if not isinstance(index, slice)
            else UntypedStorage(self._bytes()[index].clone())
        )

    def __setitem__(self, index, value):
        self._bytes()[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def __eq__(self, other):
        return self._cdata == other._cdata if isinstance(other, UntypedStorage) else NotImplemented

    def __hash__(self):
        return hash(self._cdata)

    def __repr__(self):
        return f"[gramme.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


def untyped_storage(input):
    """The memory that the tensor lies in: an UntypedStorage, which its views and aliases share."""
    return UntypedStorage(input)


class TypedStorage:
    """The result of Tensor.storage(): the tensor's memory as elements of its dtype, in their order
    there.

    len() and size() count elements, storage[i] reads or writes one; untyped() is the
    UntypedStorage.  It keeps the memory alive.
    """

    def __init__(self, tensor):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"TypedStorage() takes a tensor, not {type(tensor).__name__}")
        self._untyped, self.dtype = UntypedStorage(tensor), tensor.dtype

    @property
    def device(self):
        return self._untyped.device

    @property
    def _untyped_storage(self):
        return self._untyped

    def untyped(self):
        """The same memory as bytes."""
        return self._untyped

    def _elements(self):
        data = self._untyped._bytes()
        return data[: data.numel() // self.dtype.itemsize * self.dtype.itemsize].view(
            dtype=self.dtype
        )

    def data_ptr(self):
        """The address of the first element; 0 if there is none."""
        return self._untyped.data_ptr()

    def nbytes(self):
        return self._untyped.nbytes()

    def element_size(self):
        return self.dtype.itemsize

    def size(self):
        return self._untyped.nbytes() // self.dtype.itemsize

    __len__ = size

    def tolist(self):
        """All elements, as numbers."""
        return self._elements().tolist()

    def fill_(self, value):
        """Writes one number into all elements."""
        self._elements().fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        """Writes the elements of another storage of as many, cast."""
        self._elements().copy_(source._elements())
        return self

    def clone(self):
        """A copy in memory of its own."""
        return TypedStorage(self._elements().clone())

    def is_shared(self):
        return False

    is_pinned = is_shared

    def __getitem__(self, index):
        part = self._elements()[index]
        return TypedStorage(part.clone()) if isinstance(index, slice) else part.item()

    def __setitem__(self, index, value):
        self._elements()[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def __eq__(self, other):
        return (
            (self.dtype, self._untyped) == (other.dtype, other._untyped)
            if isinstance(other, TypedStorage)
            else NotImplemented
        )

    def __hash__(self):
        return hash(self._untyped)

    def __repr__(self):
        return (
            f"[gramme.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self.size()}]"
        )


def typed_storage(input):
    """The memory that the tensor lies in: a TypedStorage.  untyped_storage() is the newer form."""
    return TypedStorage(input)
