# SPDX-License-Identifier: Apache-2.0
"""The device "cuda": whether there is one, its memory, its streams, and waiting for it.

Nothing is looked for before the first question.  tensor.to("cuda") puts a tensor there.  All that a
thread asks of the device goes to its
current stream, in order: copies, single operators, compiled functions.  Two streams know of each
other only what events say; memory that one stream has taken and another one uses is kept for both
with record_stream()."""

from gramme import _core


def is_available():
    """Whether tensors can be put on device "cuda"; why_not() says what is missing."""
    return _core.cuda_available()[0]


def why_not():
    """What is missing, and what to install; an empty string if nothing is."""
    return _core.cuda_available()[1]


def device_count():
    """How many GPUs are used: one, or none."""
    return 1 if is_available() else 0


def init():
    """Opens the device, which its first use does too."""
    _core.cuda_name()


def is_initialized():
    """Whether the device has been opened."""
    return _core.cuda_is_open()


def synchronize(device=None):
    """Waits until all work of the device is done, and raises what failed in it."""
    _number(device)
    _core.cuda_synchronize()


# -- Which device ----------------------------------------------------------------------------------


def _number(device):
    """0, for all that names the one GPU that is used.  Errors: RuntimeError for another one,
    ValueError for the CPU."""
    if device is not None and _core.device(device).type != "cuda":
        raise ValueError(f"expected a cuda device, but got {device}")
    return 0


def current_device():
    """The number of the GPU that is used."""
    init()
    return 0


def set_device(device):
    """There is one GPU to choose, cuda:0.  Errors: RuntimeError for another one."""
    _number(device)


class device:
    """with device(0): the block works on that GPU, which is the one that there is.  Errors:
    RuntimeError for another one.

    Where tensors are made that name no device is another matter: `with gramme.device("cuda"):`."""

    def __init__(self, device):
        self.idx = -1 if isinstance(device, int) and device < 0 else _number(device)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return None


class device_of(device):
    """with device_of(tensor): the same for the GPU that a tensor is on; nothing for a tensor of the
    CPU."""

    def __init__(self, tensor):
        super().__init__(0 if tensor.is_cuda else -1)


def get_device_name(device=None):
    """The model's name."""
    _number(device)
    return _core.cuda_name()


def get_device_capability(device=None):
    """(major, minor) of the compute capability."""
    _number(device)
    return _core.cuda_capability()


class DeviceProperties:
    """What get_device_properties() gives: name, major and minor of the compute capability,
    total_memory in bytes."""

    def __init__(self, name, capability, total_memory):
        self.name, (self.major, self.minor), self.total_memory = name, capability, total_memory

    def __repr__(self):
        return (
            f"DeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB)"
        )


def get_device_properties(device=None):
    """The model's name, its compute capability and its memory."""
    return DeviceProperties(
        get_device_name(device), get_device_capability(device), _core.cuda_total_memory()
    )


# -- Random numbers: one generator serves all devices ----------------------------------------------


def manual_seed(seed):
    """gramme.manual_seed(): what is drawn on the GPU are the CPU's numbers."""
    _core.manual_seed(seed)


manual_seed_all = manual_seed


def initial_seed():
    """The seed that the process's generator began with."""
    return _core.initial_seed()


def get_rng_state(device="cuda"):
    """gramme.get_rng_state()."""
    return _core.get_rng_state()


def set_rng_state(new_state, device="cuda"):
    """gramme.set_rng_state()."""
    _core.set_rng_state(new_state)


def get_rng_state_all():
    """A list of one state for each GPU: all of them get_rng_state()."""
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states):
    """Puts the generator into the first of these states; an empty list changes nothing."""
    for state in list(new_states)[:1]:
        set_rng_state(state)


def seed():
    """gramme.seed()."""
    import gramme

    return gramme.seed()


seed_all = seed


class OutOfMemoryError(RuntimeError):
    """For `except`: what is raised where the GPU has no memory left is a RuntimeError of gramme's
    own."""


def ipc_collect():
    """Nothing: memory is not shared with other processes."""


def is_current_stream_capturing():
    """False: launches are not recorded."""
    return False


# -- Memory ----------------------------------------------------------------------------------------


def memory_allocated(device=None):
    """Bytes of the device's memory that are in use."""
    _number(device)
    return _core.cuda_memory()[0]


def memory_reserved(device=None):
    """The same, with what is kept for later."""
    _number(device)
    in_use, cached, _ = _core.cuda_memory()
    return in_use + cached


def max_memory_allocated(device=None):
    """The most that was in use; after reset_peak_memory_stats(), the most at the times when tensors
    were made since."""
    _number(device)
    return _core.cuda_memory()[2]


