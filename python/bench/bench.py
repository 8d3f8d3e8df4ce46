"""Loads, saves and gathers beside what else Python has for them, on one file set in one run: medians, and the cores that each used.

    python3 bench.py [--gib 4] [--save-gib 1] [--runs 5] [--folder /dev/shm] [--also /tmp] [--rows 1,2,3,4,5] [--json FILE]

--gib: size of the weights; saves have a quarter where --save-gib does not say otherwise, files of rows twice that. --folder is in memory; --also, on a disk whose page cache holds the files,
is used for all rows but the fifth as well. It takes an NVIDIA GPU and PyTorch; rivals that are not installed are named. Each stage that a transfer goes through is measured alone, too: the files
without the bus, and the bus without files. The last lines are two tables: the targets, and what each transfer reaches of its stages; they come, too,
where SIGTERM or Ctrl-C ends it before.
"""

import argparse
import gc
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch

import gpufs
import gpufs.torch

TABLE = []
#: Begins the names of measurements of one stage.
STAGE = "stage: "
BUS_IN, BUS_OUT = STAGE + "bus, to the GPU", STAGE + "bus, from the GPU"


def cpu_seconds():
    used = os.times()
    return used.user + used.system


#: What the first run has to itself, in seconds, is little beside one that takes longer: it counts then.
SLOW = 2.0


def median(work, runs, before=lambda: None):
    """Median seconds of so many runs, and the cores used meanwhile; of short ones, after one that is not counted."""
    seconds, cores = [], []
    first = True
    while len(seconds) < runs:
        before()
        gc.collect()
        torch.cuda.synchronize()
        cpu, start = cpu_seconds(), time.perf_counter()
        result = work()
        torch.cuda.synchronize()
        took = time.perf_counter() - start
        if not first or took > SLOW:
            seconds.append(took)
            cores.append((cpu_seconds() - cpu) / took)
        first = False
        del result
    return statistics.median(seconds), statistics.median(cores)


def note(row, what, who, nbytes, measured):
    seconds, cores = measured
    line = {"row": row, "what": what, "who": who, "gb_s": nbytes / seconds / 1e9, "ms": seconds * 1e3, "cores": cores}
    TABLE.append(line)
    print(f"row {row}  {what:<44} {who:<28} {line['gb_s']:7.2f} GB/s  {line['ms']:9.1f} ms  {cores:5.2f} cores", flush=True)


def absent(row, who, why):
    print(f"SKIP row {row}, {who}: {why}", flush=True)


def weights(nbytes, count, device):
    """Tensors of bf16 of one size."""
    each = nbytes // count // 2
    return {f"layer.{index}.weight": torch.randn(each, device=device).to(torch.bfloat16) for index in range(count)}


def small_weights(nbytes, device):
    """2,000 tensors of 64 KiB to 4 MiB, scaled to the whole."""
    generator = numpy.random.default_rng(7)
    sizes = numpy.exp(generator.uniform(numpy.log(64 << 10), numpy.log(4 << 20), 2000))
    sizes = (sizes * min(1.0, nbytes / sizes.sum()) / 2).astype(int)
    return {f"block.{index}": torch.randn(int(size), device=device).to(torch.bfloat16) for index, size in enumerate(sizes)}


