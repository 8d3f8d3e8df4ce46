"""Tensors of PyTorch: transfers, weights, state dicts; on the GPU, too, where there is one."""

import copy
from collections import OrderedDict, namedtuple

import pytest

import gpufs

torch = pytest.importorskip("torch", reason="there is no PyTorch")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU"))]


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_come_back(tmp_path, device):
    for count in (1, 1000, 3_000_001):
        tensor = torch.randn(count, device=device)
        assert gpufs.write_from(tensor, tmp_path / "x") == 4 * count
        into = torch.empty_like(tensor)
        assert gpufs.read_into(into, tmp_path / "x") == 4 * count
        assert torch.equal(into, tensor)
    with pytest.raises(ValueError, match="not contiguous"):
        gpufs.read_into(torch.empty(4, 4, device=device).t(), tmp_path / "x")
    with pytest.raises(ValueError, match="on meta"):
        gpufs.read_into(torch.empty(4, device="meta"), tmp_path / "x")


def test_tensors_that_are_not_what_lies_in_memory_are_refused(tmp_path):
    class Wrapper(torch.Tensor):
        """A tensor without memory of its own, as a DTensor is."""

        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        @classmethod
        def __torch_dispatch__(cls, function, types, arguments=(), options=None):
            return NotImplemented

    turned = torch.randn(4, dtype=torch.complex64).conj()
    wrong = {"a view that negates": turned, "layout torch.sparse_coo": torch.ones(4).to_sparse(), "a Wrapper has no": Wrapper(torch.ones(4))}
    (tmp_path / "x").write_bytes(b"here before")
    for message, tensor in wrong.items():
        with pytest.raises(ValueError, match=message):
            gpufs.write_from(tensor, tmp_path / "x")
        with pytest.raises(ValueError, match=message):
            gpufs.read_into(tensor, tmp_path / "x")
    # Nothing was written, and nothing cut off.
    assert (tmp_path / "x").read_bytes() == b"here before"
    gpufs.safetensors.save({"a": turned}, tmp_path / "x")
    assert torch.equal(gpufs.safetensors.load(tmp_path / "x", "cpu")["a"], turned)


def test_streams_of_several_gpus_are_waited_for(tmp_path):
    waited = []
    tensors = [torch.full((10,), float(number)) for number in range(4)]
    parts = [
        gpufs.Memory(tensor.data_ptr(), 40, "pageable", stream, tensor, None, gpu, lambda place=(gpu, stream): waited.append(place))
        for tensor, gpu, stream in zip(tensors, (0, 1, 1, 1), (0, 0, 0, 9))
    ]
    gpufs.write_from(parts, [tmp_path / f"{number}" for number in range(4)])
    assert waited == [(0, 0), (1, 0), (1, 9)]
    for number in range(4):
        assert (tmp_path / f"{number}").read_bytes() == tensors[number].numpy().tobytes()
    parts[0].ready = None
    with pytest.raises(ValueError, match="several GPUs"):
        gpufs.write_from(parts, [tmp_path / f"{number}" for number in range(4)])


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="PyTorch sees no second GPU")
def test_tensors_of_two_gpus(tmp_path):
    tensors = {}
    for number in (0, 1):
        with torch.cuda.device(number):
            torch.cuda._sleep(200_000_000)
            tensors[f"{number}"] = torch.full((4_000_000,), float(number + 1), device=f"cuda:{number}")
    gpufs.safetensors.save(tensors, tmp_path / "x")
    found = gpufs.safetensors.load(tmp_path / "x", "cpu")
    assert all(bool((found[f"{number}"] == number + 1).all()) for number in (0, 1))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")
def test_transfers_follow_the_current_stream(tmp_path):
    for _ in range(5):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            tensor = torch.zeros(8_000_000, device="cuda")
            torch.cuda._sleep(200_000_000)
            tensor.fill_(3)
            gpufs.write_from(tensor, tmp_path / "x")
            torch.cuda._sleep(200_000_000)
            tensor.fill_(5)
            gpufs.read_into(tensor, tmp_path / "x")
        torch.cuda.synchronize()
        assert bool((tensor == 3).all())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")
def test_kinds_are_found_checked_and_counted(tmp_path):
    device, pinned = torch.ones(1_000_000, device="cuda"), torch.empty(1_000_000).pin_memory()
    assert (gpufs.memory_kind(device), gpufs.memory_kind(pinned)) == ("device", "pinned")
    assert gpufs.memory_kind(torch.empty(10)) == "pageable"
    before = gpufs.transfer_statistics()
    gpufs.write_from(device, tmp_path / "x", kind="device")
    gpufs.read_into(pinned, tmp_path / "x")
    after = gpufs.transfer_statistics()
    assert bool((pinned == 1).all())
    assert after["device"]["staged"]["bytes_written"] == before["device"]["staged"]["bytes_written"] + 4_000_000
    assert after["pinned"]["in_place"]["bytes_read"] == before["pinned"]["in_place"]["bytes_read"] + 4_000_000
    with pytest.raises(OSError, match="is memory of a GPU, and was named pinned"):
        gpufs.read_into(device, tmp_path / "x", kind="pinned")
    with pytest.raises(OSError, match="it is shorter"):
        gpufs.read_into(gpufs.Memory(device.data_ptr(), 1 << 44), tmp_path / "x")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")