def reset_peak_memory_stats(device=None):
    """max_memory_allocated() begins anew."""
    _number(device)
    _core.cuda_reset_peak()


max_memory_reserved = max_memory_allocated
memory_cached, max_memory_cached = memory_reserved, max_memory_reserved
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def memory_summary(device=None, abbreviated=False):
    """memory_stats() as text."""
    return "\n".join([f"{name}: {value}" for name, value in memory_stats(device).items()])


def memory_stats(device=None):
    """What is known of the memory, by torch's names: allocated_bytes.all.current and .peak,
    reserved_bytes.all.current."""
    return {
        "allocated_bytes.all.current": memory_allocated(device),
        "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
    }


def mem_get_info(device=None):
    """(bytes that this process can still have, bytes that the device has).  What other processes
    hold is not seen."""
    _number(device)
    total = _core.cuda_total_memory()
    return total - memory_allocated(device), total


def empty_cache():
    """Waits for the device, so that memory which other streams were using can be handed out again.

    What is kept for later stays this process's until one of its tensors needs it in another size:
    then it goes back to the driver.
    """
    if is_initialized():
        synchronize()


# -- Streams and events ----------------------------------------------------------------------------


class Event:
    """A point of a stream: record() sets it, wait() lets another stream wait for it, synchronize()
    the caller."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False):
        if interprocess:
            raise NotImplementedError(
                "events of other processes are not supported: use synchronize() there"
            )
        self._handle = 0

    def record(self, stream=None):
        handle = _core.cuda_event_new((stream or current_stream()).cuda_stream)
        self._drop()
        self._handle = handle

    def wait(self, stream=None):
        if self._handle:
            _core.cuda_event_wait((stream or current_stream()).cuda_stream, self._handle)

    def query(self):
        return not self._handle or _core.cuda_event_query(self._handle)

    def synchronize(self):
        if self._handle:
            _core.cuda_event_finish(self._handle)

    def elapsed_time(self, end_event):
        """Milliseconds from this event to the other one; both have been waited for."""
        if not self._handle or not end_event._handle:
            raise RuntimeError("elapsed_time(): both events have to be recorded before")
        return _core.cuda_event_elapsed(self._handle, end_event._handle)

    def _drop(self):
        if self._handle:
            _core.cuda_event_free(self._handle)
        self._handle = 0

    def __del__(self):
        if _core is not None:
            self._drop()


class Stream:
    """An order of work of its own.  `with stream(s):` makes it the thread's current one."""

    def __init__(self, device=None, priority=0):
        self.cuda_stream, self._owned = _core.cuda_stream_new(), True

    @classmethod
    def _of(cls, handle):
        s = cls.__new__(cls)
        s.cuda_stream, s._owned = handle, False
        return s

    def synchronize(self):
        _core.cuda_stream_synchronize(self.cuda_stream)

    def query(self):
        """Whether all that it was given is done."""
        return _core.cuda_stream_query(self.cuda_stream)

    def record_event(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event):
        event.wait(self)

    def wait_stream(self, stream):
        """Goes on only when the other stream has come past what it was given by now."""
        self.wait_event(stream.record_event())

    def __eq__(self, other):
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self):
        return hash(self.cuda_stream)

    def __repr__(self):
        return f"<gramme.cuda.Stream {self.cuda_stream:#x}>"

    def __del__(self):
        if _core is not None and getattr(self, "_owned", False):
            _core.cuda_stream_free(self.cuda_stream)


class ExternalStream(Stream):
    """A stream that another library has made, by its handle; it stays that library's."""

    def __init__(self, stream_ptr, device=None):
        self.cuda_stream, self._owned = stream_ptr, False


def current_stream(device=None):
    return Stream._of(_core.cuda_stream_current(False))


def default_stream(device=None):
    """The device's own stream, which is a thread's current one until it says otherwise."""
    return Stream._of(_core.cuda_stream_current(True))


def set_stream(stream):
    _core.cuda_stream_use(stream.cuda_stream)


class stream:
    """Makes a stream the thread's current one for a while; None changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            self._before = current_stream()
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *exc):
        if self.stream is not None:
            set_stream(self._before)


def record_stream(tensor, stream):
    """The stream uses the tensor's memory, which another one has taken: freed, it is handed out
    again only when the stream has come past what it was given by then."""
    _core.cuda_keep(tensor, stream.cuda_stream)


def is_bf16_supported(including_emulation=True):
    """True if there is a GPU: bfloat16 is computed in float32 on any of them, and rounded."""
    return is_available()


def __getattr__(name):
    from gramme import _absent, legacy

    if name in legacy.TYPES:
        return legacy.on_the_gpu(name)

    return _absent.find(__name__, name, ("amp",))
