"""Distributed checkpoints of PyTorch through `gpufs.checkpoint`: alone, with several ranks, without collectives; what is damaged, and what fails."""

import errno
import inspect
import os
import pickle
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="there is no PyTorch")
dcp = pytest.importorskip("torch.distributed.checkpoint", reason="this PyTorch has no distributed checkpoints")
if not hasattr(dcp, "save"):
    pytest.skip("this PyTorch has no torch.distributed.checkpoint.save", allow_module_level=True)

import gpufs.checkpoint  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU"))]
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


def state(value, device="cpu", rows=1000):
    tensors = {f"{index}": torch.full((rows, index + 1), float(value), device=device) for index in range(20)}
    return {"model": tensors, "step": value}


def save(value, folder, device="cpu", planner=None, **options):
    dcp.save(state(value, device), storage_writer=gpufs.checkpoint.Writer(folder), planner=planner, no_dist=True, **options)


def load(folder, device="cpu"):
    """The value of a checkpoint, all of whose tensors have it."""
    into = state(0, device)
    dcp.load(into, storage_reader=gpufs.checkpoint.Reader(folder), no_dist=True)
    assert all(bool((tensor == into["step"]).all()) for tensor in into["model"].values())
    return into["step"]


def takes(function, name):
    if name not in inspect.signature(function).parameters:
        pytest.skip(f"{function.__name__} of this PyTorch has no {name}")


@pytest.mark.parametrize("device", DEVICES)
def test_what_was_saved_is_loaded(tmp_path, device):
    for value in (1, 2):
        save(value, tmp_path, device)
        assert load(tmp_path, device) == value
    names = os.listdir(tmp_path)
    assert len(names) == 9 and ".metadata" in names, names


def test_other_types_parts_and_layouts(tmp_path):
    saved = {
        "bf16": torch.randn(7, 9).to(torch.bfloat16),
        "columns": torch.randn(8, 9).t(),
        "complex": torch.randn(5, dtype=torch.complex64),
        "conjugate": torch.randn(5, dtype=torch.complex64).conj(),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(5),
        "words": "a text",
    }
    dcp.save(saved, storage_writer=gpufs.checkpoint.Writer(tmp_path), no_dist=True)
    into = {name: torch.zeros_like(value) if isinstance(value, torch.Tensor) else None for name, value in saved.items()}
    # Another type, and memory that a view negates.
    into |= {"bf16": torch.zeros(7, 9), "complex": into["complex"].conj(), "conjugate": torch.zeros(5, dtype=torch.complex64)}
    dcp.load(into, storage_reader=gpufs.checkpoint.Reader(tmp_path), no_dist=True)
    assert into.pop("words") == saved.pop("words")
    for name, tensor in saved.items():
        assert torch.equal(into[name].to(tensor.dtype), tensor), name


def test_an_id_names_the_folder(tmp_path):
    dcp.save(state(5), checkpoint_id=tmp_path / "here", storage_writer=gpufs.checkpoint.Writer(tmp_path / "there"), no_dist=True)
    into = state(0)
    dcp.load(into, checkpoint_id=tmp_path / "here", storage_reader=gpufs.checkpoint.Reader(tmp_path / "there"), no_dist=True)
    assert into["step"] == 5 and os.listdir(tmp_path) == ["here"]


def test_plans_that_are_kept_name_no_files(tmp_path):
    takes(dcp.DefaultSavePlanner.__init__, "enable_plan_caching")
    seen = []
    for value in (1, 2, 3):
        save(value, tmp_path, planner=dcp.DefaultSavePlanner(enable_plan_caching=True))
        seen.append({name for name in os.listdir(tmp_path) if name.endswith(".gpufs")})
        assert load(tmp_path) == value
    # Else a save would write over the files of the checkpoint that it is to replace.
    assert not seen[0] & seen[1] and not seen[1] & seen[2]


def test_in_the_background(tmp_path):
    takes(dcp.async_save, "no_dist")
    dcp.async_save(state(4), storage_writer=gpufs.checkpoint.Writer(tmp_path), no_dist=True).result()
    assert load(tmp_path) == 4


def test_metadata_of_one_rank(tmp_path):
    takes(dcp.save, "use_collectives")
    for value in (1, 2):
        save(value, tmp_path, use_collectives=False)
        assert load(tmp_path) == value
    names = os.listdir(tmp_path)
    assert len(names) == 9 and "__0.metadata" in names, names
    save(3, tmp_path)
    assert load(tmp_path) == 3 and len(os.listdir(tmp_path)) == 9
    with pytest.raises(BaseException, match="was saved with collectives"):
        save(4, tmp_path, use_collectives=False)
    assert load(tmp_path) == 3


