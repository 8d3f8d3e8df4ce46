// What one thread of the grep of examples/cuda and examples/hip does with text in memory, and how threads and blocks wait for each other.
#ifndef GREP_TEXT_H
#define GREP_TEXT_H

#include <cstddef>
#include <cstdint>

#include <gpufs/gpufs.h>

namespace grep {

constexpr unsigned team = 32; // threads of a block: one warp, so that a barrier is cheap

// HIP programs that are built without ROCm's device library have to do without HIP's own barriers, fences and indices.
#ifdef __HIP_PLATFORM_AMD__
__device__ inline void fence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
__device__ inline void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
__device__ inline unsigned thread_in_block() { return gpufs_thread_in_block(); }
__device__ inline unsigned block() { return gpufs_block(); }
__device__ inline int lowest_bit(unsigned long long word) { return __builtin_ctzll(word); }
#else
__device__ inline void fence() { __threadfence(); }
__device__ inline void barrier() { __syncthreads(); }
__device__ inline unsigned thread_in_block() { return threadIdx.x; }
__device__ inline unsigned block() { return blockIdx.x; }
__device__ inline int lowest_bit(unsigned long long word) { return __ffsll(static_cast<long long>(word)) - 1; }
#endif

template <class T>
__host__ __device__ T least(T one, T other) {
    return one < other ? one : other;
}

// A word through which one block tells others that its writes are done: what it wrote before publish is visible after wait.
__device__ inline void publish(unsigned *word) {
    fence();
    atomicExch(word, 1u);
}
// One thread. Ends: the block that publishes waits for no block that waits for this one.
__device__ inline void wait_for(unsigned *word) {
    for (unsigned nap = 32; atomicAdd(word, 0u) == 0; nap = least(2 * nap, 512u)) {
        gpufs_nap(nap);
    }
    fence();
}

// The sum of the lower threads' values; in `total` that of all. Called by all of a block.
__device__ inline unsigned long long sum_before(unsigned long long value, unsigned long long &total) {
    __shared__ unsigned long long values[team];
    values[thread_in_block()] = value;
    barrier();
    unsigned long long before = 0;
    total = 0;
    for (unsigned thread = 0; thread < team; ++thread) {
        before += thread < thread_in_block() ? values[thread] : 0;
        total += values[thread];
    }
    barrier();
    return before;
}

__device__ inline unsigned long long sum(unsigned long long value) {
    unsigned long long total = 0;
    sum_before(value, total);
    return total;
}

// The first thread's value, in all of a block.
__device__ inline long long from_first(long long value) {
    __shared__ long long shared;
    if (thread_in_block() == 0) {
        shared = value;
    }
    barrier();
    value = shared;
    barrier();
    return value;
}

// The highest bit of each byte of `word` that equals the byte repeated in `wanted`; no other bit.
__device__ inline unsigned long long equal(unsigned long long word, unsigned long long wanted) {
    constexpr unsigned long long low = 0x7f7f7f7f7f7f7f7full;
    const unsigned long long differs = word ^ wanted;
    return ~(((differs & low) + low) | differs | low);
}

// The unit of loads. Memory that holds text begins and ends at multiples of its size.
struct alignas(16) Word {
    unsigned long long half[2];
};

// Calls `each` with the place of each byte of [from, to) that is `byte`, in order, until it returns true.
template <class Each>
__device__ bool for_each_byte(const char *from, const char *to, char byte, Each each) {
    const unsigned long long wanted = 0x0101010101010101ull * static_cast<unsigned char>(byte);
    auto look = [&](unsigned long long half, const char *at) {
        unsigned long long found = equal(half, wanted);
        // The first and the last word extend beyond the text.
        if (at < from) {
            found = from - at < 8 ? found & ~0ull << 8 * (from - at) : 0;
        }
        if (to - at < 8) {
            found = at < to ? found & ~0ull >> 8 * (8 - (to - at)) : 0;
        }
        for (; found != 0; found &= found - 1) {
            if (each(at + lowest_bit(found) / 8)) {
                return true;
            }
        }
        return false;
    };
    constexpr int at_once = 4; // loads in flight
    const char *at = from - reinterpret_cast<uintptr_t>(from) % sizeof(Word);
    for (; to - at >= static_cast<ptrdiff_t>(at_once * sizeof(Word)); at += at_once * sizeof(Word)) {
        Word words[at_once];
        for (int index = 0; index < at_once; ++index) {
            words[index] = reinterpret_cast<const Word *>(at)[index];
        }
        for (int index = 0; index < 2 * at_once; ++index) {
            if (look(words[index / 2].half[index % 2], at + 8 * index)) {
                return true;
            }
        }
    }
    for (; at < to; at += sizeof(Word)) {
        const Word word = *reinterpret_cast<const Word *>(at);
        if (look(word.half[0], at) || look(word.half[1], at + 8)) {
            return true;
        }
    }
    return false;
}

__device__ inline unsigned newlines_in(const char *from, const char *to) {
    unsigned count = 0;
    for_each_byte(from, to, '\n', [&](const char *) {
        ++count;
        return false;
    });
    return count;
}

// The first newline in [from, to); `to` if there is none.
__device__ inline const char *line_end(const char *from, const char *to) {
    const char *end = to;
    for_each_byte(from, to, '\n', [&](const char *at) {
        end = at;
        return true;
    });
    return end;
}

// The first place of the string in [from, to); null if there is none.
__device__ inline const char *find(const char *string, unsigned length, const char *from, const char *to) {
    const char *found = length == 0 ? from : nullptr;
    if (length != 0 && to - from >= length) {
        for_each_byte(from, to - (length - 1), string[0], [&](const char *at) {
            unsigned same = 1;
            while (same < length && at[same] == string[same]) {
                ++same;
            }
            found = same == length ? at : nullptr;
            return found != nullptr;
        });
    }
    return found;
}

// Iterates over a thread's matching lines: those that begin in [from, to) of a text that ends at `end`.
struct Lines {
    const char *from, *to, *end;
    unsigned long long newlines; // before `from`

