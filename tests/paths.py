"""Runs every test of a module on both paths of the kernels: compiled loops, and PyTorch as an accelerator takes it."""

from unittest import mock

import pytest
from attention_limits import kernels
from attention_limits.kernels import batched, compiled


@pytest.fixture(scope="module", params=[compiled, batched], ids=["compiled", "batched"], autouse=True)
def kernel_path(request):
    """A module of tests imports this; whatever device a tensor is on, the path of the parameter works on it."""
    with mock.patch.object(kernels, "_path", lambda device: request.param):
        yield request.param