def one_thread(path, device):
    """What a careful program does without libraries: two pinned buffers, one read while the other is copied."""
    head = gpufs.safetensors.header(path)
    block = torch.empty(head.nbytes, dtype=torch.uint8, device=device)
    pinned = [torch.empty(16 << 20, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    events = [torch.cuda.Event() for _ in range(2)]
    with open(path, "rb", buffering=0) as file:
        file.seek(head.offset)
        done, turn = 0, 0
        while done < head.nbytes:
            events[turn].synchronize()
            got = file.readinto(pinned[turn].numpy()[: head.nbytes - done])
            block[done : done + got].copy_(pinned[turn][:got], non_blocking=True)
            events[turn].record()
            done, turn = done + got, 1 - turn
    return block


def one_writer(block, path):
    """What one thread writes to one file: the most that the file's lock lets in at a time."""
    memory = memoryview(block.numpy())
    with open(path, "wb", buffering=0) as file:
        for begin in range(0, len(memory), 1 << 20):
            file.write(memory[begin : begin + (1 << 20)])


def at(folder):
    """A folder in what is measured: the last word of it."""
    return os.path.basename(folder.rstrip("/")) or folder


def raw_bus(nbytes, runs):
    """Copies from pinned memory alone."""
    pinned = torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True)
    block = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")

    def work():
        for _ in range(max(1, nbytes >> 30)):
            block.copy_(pinned, non_blocking=True)

    note(0, "raw copies, pinned memory", BUS_IN, max(1, nbytes >> 30) << 30, median(work, runs))
    note(0, "raw copies, pinned memory", BUS_OUT, 1 << 30, median(lambda: pinned.copy_(block, non_blocking=True), runs))


def loads(row, what, tensors, folder, runs):
    path = os.path.join(folder, f"gpufs-bench-{row}.safetensors")
    gpufs.safetensors.save(tensors, path)
    nbytes = sum(tensor.nbytes for tensor in tensors.values())
    found = gpufs.safetensors.load(path, "cuda")
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items()), "what was loaded is not what was saved"
    del found
    where = f"{what}, {at(folder)}"
    note(row, where, "gpufs", nbytes, median(lambda: gpufs.safetensors.load(path, "cuda"), runs))
    pinned = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
    offset = gpufs.safetensors.header(path).offset
    note(row, where, STAGE + "file, to pinned memory", nbytes, median(lambda: gpufs.read_into(pinned, path, offset), runs))
    del pinned
    note(row, where, "one thread, pinned memory", nbytes, median(lambda: one_thread(path, "cuda"), runs))
    try:
        from safetensors.torch import load_file

        note(row, where, "safetensors", nbytes, median(lambda: load_file(path, device="cuda"), runs))
    except ImportError as error:
        absent(row, "safetensors", error)
    for name, load in rivals(path):
        try:
            note(row, where, name, nbytes, median(load, runs))
        except Exception as error:
            absent(row, name, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    return path


def rivals(path):
    """Loaders that may be carried to the machine."""
    try:
        from instanttensor import safe_open

        def instant():
            with safe_open(path, framework="pt", device="cuda:0") as file:
                return {name: tensor for name, tensor in file.tensors()}

        yield "InstantTensor", instant
    except ImportError as error:
        absent(1, "InstantTensor", error)
    try:
        from fastsafetensors import SafeTensorsFileLoader, SingleGroup

        held = []

        def fast():
            # What the last call loaded stays until then: its memory is the loader's.
            while held:
                held.pop().close()
            loader = SafeTensorsFileLoader(SingleGroup(), torch.device("cuda:0"), nogds=True)
            loader.add_filenames({0: [path]})
            buffer = loader.copy_files_to_device()
            held.extend((loader, buffer))
            return {name: buffer.get_tensor(name) for name in loader.get_keys()}

        yield "fastsafetensors", fast
        while held:
            held.pop().close()
    except ImportError as error:
        absent(1, "fastsafetensors", error)


def saves(tensors, folder, runs):
    nbytes = sum(tensor.nbytes for tensor in tensors.values())
    base = os.path.join(folder, "gpufs-bench-save")
    remove = lambda: [os.unlink(os.path.join(folder, name)) for name in os.listdir(folder) if name.startswith("gpufs-bench-save")]
    for shards in (1, 16):
        what = f"save {nbytes / 2**30:.1f} GiB, {shards} file{'s' if shards > 1 else ''}, {at(folder)}"
        measured = median(lambda: gpufs.safetensors.save(tensors, f"{base}.safetensors", shards=shards), runs, remove)
        note(3, what, "gpufs", nbytes, measured)
        pinned = list(torch.empty(nbytes // shards * shards, dtype=torch.uint8, pin_memory=True).fill_(1).chunk(shards))
        paths = [f"{base}-{index}" for index in range(shards)]
        size = sum(part.nbytes for part in pinned)
        note(3, what, STAGE + "new file, from pinned memory", size, median(lambda: gpufs.write_from(pinned, paths), runs, remove))
        # The pages are there: what is left is the copy, and what new pages cost is the difference.
        note(3, what, STAGE + "old file, from pinned memory", size, median(lambda: gpufs.write_from(pinned, paths, [0] * shards), runs))
        if shards == 1:
            note(3, what, STAGE + "new file, one thread's write", size, median(lambda: one_writer(pinned[0], paths[0]), runs, remove))
        del pinned
    what = f"save {nbytes / 2**30:.1f} GiB, 1 file, {at(folder)}"
    try:
        from safetensors.torch import save_file

        note(3, what, "safetensors", nbytes, median(lambda: save_file(tensors, f"{base}.x"), runs, remove))
    except ImportError as error:
        absent(3, "safetensors", error)
    note(3, what, "torch.save", nbytes, median(lambda: torch.save(tensors, f"{base}.pt"), runs, remove))
    remove()


def rows_file(path, rows):
    """A .npy file of rows of 4 KiB, each of which holds its number."""
    with open(path, "wb") as file:
        numpy.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, 1024)})
        offset = file.tell()
    at_a_time = 1 << 18
    for first in range(0, rows, at_a_time):
        numbers = torch.arange(first, min(first + at_a_time, rows), dtype=torch.float32, device="cuda")
        gpufs.write_from(numbers[:, None].expand(-1, 1024).contiguous(), path, offset + first * 4096)


