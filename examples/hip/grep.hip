// grep STRING FILE...: blocks of threads search pieces of the files, and print the lines that hold the string, in order, as grep -F -n -H does.
//
// As examples/cuda/grep.cu, in HIP; see hello.hip.
//
// The host divides the files into pieces. A block draws one, reads it into device memory, and each of its threads looks at the lines that begin in
// its share. How many lines were before, and whose turn it is to print, goes from piece to piece behind the search. A line that goes on for more
// than 64 KiB in the next piece is cut, and all files are taken for texts: for binary ones, options, and lines of any length see grep.rs.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <hip/hip_runtime.h>

#include <gpufs/file.h>
#include <gpufs/host.h>
#include <gpufs/stdio.h>

namespace {

constexpr unsigned blocks = 132 * 4, team = 32; // one warp a block, so that a barrier is cheap
constexpr unsigned piece = 256 << 10;           // of a file
constexpr unsigned longest = 64 << 10;          // of a line
constexpr unsigned lead = 16;                   // before a piece: its last byte says whether a line begins with the piece
constexpr unsigned range = 16 << 10;            // of a piece, whose output is made at once
constexpr unsigned output = 64 << 10;           // of one call of fwrite
constexpr unsigned memory = lead + piece + longest + output;

struct Unit {
    unsigned file, is_first;
    unsigned long long offset;
};

// What a piece tells the next one. A unit with output is known by its number plus 1.
struct Record {
    unsigned known, printed, last_output;
    unsigned long long newlines;
};

struct Job {
    const char *needle;
    unsigned length;
    const char *names;      // one after the other, each with its NUL
    const unsigned *starts; // where each begins
    const Unit *units;
    Record *records;
    unsigned count, next;   // the units, and the next to draw
    char *texts;            // `memory` bytes for each block
    unsigned matches;       // whether a line was printed
    unsigned troubles;      // whether a file could not be read, or the output not written
};

// Without ROCm's device library, which HIP's own barriers and fences are in.
#ifdef __HIP_PLATFORM_AMD__
__device__ void fence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
__device__ void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#else
__device__ void fence() { __threadfence(); }
__device__ void barrier() { __syncthreads(); }
#endif

__device__ unsigned thread_in_block() { return gpufs_thread_in_block(); }
__device__ unsigned block() { return gpufs_block(); }

// Words that blocks tell each other something by.
__device__ unsigned observe(unsigned *word) {
    const unsigned value = atomicAdd(word, 0u);
    fence();
    return value;
}
__device__ void publish(unsigned *word) {
    fence();
    atomicExch(word, 1u);
}
// Ends: units are drawn in order, and the lowest one under way waits for nobody. One thread.
__device__ void wait_for(unsigned *word) {
    while (observe(word) == 0) {
        gpufs_nap(500);
    }
}

template <class T>
__device__ T least(T one, T other) {
    return one < other ? one : other;
}

// The sum of the lower threads' values; in `total` that of all. Called by all of a block.
__device__ unsigned sum_before(unsigned value, unsigned &total) {
    __shared__ unsigned values[team];
    values[thread_in_block()] = value;
    barrier();
    unsigned before = 0;
    total = 0;
    for (unsigned thread = 0; thread < team; ++thread) {
        before += thread < thread_in_block() ? values[thread] : 0;
        total += values[thread];
    }
    barrier();
    return before;
}

// The first thread's value, in all of a block.
__device__ long long from_first(long long value) {
    __shared__ long long shared;
    if (thread_in_block() == 0) {
        shared = value;
    }
    barrier();
    value = shared;
    barrier();
    return value;
}

// The highest bit of each byte of `word` that is the byte repeated in `wanted`; no other.
__device__ unsigned long long equal(unsigned long long word, unsigned long long wanted) {
    constexpr unsigned long long low = 0x7f7f7f7f7f7f7f7full;
    const unsigned long long differs = word ^ wanted;
    return ~(((differs & low) + low) | differs | low);
}

// Goes through [from, to) in aligned words of 16 bytes and calls `each` with the place of each byte that is `byte`, until it says so.
template <class Each>
__device__ bool for_each_byte(const char *from, const char *to, char byte, Each each) {
    for (; from < to && reinterpret_cast<uintptr_t>(from) % 16 != 0; ++from) {
        if (*from == byte && each(from)) {
            return true;
        }
    }
    const unsigned long long wanted = 0x0101010101010101ull * static_cast<unsigned char>(byte);
    struct alignas(16) Word {
        unsigned long long half[2];
    };
    constexpr int at_once = 4; // loads on their way
    for (; to - from >= 16 * at_once; from += 16 * at_once) {
        Word words[at_once];
        for (int index = 0; index < at_once; ++index) {
            words[index] = reinterpret_cast<const Word *>(from)[index];
        }
        for (int index = 0; index < 2 * at_once; ++index) {
            for (unsigned long long found = equal(words[index / 2].half[index % 2], wanted); found != 0; found &= found - 1) {
                unsigned bit = 0;
                while ((found >> (8 * bit + 7) & 1) == 0) {
                    ++bit;
                }
                if (each(from + 8 * index + bit)) {
                    return true;
                }
            }
        }
    }
    for (; from < to; ++from) {
        if (*from == byte && each(from)) {
            return true;
        }
    }
    return false;
}

__device__ unsigned newlines_in(const char *from, const char *to) {
    unsigned count = 0;
    for_each_byte(from, to, '\n', [&](const char *) {
        ++count;
        return false;
    });
    return count;
}

// The first newline in [from, to); `to` if there is none.
__device__ const char *line_end(const char *from, const char *to) {
    const char *end = to;
    for_each_byte(from, to, '\n', [&](const char *at) {
        end = at;
        return true;
    });
    return end;
}

// Where the string begins first in [from, to); null if nowhere.
__device__ const char *find(const Job &job, const char *from, const char *to) {
    const char *found = job.length == 0 ? from : nullptr;
    if (job.length != 0 && to - from >= job.length) {
        for_each_byte(from, to - (job.length - 1), job.needle[0], [&](const char *at) {
            unsigned same = 1;
            while (same < job.length && at[same] == job.needle[same]) {
                ++same;
            }
            found = same == job.length ? at : nullptr;
            return found != nullptr;
        });
    }
    return found;
}

// The lines that match of those that begin in [from, to) of a text that ends at `end`; `newlines` are before `from`.
template <class Each>
__device__ void for_each_match(const Job &job, const char *from, const char *to, const char *end, unsigned long long newlines, Each each) {
    while (from < to) {
        // A match may lie in a line that begins before `to` and ends behind it.
        const char *last = line_end(to - 1, end);
        const char *match = find(job, from, last);
        if (match == nullptr) {
            return;
        }
        const char *start = match;
        while (start > from && start[-1] != '\n') {
            --start;
        }
        newlines += newlines_in(from, start);
        from = line_end(match, end);
        each(start, from, ++newlines);
        ++from;
    }
}

__device__ char *put(char *to, const char *from, size_t bytes) {
    for (size_t at = 0; at < bytes; ++at) {
        to[at] = from[at];
    }
    return to + bytes;
}

__device__ unsigned digits_of(unsigned long long number) {
    unsigned digits = 1;
    while (number >= 10) {
        number /= 10;
        ++digits;
    }
    return digits;
}

// A block at its unit.
struct Worker {
    gpufs::Session fs;
    Job *job;
    const char *name;
    unsigned name_bytes, unit, output_before;
    char *out;
    unsigned pending;
    bool has_turn;