def test_damage_is_told(tmp_path):
    with pytest.raises(BaseException, match="there is no checkpoint|No such file") as caught:
        load(tmp_path)
    assert str(tmp_path) in str(caught.value)
    save(1, tmp_path)
    data = next(tmp_path.glob("*-0.gpufs"))
    os.truncate(data, 100)
    # PyTorch's exception of ranks is no Exception.
    with pytest.raises(dcp.CheckpointException, match="is cut off: 100 of") as caught:
        load(tmp_path)
    assert isinstance(caught.value.failures[0][0], ValueError)
    data.unlink()
    with pytest.raises(dcp.CheckpointException, match="No such file") as caught:
        load(tmp_path)
    assert caught.value.failures[0][0].filename == str(data)
    whole = (tmp_path / ".metadata").read_bytes()
    for content in (b"", whole[:-5], b"nothing of the kind", pickle.dumps({})):
        (tmp_path / ".metadata").write_bytes(content)
        with pytest.raises(BaseException, match=r"\.metadata is (damaged|a dict)"):
            load(tmp_path)


def test_checkpoints_of_others_are_refused(tmp_path):
    dcp.save(state(1), checkpoint_id=tmp_path, no_dist=True)
    with pytest.raises(dcp.CheckpointException, match="was not written by gpufs.checkpoint.Writer"):
        load(tmp_path)


FULL = """
import resource, sys, torch, gpufs.checkpoint, torch.distributed.checkpoint as dcp
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try: dcp.save({"a": torch.zeros(1_000_000), "b": torch.zeros(10)}, storage_writer=gpufs.checkpoint.Writer(sys.argv[1]), no_dist=True)
except dcp.CheckpointException as error: print(error.failures[0][0].errno)
"""


def test_a_failed_save_leaves_the_old_checkpoint(tmp_path):
    save(1, tmp_path)
    old = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    said = subprocess.run([sys.executable, "-W", "ignore", "-c", FULL, str(tmp_path)], check=True, capture_output=True, text=True)
    assert said.stdout.strip() == str(errno.EFBIG), said
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == old
    # What cannot be pickled ends after the data was written.
    with pytest.raises(BaseException, match="pickle|local object"):
        writer = gpufs.checkpoint.Writer(tmp_path)
        writer.storage_meta = lambda: lambda: None
        dcp.save(state(2), storage_writer=writer, no_dist=True)
    assert load(tmp_path) == 1 and not list(tmp_path.glob("*.part"))
    save(2, tmp_path)
    assert load(tmp_path) == 2 and len(os.listdir(tmp_path)) == 9


# Two ranks save a matrix in two halves and a tensor that both have; one loads the whole, two load columns of it.
RANKS = """
import sys, warnings, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp, gpufs.checkpoint
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
warnings.simplefilter("ignore")
folder, rank, collectives = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
dist.init_process_group("gloo", init_method="file://" + folder + ".rendezvous", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
whole = torch.arange(4000.0).reshape(100, 40)
options = {} if collectives else {"use_collectives": False}
for turn in (1, 2):
    rows = {"matrix": distribute_tensor(whole * turn, mesh, [Shard(0)]), "same": distribute_tensor(whole * turn, mesh, [Replicate()]), "turn": turn}
    dcp.save(rows, storage_writer=gpufs.checkpoint.Writer(folder), **options)
for placement in (Shard(0), Shard(1)) if collectives else (Shard(0),):
    zeros = torch.zeros(100, 40)
    into = {"matrix": distribute_tensor(zeros, mesh, [placement]), "same": distribute_tensor(zeros, mesh, [Replicate()]), "turn": 0}
    dcp.load(into, storage_reader=gpufs.checkpoint.Reader(folder))
    assert into["turn"] == 2 and torch.equal(into["matrix"].full_tensor(), 2 * whole) and torch.equal(into["same"].to_local(), 2 * whole)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("collectives", [True, False])
def test_two_ranks(tmp_path, collectives):
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    pytest.importorskip("torch.distributed.tensor", reason="this PyTorch has no torch.distributed.tensor")
    if not collectives:
        takes(dcp.save, "use_collectives")
    folder = tmp_path / "checkpoint"
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANKS, str(folder), str(rank), str(collectives)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in (0, 1)
    ]
    try:
        said = [rank.communicate(timeout=150)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(said)
    if collectives:
        into = {"matrix": torch.zeros(100, 40), "same": torch.zeros(100, 40), "turn": 0}
        dcp.load(into, storage_reader=gpufs.checkpoint.Reader(folder), no_dist=True)
        expected = 2 * torch.arange(4000.0).reshape(100, 40)
        assert into["turn"] == 2 and torch.equal(into["matrix"], expected) and torch.equal(into["same"], expected)