def gathers(nbytes, folder, runs):
    path = os.path.join(folder, "gpufs-bench-rows.npy")
    rows, count = nbytes // 4096, 1 << 17
    rows_file(path, rows)
    generator, size = numpy.random.default_rng(3), count * 4096
    opened, copied = gpufs.Rows(path, device="cuda"), lambda mapped, indices: torch.from_numpy(mapped[indices]).cuda()
    # Nobody has asked for a row of the file yet, and each time it is other rows.
    what = f"gather {count:,} other rows of {nbytes / 2**30:.0f} GiB, {at(folder)}"
    for who, mapped, gathered in (
        ("gpufs", opened, lambda opened, indices: opened[indices]),
        ("numpy.memmap and a copy", numpy.load(path, mmap_mode="r"), copied),
    ):
        chosen = iter([generator.integers(0, rows, count) for _ in range(runs + 1)])
        note(4, what, who, size, median(lambda: gathered(mapped, next(chosen)), runs))
    what = f"gather {count:,} rows of 4 KiB of {nbytes / 2**30:.0f} GiB, {at(folder)}"
    indices = generator.integers(0, rows, count)
    on_gpu = torch.from_numpy(indices).cuda()
    expected = on_gpu.to(torch.float32)[:, None]
    assert bool((opened[on_gpu] == expected).all()), "a row is wrong"
    note(4, what, "gpufs", size, median(lambda: opened[on_gpu], runs))
    pinned = torch.empty((count, 1024), pin_memory=True)
    note(4, what, STAGE + "rows, to pinned memory", size, median(lambda: opened.gather(indices, pinned), runs))
    ordered = numpy.arange(count) % rows
    note(4, what, STAGE + "rows in order, to pinned memory", size, median(lambda: opened.gather(ordered, pinned), runs))
    del pinned
    mapped = numpy.load(path, mmap_mode="r")
    note(4, what, "numpy.memmap and a copy", size, median(lambda: copied(mapped, indices), runs))
    for name, gathered in row_rivals(path, opened.offset, indices):
        try:
            assert bool((gathered() == expected).all()), "a row is wrong"
            note(4, what, name, size, median(gathered, min(runs, 3)))
        except Exception as error:
            absent(4, name, f"{type(error).__name__}: {error}")
    os.unlink(path)