    // Writes what is in the buffer, at the unit's turn. All of the block.
    __device__ void print() {
        barrier();
        if (!has_turn && thread_in_block() == 0 && output_before != 0) {
            wait_for(&job->records[output_before - 1].printed);
        }
        has_turn = true;
        barrier();
        // The first thread's call; the others take part with no bytes, and copy.
        const size_t mine = thread_in_block() == 0 ? pending : 0;
        auto written = fwrite(out, 1, mine, gpufs_stdout(fs));
        if (written != mine) {
            atomicExch(&job->troubles, 1u);
        }
        pending = 0;
        barrier();
    }

    __device__ unsigned bytes_of(const char *start, const char *end, unsigned long long number) const {
        return name_bytes + 1 + digits_of(number) + 1 + static_cast<unsigned>(end - start) + 1;
    }
    __device__ char *put_line(char *to, const char *start, const char *end, unsigned long long number) const {
        to = put(to, name, name_bytes);
        *to++ = ':';
        char *behind = to + digits_of(number);
        for (char *digit = behind; digit > to; number /= 10) {
            *--digit = static_cast<char>('0' + number % 10);
        }
        *behind = ':';
        to = put(behind + 1, start, end - start);
        *to = '\n';
        return to + 1;
    }

    // Puts the lines that begin in [from, to) into the buffer, each thread those in its share. All of the block.
    __device__ void print_range(const char *from, const char *to, const char *end, unsigned long long newlines) {
        const unsigned bytes = static_cast<unsigned>(to - from), share = ((bytes + team - 1) / team + 15) / 16 * 16;
        const char *mine = from + least(bytes, share * thread_in_block()), *behind = from + least(bytes, share * (thread_in_block() + 1));
        unsigned in_all;
        newlines += sum_before(newlines_in(mine, behind), in_all);
        // Lines begin behind newlines: behind the one before my share, too.
        if (mine < behind && mine[-1] != '\n') {
            mine = line_end(mine, behind);
            newlines += mine < behind;
            mine += mine < behind;
        }
        unsigned size = 0, total;
        for_each_match(*job, mine, behind, end, newlines,
                       [&](const char *start, const char *stop, unsigned long long number) { size += bytes_of(start, stop, number); });
        const unsigned before = sum_before(size, total);
        if (total == 0) {
            return;
        }
        if (thread_in_block() == 0) {
            atomicExch(&job->matches, 1u);
        }
        if (pending + total > output) {
            print();
        }
        if (total <= output) {
            char *to_here = out + pending + before;
            for_each_match(*job, mine, behind, end, newlines, [&](const char *start, const char *stop, unsigned long long number) {
                to_here = put_line(to_here, start, stop, number);
            });
            pending += total;
            return;
        }
        // Too much for the buffer: one thread's lines after the other's, each by itself.
        for (unsigned thread = 0; thread < team; ++thread) {
            if (thread == thread_in_block()) {
                for_each_match(*job, mine, behind, end, newlines, [&](const char *start, const char *stop, unsigned long long number) {
                    printf(fs, "%s:%llu:", name, number);
                    fwrite(start, 1, static_cast<size_t>(stop - start), gpufs_stdout(fs));
                    printf(fs, "\n");
                });
            }
            barrier();
        }
    }
};

// Reads up to `bytes` bytes; how many there were, or a negated error number. All of the block.
__device__ long long load(gpufs::Session fs, int file, char *into, long long bytes, long long offset) {
    long long done = 0;
    while (done < bytes) {
        // The first thread asks; the others take part with no bytes, and copy.
        const size_t mine = thread_in_block() == 0 ? static_cast<size_t>(bytes - done) : 0;
        auto count = pread(fs, file, into + done, mine, offset + done);
        const long long got = from_first(count < 0 ? -static_cast<long long>(count.error()) : static_cast<long long>(count));
        if (got < 0) {
            return got;
        }
        if (got == 0) {
            break;
        }
        done += got;
    }
    barrier();
    return done;
}

__device__ void search(Worker &worker, const Unit &unit, char *memory_of_block) {
    Job *job = worker.job;
    Record &record = job->records[worker.unit];
    char *text = memory_of_block + lead;
    long long opened = 0, bytes = 0;
    if (thread_in_block() == 0) {
        auto file = open(worker.fs, worker.name, 0 /* O_RDONLY */);
        opened = file < 0 ? -static_cast<long long>(file.error()) : static_cast<long long>(file);
    }
    opened = from_first(opened);
    if (opened >= 0) {
        // As much as keeps the text aligned.
        const unsigned before = unit.is_first ? 0 : lead;
        bytes = load(worker.fs, static_cast<int>(opened), text - before, piece + before, static_cast<long long>(unit.offset) - before);
        bytes = bytes < 0 ? bytes : bytes < before ? 0 : bytes - before;
    }
    if (unit.is_first) {
        text[-1] = '\n';
    }
    const long long error = opened < 0 ? opened : bytes < 0 ? bytes : 0;
    const char *behind = text + (bytes > 0 ? bytes : 0), *end = behind;
    // The last line goes on in the next piece.
    if (bytes == piece && behind[-1] != '\n') {
        const long long more = load(worker.fs, static_cast<int>(opened), text + bytes, longest, static_cast<long long>(unit.offset) + bytes);
        end = line_end(behind, behind + (more > 0 ? more : 0));
    }
    barrier();
    // What is known before the unit before is waited for: whether there is something to print, and how many newlines there are.
    const unsigned share = ((static_cast<unsigned>(behind - text) + team - 1) / team + 15) / 16 * 16;
    const char *mine = least<const char *>(text + share * thread_in_block(), behind), *stop = least(mine + share, behind);
    unsigned newlines, matching;
    sum_before(newlines_in(mine, stop), newlines);
    const char *reach = stop == behind ? end : least(stop + job->length, end);
    sum_before(mine < stop && find(*job, mine, reach) != nullptr, matching);

    __shared__ unsigned long long newlines_before;
    __shared__ unsigned output_before;
    if (thread_in_block() == 0) {
        newlines_before = 0;
        output_before = 0;
        if (worker.unit != 0) {
            Record &before = job->records[worker.unit - 1];
            wait_for(&before.known);
            newlines_before = unit.is_first ? 0 : before.newlines;
            output_before = before.last_output;
        }
        record.newlines = newlines_before + newlines;
        record.last_output = matching != 0 ? worker.unit + 1 : output_before;
        publish(&record.known);
    }
    barrier();
    worker.output_before = output_before;
    unsigned long long counted = newlines_before;
    barrier();
    if (matching != 0) {
        const char *from = text;
        while (from < behind) {
            const char *to = least(from + range, behind);
            worker.print_range(from, to, end, counted);
            unsigned in_range;
            const unsigned part = range / team;
            const char *one = least(from + part * thread_in_block(), to);
            sum_before(newlines_in(one, least(one + part, to)), in_range);
            counted += in_range;
            from = to;
        }
        worker.print();
        if (thread_in_block() == 0) {
            publish(&record.printed);
        }
    }
    if (thread_in_block() == 0) {
        if (error != 0) {
            fprintf(gpufs_stderr(worker.fs), "grep: %s: error %d\n", worker.name, static_cast<int>(-error));
            atomicExch(&job->troubles, 1u);
        }
        if (opened >= 0) {
            close(worker.fs, static_cast<int>(opened));
        }
    }
}

__global__ void grep(gpufs_session *session, Job *job) {
    char *memory_of_block = job->texts + static_cast<size_t>(block()) * memory;
    for (;;) {
        const auto unit = static_cast<unsigned>(from_first(thread_in_block() == 0 ? atomicAdd(&job->next, 1u) : 0));
        if (unit >= job->count) {
            return;
        }
        const unsigned *start = job->starts + job->units[unit].file;
        Worker worker = {session, job, job->names + start[0], start[1] - start[0] - 1, unit, 0, memory_of_block + lead + piece + longest, 0, false};
        search(worker, job->units[unit], memory_of_block);
    }
}

// Memory of the GPU, with what the host gives for it, or zeros; it stays until the program ends.
template <class T>
T *on_gpu(const T *from, size_t count) {
    void *memory = nullptr;
    const size_t bytes = (count + (count == 0)) * sizeof(T);
    if (hipMalloc(&memory, bytes) != hipSuccess ||
        (from == nullptr ? hipMemset(memory, 0, bytes) : hipMemcpy(memory, from, count * sizeof(T), hipMemcpyHostToDevice)) != hipSuccess) {
        std::fprintf(stderr, "grep: no memory on the GPU\n");
        std::exit(2);
    }
    return static_cast<T *>(memory);
}

int fail(const char *what, const char *why) {
    std::fprintf(stderr, "grep: %s: %s\n", what, why);
    return 2;
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: grep STRING FILE...\n");
        return 2;
    }
    std::string names;
    std::vector<unsigned> starts;
    std::vector<Unit> units;
    for (int index = 2; index < argc; ++index) {
        starts.push_back(static_cast<unsigned>(names.size()));
        names.append(argv[index]).push_back('\0');
        // What cannot be looked at, or is no file, is one piece: whoever opens or reads it says what is wrong.
        struct stat status = {};
        const bool is_file = stat(argv[index], &status) == 0 && S_ISREG(status.st_mode);
        const unsigned long long bytes = is_file ? static_cast<unsigned long long>(status.st_size) : 0;
        unsigned long long offset = 0;
        do {
            units.push_back(Unit{static_cast<unsigned>(index - 2), offset == 0, offset});
            offset += piece;
        } while (offset < bytes);
    }
    starts.push_back(static_cast<unsigned>(names.size()));
    const size_t length = std::strlen(argv[1]);
    if (length > longest) {
        return fail(argv[1], "too long a string");
    }
    gpufs_options options = {};
    options.size = sizeof options;
    // What one thread of the system copies from the page cache is a fraction of the bus.
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    options.rings = static_cast<uint32_t>(cores >= 16 ? 8 : cores >= 2 ? cores / 2 : 1);
    gpufs_host *host = gpufs_host_open(GPUFS_GPU, 0, &options);
    if (host == nullptr) {
        return fail("opening a session", gpufs_last_error());
    }
    Job job = {};
    job.needle = on_gpu(argv[1], length + 1);
    job.length = static_cast<unsigned>(length);
    job.names = on_gpu(names.data(), names.size());
    job.starts = on_gpu(starts.data(), starts.size());
    job.units = on_gpu(units.data(), units.size());
    job.records = on_gpu<Record>(nullptr, units.size());
    job.count = static_cast<unsigned>(units.size());
    job.texts = on_gpu<char>(nullptr, static_cast<size_t>(blocks) * memory);
    Job *placed = on_gpu(&job, 1);
    if (gpufs_host_begin(host) != 0) {
        return fail("beginning", gpufs_last_error());
    }
    grep<<<blocks, team>>>(gpufs_host_session(host), placed);
    const hipError_t launched = hipGetLastError();
    if (launched != hipSuccess) {
        return fail("launching", hipGetErrorString(launched));
    }
    if (gpufs_host_synchronize(host) != 0) {
        return fail("searching", gpufs_last_error());
    }
    if (hipMemcpy(&job, placed, sizeof job, hipMemcpyDeviceToHost) != hipSuccess) {
        return fail("the job", "it cannot be read");
    }
    const int result = job.troubles != 0 ? 2 : job.matches == 0 ? 1 : 0;
    return gpufs_host_close(host) == 0 ? result : fail("closing", gpufs_last_error());
}
