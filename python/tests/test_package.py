"""What the package is made of: every header, and structures and functions as the headers declare them."""

import ctypes
import re
from pathlib import Path

import pytest

import gpufs
from gpufs import _library

ROOT = Path(__file__).parent.parent.parent
STRUCTURES = {
    "gpufs_options": _library.Options,
    "gpufs_statistics": _library.Statistics,
    "gpufs_failure": _library.Failure,
    "gpufs_part": _library.Part,
    "gpufs_transfer_options": _library.TransferOptions,
    "gpufs_transfer_count": _library.Count,
}


def headers(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*.h")}


def test_every_header_is_in_the_package():
    if not (ROOT / "include/gpufs").is_dir():
        pytest.skip("the repository's headers are not beside these tests")
    expected = headers(ROOT / "include")
    assert headers(gpufs.include_directory()) == expected
    # Folders in folders are easily left out.
    assert max(name.count("/") for name in expected) >= 3


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_are_those_of_the_headers(name):
    text = "".join((gpufs.include_directory() / "gpufs" / file).read_text() for file in ("host.h", "transfer.h"))
    structure = STRUCTURES[name]
    declared = {field: int(place) for field, place in re.findall(rf"GPUFS_OFFSET_\({name}, (\w+), (\d+)\)", text)}
    size = re.search(rf"GPUFS_SIZE_\({name}, (\d+)\)", text)
    assert size and declared, f"the headers say nothing of {name}"
    assert {field: getattr(structure, field).offset for field, _ in structure._fields_} == declared
    assert ctypes.sizeof(structure) == int(size[1])


def test_functions_take_as_many_arguments_as_the_headers_say():
    text = "".join((gpufs.include_directory() / "gpufs" / file).read_text() for file in ("host.h", "transfer.h"))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    for name, (_, arguments) in _library._FUNCTIONS.items():
        found = re.search(rf"\b{name}\(([^()]*)\);", text)
        assert found, f"no header declares {name}"
        declared = [] if found[1].strip() == "void" else found[1].split(",")
        assert len(declared) == len(arguments), name