def row_rivals(path, offset, indices):
    """Readers that take one row a call, with a thread for each core."""
    try:
        import kvikio
        import kvikio.defaults
    except (ImportError, OSError, RuntimeError) as error:
        return absent(4, "KvikIO", error)
    kvikio.defaults.set("num_threads", os.cpu_count())
    for name, mode in (("KvikIO", kvikio.CompatMode.ON), ("cuFile, by KvikIO", kvikio.CompatMode.OFF)):
        places = [offset + int(index) * 4096 for index in indices]

        def gathered(mode=mode):
            kvikio.defaults.set("compat_mode", mode)
            found = torch.empty((len(places), 1024), device="cuda")
            with kvikio.CuFile(path, "r") as file:
                begun = [file.pread(row, 4096, place) for row, place in zip(found.unbind(), places)]
                assert all(read.get() == 4096 for read in begun), "a read was short"
            return found

        yield name, gathered


def checkpoints(nbytes, folder, runs):
    try:
        import torch.distributed.checkpoint as dcp

        import gpufs.checkpoint
    except ImportError as error:
        return absent(5, "torch.distributed.checkpoint", error)
    each = int((nbytes / 4 / 12) ** 0.5)
    model = torch.nn.Sequential(*(torch.nn.Linear(each, each, device="cuda") for _ in range(4)))
    optimizer = torch.optim.Adam(model.parameters())
    batch = torch.randn(64, each, device="cuda")

    def steps():
        for _ in range(20):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()

    def state():
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    size = sum(tensor.nbytes for tensor in model.state_dict().values()) * 3
    without, _ = median(steps, runs)
    writers = {
        "gpufs": lambda path: gpufs.checkpoint.Writer(path, fsync=False),
        "PyTorch's own writer": lambda path: dcp.FileSystemWriter(path, sync_files=False),
        "PyTorch's own, 8 threads": lambda path: dcp.FileSystemWriter(path, sync_files=False, single_file_per_rank=False, thread_count=8),
    }
    for name, writer in writers.items():
        path = tempfile.mkdtemp(dir=folder, prefix="gpufs-bench-dcp")

        def loop():
            steps()
            dcp.save(state(), storage_writer=writer(path), no_dist=True)

        seconds, cores = median(loop, runs)
        note(5, f"time lost by a checkpoint of {size / 2**30:.1f} GiB", name, size, (max(seconds - without, 1e-9), cores))
        subprocess.run(["rm", "-rf", path], check=True)


def sweep(path):
    """Other sizes of the engine, each in a process of its own."""
    program = (
        "import sys, time, statistics, torch, gpufs\n"
        "threads, chunk, chunks = map(int, sys.argv[2:5])\n"
        "gpufs.configure_transfers(threads, chunk, chunks)\n"
        "head = gpufs.safetensors.header(sys.argv[1]); block = torch.empty(head.nbytes, dtype=torch.uint8, device='cuda'); times = []\n"
        "for _ in range(6):\n"
        "    start = time.perf_counter(); gpufs.read_into(block, sys.argv[1], head.offset); times.append(time.perf_counter() - start)\n"
        "print(head.nbytes / statistics.median(times[1:]) / 1e9)\n"
    )
    for threads in (8, 12, 16, 24):
        for chunk, chunks in ((128, 4), (256, 4), (512, 3), (1024, 2), (4096, 2)):
            if threads in (8, 24) and chunk not in (256, 512):
                continue
            command = [sys.executable, "-c", program, path, str(threads), str(chunk << 10), str(chunks)]
            said = subprocess.run(command, capture_output=True, text=True)
            result = f"{float(said.stdout):6.1f} GB/s" if said.returncode == 0 else said.stderr.strip().splitlines()[-1]
            print(f"sweep  {threads:2} threads, {chunks} chunks of {chunk:4} KiB each: {result}", flush=True)


