"""PyTorch Geometric's FeatureStore."""

import pytest

import gpufs

numpy = pytest.importorskip("numpy", reason="there is no NumPy")
torch = pytest.importorskip("torch", reason="there is no PyTorch")
pytest.importorskip("torch_geometric", reason="there is no PyTorch Geometric")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU"))]


@pytest.fixture
def table(tmp_path):
    table = numpy.arange(600, dtype=numpy.float32).reshape(100, 6)
    numpy.save(tmp_path / "x.npy", table)
    return table


@pytest.mark.parametrize("device", DEVICES)
def test_features_are_rows_of_files(tmp_path, table, device):
    import gpufs.pyg

    (tmp_path / "y").write_bytes(numpy.arange(100, dtype=numpy.int64).tobytes())
    store = gpufs.pyg.FeatureStore(device=device)
    store.add("paper", "x", tmp_path / "x.npy")
    store.add("paper", "y", tmp_path / "y", dtype="int64", row_shape=())
    assert store.get_tensor_size("paper", "x") == (100, 6)
    assert {(attr.group_name, attr.attr_name) for attr in store.get_all_tensor_attrs()} == {("paper", "x"), ("paper", "y")}
    mask = torch.zeros(100, dtype=torch.bool)
    mask[[2, 70]] = True
    for index in (None, slice(3, 50, 7), torch.tensor([5, 5, 99, 0]), torch.tensor([1, -1]), mask, 17, torch.tensor([], dtype=torch.int64)):
        found = store.get_tensor("paper", "x", index)
        expected = torch.from_numpy(table)[slice(None) if index is None else index]
        assert found.device.type == device and torch.equal(found.cpu(), expected), index
    assert store.get_tensor("paper", "y", torch.tensor([7, 3])).tolist() == [7, 3]
    both = store.multi_get_tensor([("paper", "x", torch.tensor([1, 2])), ("paper", "y", slice(0, 3))])
    assert [tensor.shape for tensor in both] == [(2, 6), (3,)]


def test_what_is_not_there_is_named(tmp_path, table):
    import gpufs.pyg

    store = gpufs.pyg.FeatureStore()
    store.add("paper", "x", gpufs.Rows(tmp_path / "x.npy", framework="pt"))
    with pytest.raises(KeyError):
        store.get_tensor("author", "x", None)
    with pytest.raises(IndexError, match="not in the 100 rows"):
        store.get_tensor("paper", "x", torch.tensor([100]))
    with pytest.raises(IndexError, match="a mask of 99"):
        store.get_tensor("paper", "x", torch.ones(99, dtype=torch.bool))
    with pytest.raises(NotImplementedError, match="reads files"):
        store.put_tensor(torch.zeros(3), "paper", "z", None)
    with pytest.raises(FileNotFoundError):
        store.add("paper", "z", tmp_path / "z.npy")
    assert store.remove_tensor("paper", "x", None) and not store.remove_tensor("paper", "x", None)


@pytest.mark.parametrize("device", DEVICES)
def test_a_loader_takes_its_batches_from_it(tmp_path, table, device):
    """The step of NeighborLoader that gets features: sampling before it takes pyg-lib or torch-sparse."""
    import gpufs.pyg
    from torch_geometric.loader.utils import filter_custom_hetero_store
    from torch_geometric.testing import MyGraphStore

    store = gpufs.pyg.FeatureStore(device=device)
    store.add("paper", "x", tmp_path / "x.npy")
    nodes = torch.tensor([4, 80, 5])
    batch = filter_custom_hetero_store(store, MyGraphStore(), {"paper": nodes}, {}, {}, {})
    assert batch["paper"].num_nodes == 3 and torch.equal(batch["paper"].x.cpu(), torch.from_numpy(table)[nodes])