def test_managed_memory_and_arrays_of_cupy(tmp_path):
    cupy = pytest.importorskip("cupy", reason="there is no CuPy")
    content = cupy.arange(1_000_000, dtype=cupy.int32)
    gpufs.write_from(content, tmp_path / "x")
    with cupy.cuda.using_allocator(cupy.cuda.malloc_managed):
        into = cupy.zeros(1_000_000, dtype=cupy.int32)
    assert gpufs.memory_kind(into) == "managed"
    assert gpufs.read_into(into, tmp_path / "x") == 4_000_000
    assert bool((into == content).all())
    with pytest.raises(ValueError, match="contiguous"):
        gpufs.read_into(into[::2], tmp_path / "x")


@pytest.mark.parametrize("device", DEVICES)
def test_weights(tmp_path, device):
    weights = {
        "a": torch.randn(300, 40, dtype=torch.bfloat16, device=device),
        "b": torch.arange(7, device=device),
        "c": torch.tensor(True, device=device),
        "empty": torch.zeros(0, 3, device=device),
        "view": torch.randn(8, 9, device=device).t(),
    }
    gpufs.safetensors.save(weights, tmp_path / "x")
    found = gpufs.safetensors.load(tmp_path / "x", device)
    assert set(found) == set(weights)
    for name, tensor in weights.items():
        assert found[name].dtype == tensor.dtype and found[name].device == tensor.device and torch.equal(found[name], tensor)
    with pytest.raises(ValueError, match="on meta"):
        gpufs.safetensors.load(tmp_path / "x", "meta")
    with pytest.raises(RuntimeError, match="nowhere"):
        gpufs.safetensors.load(tmp_path / "x", "nowhere")
    few = gpufs.safetensors.load(tmp_path / "x", device, names=["b", "a"])
    assert torch.equal(few["a"], weights["a"]) and torch.equal(few["b"], weights["b"])


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_as_safetensors(tmp_path, device):
    reference = pytest.importorskip("safetensors.torch", reason="there is no safetensors to compare with")
    weights = {f"layer.{index}": torch.randn(index + 1, 33, device=device).to(torch.bfloat16) for index in range(20)}
    gpufs.safetensors.save(weights, tmp_path / "ours")
    reference.save_file(weights, tmp_path / "theirs")
    ours, theirs = reference.load_file(tmp_path / "ours", device=device), gpufs.safetensors.load(tmp_path / "theirs", device)
    assert all(torch.equal(ours[name], weights[name]) and torch.equal(theirs[name], weights[name]) for name in weights)


@pytest.mark.parametrize("device", DEVICES)
def test_state_dicts(tmp_path, device):
    import gpufs.torch

    model = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.Linear(20, 3)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model(torch.randn(4, 10, device=device)).sum().backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3, "size": torch.Size([1, 2]), "name": "x"}
    state["tied"] = state["model"]["0.weight"]
    expected = copy.deepcopy(state)
    gpufs.torch.save(state, tmp_path / "x", fsync=True)
    found = gpufs.torch.load(tmp_path / "x", device)
    assert isinstance(found["model"], OrderedDict) and found["size"] == torch.Size([1, 2]) and found["step"] == 3
    assert found["tied"].data_ptr() == found["model"]["0.weight"].data_ptr()
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    for name, tensor in expected["model"].items():
        assert torch.equal(found["model"][name], tensor)
    assert torch.equal(found["optimizer"]["state"][0]["exp_avg"], expected["optimizer"]["state"][0]["exp_avg"])
    # A flat state dict has its own names.
    gpufs.torch.save(model.state_dict(), tmp_path / "flat")
    assert set(gpufs.safetensors.load(tmp_path / "flat", device)) == set(model.state_dict())
    # What lies in the same memory, and is not the same.
    turned = torch.randn(4, dtype=torch.complex64)
    gpufs.torch.save({"plain": turned, "turned": turned.conj()}, tmp_path / "complex")
    both = gpufs.torch.load(tmp_path / "complex", "cpu")
    assert torch.equal(both["plain"], turned) and torch.equal(both["turned"], turned.conj())
    with pytest.raises(ValueError, match="tensor 'a.0': a tensor of layout torch.sparse_coo"):
        gpufs.torch.save({"a": [torch.ones(4).to_sparse()]}, tmp_path / "x")
    with pytest.raises(TypeError, match="sizes is a Sizes"):
        gpufs.torch.save({"sizes": namedtuple("Sizes", "a b")(1, 2)}, tmp_path / "x")
    with pytest.raises(TypeError, match="model.odd is a set"):
        gpufs.torch.save({"model": {"odd": {1}}}, tmp_path / "x")
    assert gpufs.torch.load(tmp_path / "x", device)["step"] == 3


@pytest.mark.parametrize("device", DEVICES)
def test_rows_by_a_tensor_of_indices(tmp_path, device):
    table = torch.randn(1000, 1024)
    gpufs.write_from(table, tmp_path / "raw")
    rows = gpufs.Rows(tmp_path / "raw", torch.float32, (1024,), device=device, framework="pt")
    indices = torch.randint(0, 1000, (5000,), device=device)
    assert torch.equal(rows[indices], table.to(device)[indices])
    batches = list(torch.utils.data.DataLoader(rows, batch_size=256))
    assert torch.equal(torch.cat([batch.cpu() for batch in batches]), table)