def verdicts(folders):
    """The targets of each row."""
    def best(row, who, what, place):
        lines = (line for line in TABLE if line["row"] == row and who(line["who"]) and what in line["what"])
        return max((line["gb_s"] for line in lines if place is None or line["what"].endswith(", " + place)), default=0.0)

    ours, others = (lambda who: who == "gpufs"), (lambda who: who != "gpufs" and not who.startswith(STAGE))
    memmap, readers = (lambda who: "memmap" in who), (lambda who: "KvikIO" in who)
    bus = best(0, lambda who: who == BUS_IN, "", None)
    # Row, target, what of ours, what of theirs, who they are, the least ratio.
    targets = [
        (1, "beside the best other", "", "", others, 1.1),
        (1, "beside raw copies", "", "", None, 0.95),
        (2, "beside the best other", "", "", others, 1.1),
        (3, "one file", ", 1 file", "", others, 4.0),
        (3, "16 files", ", 16 files", "", others, 25.0),
        (4, "beside numpy.memmap", " rows of 4 KiB", " rows of 4 KiB", memmap, 20.0),
        (4, "other rows, beside it", "other rows", "other rows", memmap, 20.0),
        (4, "beside the best other", " rows of 4 KiB", " rows of 4 KiB", readers, 5.0),
    ]
    checks = [
        (row, f"{place}: {what}, at least {least:g}", best(row, ours, mine, place), best(row, who, theirs, place) if who else bus, least)
        for place in map(at, folders)
        for row, what, mine, theirs, who, least in targets
    ]
    checks.append((5, "time lost, at least 5 times less", best(5, ours, "", None), best(5, others, "", None), 5.0))
    print(f"\n{'row':<4} {'target':<40} {'gpufs':>8} {'other':>8} {'ratio':>7}")
    for row, what, mine, theirs, target in checks:
        if mine and theirs:
            ratio = mine / theirs
            print(f"{row:<4} {what:<40} {mine:>8.2f} {theirs:>8.2f} {ratio:>7.2f}  {'met' if ratio >= target else 'missed'}")


def limits():
    """What each transfer reaches of each stage that it goes through: the slowest stage first, which no transfer can pass."""
    print(f"\n{'gpufs':>7} GB/s  {'stage':>7} GB/s  {'share':>6}")
    for line in TABLE:
        if line["who"] != "gpufs" or line["row"] == 5:
            continue
        bus = BUS_OUT if line["row"] == 3 else BUS_IN
        stages = [
            other
            for other in TABLE
            if other["who"].startswith(STAGE) and (other["who"] == bus or (other["row"], other["what"]) == (line["row"], line["what"]))
        ]
        print(f"row {line['row']}  {line['what']}")
        for stage in sorted(stages, key=lambda stage: stage["gb_s"]):
            share = line["gb_s"] / stage["gb_s"]
            print(f"{line['gb_s']:>12.2f}  {stage['gb_s']:>12.2f}  {share:>6.2f}  {stage['who'].removeprefix(STAGE)}, {stage['cores']:.1f} cores")


def measure(options, folders):
    """All rows that were asked for, in each folder."""
    nbytes = int(options.gib * 2**30)
    saved = nbytes // 4 if options.save_gib is None else int(options.save_gib * 2**30)
    rows = {int(row) for row in options.rows.split(",")}
    raw_bus(nbytes, options.runs)
    # The shortest first: what ends before its time has most of its rows.
    if 5 in rows:
        checkpoints(nbytes // 4, options.folder, options.runs)
    for folder in folders:
        if 4 in rows:
            gathers(2 * nbytes, folder, options.runs)
        if 3 in rows:
            torch.cuda.empty_cache()
            saves(weights(saved, 64, "cuda"), folder, options.runs)
        if 2 in rows:
            os.unlink(loads(2, "load 2,000 small tensors", small_weights(nbytes, "cuda"), folder, options.runs))
        if 1 in rows:
            path = loads(1, "load 64 tensors of bf16", weights(nbytes, 64, "cuda"), folder, options.runs)
            if options.sweep and folder == options.folder:
                sweep(path)
            os.unlink(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--save-gib", type=float)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--also")
    parser.add_argument("--rows", default="1,2,3,4,5")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    folders = [folder for folder in (options.folder, options.also) if folder]
    print(f"{torch.cuda.get_device_name()}, {os.cpu_count()} cores, PyTorch {torch.__version__}, gpufs {gpufs.version()}, {options.runs} runs each")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ended = 0
    try:
        measure(options, folders)
    except KeyboardInterrupt:
        print("ended before its time: rows are missing", flush=True)
        ended = 1
    verdicts(folders)
    limits()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(TABLE, file, indent=1)
    return ended


if __name__ == "__main__":
    sys.exit(main())
