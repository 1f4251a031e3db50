# SPDX-License-Identifier: Apache-2.0
"""DataParallel: for programs that wrap their model in it; DistributedDataParallel, which says that
there is none."""

from gramme.nn.module import Module


class DataParallel(Module):
    """Calls the module: there is one device, and the batch stays whole.

    As in torch the module is the attribute `module`, so names of state_dict() begin with "module.".
    device_ids may name one device.
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(f"DataParallel() works on one device, not on {len(device_ids)}")
        self.module, self.device_ids, self.output_device, self.dim = (
            module,
            device_ids,
            output_device,
            dim,
        )

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """module(*inputs, **module_kwargs): there is one device."""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """Is here so that programs can import the name: RuntimeError when it is made, as gramme works
    in one process on one device."""

    def __init__(self, module, *args, **kwargs):
        raise RuntimeError(
            "DistributedDataParallel() needs several processes with a device each, and gramme "
            "works in one process on one device: "
            "leave the module as it is, or wrap it in nn.DataParallel, which keeps its names in "
            "state_dict()"
        )
