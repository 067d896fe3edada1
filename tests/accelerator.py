"""A pretended accelerator: tensors that say they are elsewhere, and operations that refuse to mix both places.

No GPU is needed to find what would fail on one, or would be slow there: a tensor made in main memory by mistake, and
numbers that are fetched from the device in the middle of the work. The arithmetic is the processor's.
"""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

DEVICE = torch.device("meta")  # the one kind beside the processor that needs no driver
MAIN = torch.device("cpu")
# What a CUDA device accepts with a tensor in main memory beside its own: copies, and positions to look up.
MIXING = (
    torch.ops.aten.copy_,
    torch.ops.aten.index,
    torch.ops.aten._index_put_impl_,
    torch.ops.aten.index_put_,
)


class There(torch.Tensor):
    """A tensor that says it is on `DEVICE`; its numbers are in ``held``."""

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(
            cls, held.shape, held.stride(), held.storage_offset(), dtype=held.dtype, device=DEVICE
        )

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        raise AssertionError(f"{operation} of a tensor that outlived its accelerator")


class _FromPython(TorchFunctionMode):
    """Numbers out of Python go to main memory first; without numbers is what this kind of device would make of them."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.new_tensor:
            function, kwargs = torch.tensor, {"dtype": args[0].dtype, "device": args[0].device, **kwargs}
            args = args[1:]
        if function in (torch.tensor, torch.as_tensor) and kwargs.get("device") == DEVICE:
            return function(*args, **{**kwargs, "device": MAIN}).to(DEVICE)
        if function in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            args = (
                args[0],
                tree_map(_positions, args[1], is_leaf=lambda part: isinstance(part, list)),
                *args[2:],
            )
        if function is torch.Tensor.tolist:
            return args[0].cpu().tolist()
        return function(*args, **kwargs)


def _positions(part):
    """A list among the positions to look up as the tensor that Python's side of PyTorch makes of it."""
    return torch.tensor(part) if isinstance(part, list) else part


class Accelerator(TorchDispatchMode):
    """While it is entered, `DEVICE` exists. ``fetched``: the numbers that came from there to main memory, in all."""

    def __init__(self):
        super().__init__()
        self.fetched = 0
        self._from_python = _FromPython()

    def __enter__(self):
        self._from_python.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._from_python.__exit__(*error)

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        flat, form = tree_flatten((args, kwargs or {}))
        there = {id(part.held): part for part in flat if isinstance(part, There)}
        asked = next((part for part in flat if isinstance(part, torch.device)), None)
        name = operation.overloadpacket
        here = [part for part in flat if isinstance(part, torch.Tensor) and not isinstance(part, There)]
        assert all(part.device == MAIN for part in here), (
            f"{operation} reads a tensor that was made without numbers"
        )
        if there and name not in MIXING:
            assert not any(part.dim() for part in here), f"{operation} mixes main memory and the accelerator"
        positional, named = tree_unflatten([_inner(part) for part in flat], form)
        result = operation(*positional, **named)
        into_main = asked == MAIN or (name is torch.ops.aten.copy_ and not isinstance(flat[0], There))
        if there and (into_main or not _tensors(result)):
            self.fetched += sum(part.held.numel() for part in there.values())
        if into_main or not (there or asked == DEVICE):
            return result
        # An operation in place gives back the tensor that it was called with.
        return tree_map(lambda part: there[id(part)] if id(part) in there else _there(part), result)


def _there(part):
    return There(part) if isinstance(part, torch.Tensor) else part


def _tensors(result):
    """Whether an operation gave tensors, not a number."""
    return any(isinstance(part, torch.Tensor) for part in tree_flatten(result)[0])


def _inner(part):
    """``part`` as the processor takes it."""
    if isinstance(part, There):
        return part.held
    return MAIN if part == DEVICE else part