    // The line found last, without its newline, and its number.
    const char *start, *stop;
    unsigned long long number;

    __device__ bool next(const char *string, unsigned length) {
        if (from >= to) {
            return false;
        }
        // A match may lie in a line that begins before `to` and ends after it.
        const char *match = find(string, length, from, line_end(to - 1, end));
        if (match == nullptr) {
            from = to;
            return false;
        }
        start = from;
        for_each_byte(from, match, '\n', [&](const char *at) {
            start = at + 1;
            ++newlines;
            return false;
        });
        stop = line_end(match, end);
        from = stop + 1;
        number = ++newlines;
        return true;
    }
};

// Copies bytes, by `threads` threads of which this is number `thread`; a word at a time, combined from the two aligned words that contain it.
__device__ inline void copy(char *to, const char *from, size_t bytes, unsigned thread, unsigned threads) {
    using Eight = unsigned long long;
    const size_t head = least(bytes, static_cast<size_t>(-reinterpret_cast<uintptr_t>(to) % 8)), words = (bytes - head) / 8;
    for (size_t at = thread; at < head; at += threads) {
        to[at] = from[at];
    }
    const unsigned skew = reinterpret_cast<uintptr_t>(from + head) % 8;
    const auto *source = reinterpret_cast<const Eight *>(from + head - skew);
    auto *target = reinterpret_cast<Eight *>(to + head);
    for (size_t at = thread; at < words; at += threads) {
        target[at] = skew == 0 ? source[at] : source[at] >> 8 * skew | source[at + 1] << (64 - 8 * skew);
    }
    for (size_t at = head + 8 * words + thread; at < bytes; at += threads) {
        to[at] = from[at];
    }
}

__device__ inline unsigned digits_of(unsigned long long number) {
    unsigned digits = 1;
    for (; number >= 10; number /= 10) {
        ++digits;
    }
    return digits;
}

} // namespace grep

#endif
