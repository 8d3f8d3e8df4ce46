// The search that examples/cuda/grep.cu and examples/hip/grep.hip have in common.
//
// The host divides the files into pieces. A block draws one and reads it into device memory, and each of its threads searches the lines that begin
// in its share. After the search, a block passes the number of lines to the block with the next piece. A block fills a buffer with its output before
// its turn to print comes: its turn is then one call of fwrite. A line with more than 64 KiB in the next piece is cut, and every file is searched as
// a text; apps/src/bin/grep.rs has binary files, options, and lines of any length.
#ifndef GREP_H
#define GREP_H

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <err.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpufs/file.h>
#include <gpufs/host.h>
#include <gpufs/stdio.h>

#include "grep_text.h"

namespace grep {

constexpr unsigned lead = 16;             // before a piece: its last byte says whether a line begins with the piece
constexpr unsigned longest = 64 << 10;    // the most of a line that is in the next piece
constexpr unsigned look_ahead = 4 << 10;  // read with the piece: most lines end there
constexpr unsigned step = 64 << 10;       // pieces are multiples of it
constexpr unsigned least_piece = 128 << 10, most_piece = 1 << 20;
constexpr unsigned short_line = 256;      // one thread copies a shorter line alone
constexpr unsigned long long memory_max = 2ull << 30; // of the GPU's

struct Unit {
    unsigned file;
    unsigned short is_first, is_last;
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
    const char *names;      // each with its NUL
    const unsigned *starts; // where each name begins
    const Unit *units;
    Record *records;
    unsigned count, next;   // the units, and the next to draw
    unsigned piece, output; // bytes of a piece, and of the output buffer
    char *memory;           // block_bytes() for each block
    unsigned matches;       // 1 if a line was printed
    unsigned troubles;      // 1 if a file could not be read, or the output not written

    // Each part is a multiple of 16 bytes.
    __host__ __device__ size_t block_bytes() const { return static_cast<size_t>(lead) + piece + longest + output; }
};

// A block that searches its unit.
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
            // Ends: units are drawn in order, and the lowest one in work never waits.
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

    __device__ unsigned bytes_before(unsigned long long number) const { return name_bytes + digits_of(number) + 2; }

    // Writes what is printed before a line; returns the place after it.
    __device__ char *put_number(char *to, unsigned long long number) const {
        copy(to, name, name_bytes, 0, 1);
        to += name_bytes;
        *to++ = ':';
        char *after = to + digits_of(number);
        for (char *digit = after; digit > to; number /= 10) {
            *--digit = static_cast<char>('0' + number % 10);
        }
        *after = ':';
        return after + 1;
    }

    // Puts each thread's lines at its `to`. All of the block.
    __device__ void put_lines(Lines lines, char *to) const {
        struct Copy {
            char *to;
            const char *from;
            size_t bytes;
        };
        __shared__ Copy copies[team];
        const unsigned thread = thread_in_block();
        for (;;) {
            const bool has = lines.next(job->needle, job->length);
            const size_t bytes = has ? static_cast<size_t>(lines.stop - lines.start) : 0;
            const bool is_long = bytes > short_line;
            if (has) {
                to = put_number(to, lines.number);
                copy(to, lines.start, is_long ? 0 : bytes, 0, 1);
                copies[thread] = Copy{to, lines.start, is_long ? bytes : 0};
                to += bytes;
                *to++ = '\n';
            } else {
                copies[thread].bytes = 0;
            }
            const unsigned long long found = sum(has + (is_long ? 1ull << 32 : 0));
            if (found == 0) {
                return;
            }
            // All threads copy a long line together.
            if (found >> 32 != 0) {
                for (unsigned line = 0; line < team; ++line) {
                    copy(copies[line].to, copies[line].from, copies[line].bytes, thread, team);
                }
                barrier();
            }
        }
    }

    // Puts the lines that begin in [from, to) into the buffer, each thread those in its share, and adds the newlines there. False, with nothing
    // done, if they are more than the buffer holds. All of the block.
    __device__ bool put_range(const char *from, const char *to, const char *end, unsigned long long &newlines) {
        const unsigned bytes = static_cast<unsigned>(to - from), share = ((bytes + team - 1) / team + 15) / 16 * 16;
        const char *mine = from + least(bytes, share * thread_in_block()), *after = from + least(bytes, share * (thread_in_block() + 1));
        unsigned long long in_all, total;
        Lines lines = {mine, after, end, newlines, nullptr, nullptr, 0};
        lines.newlines += sum_before(newlines_in(mine, after), in_all);
        // A line begins after a newline, which may be the last byte before my share.
        if (mine < after && mine[-1] != '\n') {
            mine = line_end(mine, after);
            lines.newlines += mine < after;
            lines.from = mine + (mine < after);
        }
        unsigned long long size = 0;
        for (Lines each = lines; each.next(job->needle, job->length);) {
            size += bytes_before(each.number) + static_cast<unsigned long long>(each.stop - each.start) + 1;
        }
        const unsigned long long before = sum_before(size, total);
        if (total > job->output) {
            return false;
        }
        if (total != 0) {
            if (thread_in_block() == 0) {
                atomicExch(&job->matches, 1u);
            }
            if (pending + total > job->output) {
                print();
            }
            put_lines(lines, out + pending + before);
            pending += static_cast<unsigned>(total);
        }
        newlines += in_all;
        return true;
    }

    // Prints the lines that begin in [from, to): with one call, or range by range if they are more than the buffer holds. All of the block.
    __device__ void print_lines(const char *from, const char *to, const char *end, unsigned long long newlines) {
        for (unsigned range = job->piece; from < to;) {
            const char *stop = from + least(static_cast<size_t>(range), static_cast<size_t>(to - from));
            if (put_range(from, stop, end, newlines)) {
                from = stop;
            } else {
                // Ends: a line with its name fits, and at most one begins in a range of one byte.
                range = range < 8 ? 1 : range / 4;
            }
        }
        print();
        if (thread_in_block() == 0) {
            publish(&job->records[unit].printed);
        }
    }

    // Tells the next unit the number of newlines before its text, and the last unit with output before it; returns what the unit before told
    // this one.
    __device__ unsigned long long pass_on(unsigned long long newlines, bool prints) {
        __shared__ unsigned long long newlines_before;
        __shared__ unsigned last_output;
        if (thread_in_block() == 0) {
            Record &record = job->records[unit];
            newlines_before = 0;
            last_output = 0;
            if (unit != 0) {
                Record &before = job->records[unit - 1];
                wait_for(&before.known);
                newlines_before = job->units[unit].is_first ? 0 : before.newlines;
                last_output = before.last_output;
            }
            record.newlines = newlines_before + newlines;
            record.last_output = prints ? unit + 1 : last_output;
            publish(&record.known);
        }
        barrier();
        const unsigned long long before = newlines_before;
        output_before = last_output;
        barrier();
        return before;
    }
};

// Reads up to `bytes` bytes; returns their number, or a negated error number. All of the block.
__device__ inline long long load(gpufs::Session fs, int file, char *into, long long bytes, long long offset) {
    long long done = 0;
    while (done < bytes) {
        // The first thread requests the bytes; the others request none, take part in the call, and copy.
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

__device__ inline void search(Worker &worker, const Unit &unit, char *text) {
    const Job *job = worker.job;
    const unsigned piece = job->piece;
    const auto offset = static_cast<long long>(unit.offset);
    long long file = 0, bytes = 0;
    if (thread_in_block() == 0) {
        auto opened = open(worker.fs, worker.name, GPUFS_O_RDONLY);
        file = opened < 0 ? -static_cast<long long>(opened.error()) : static_cast<long long>(opened);
    }
    file = from_first(file);
    if (file >= 0) {
        // The lead before the text keeps it aligned.
        const unsigned before = unit.is_first ? 0 : lead;
        bytes = load(worker.fs, static_cast<int>(file), text - before, before + piece + look_ahead, offset - before);
        bytes = bytes < before ? least(bytes, 0ll) : bytes - before;
    }
    if (unit.is_first && thread_in_block() == 0) {
        text[-1] = '\n';
    }
    const long long error = file < 0 ? file : least(bytes, 0ll);
    bytes = error < 0 ? 0 : bytes;
    const char *after = text + least<long long>(bytes, piece), *end = after;
    barrier();
    // The last line goes on in the next piece.
    if (bytes >= piece && after[-1] != '\n') {
        end = line_end(after, text + bytes);
        if (end == after + look_ahead) {
            const long long more = load(worker.fs, static_cast<int>(file), text + bytes, longest - look_ahead, offset + bytes);
            end = line_end(end, end + (more > 0 ? more : 0));
        }
    }
    // Before it waits for the unit before: whether there is something to print, and the number of newlines.
    const auto held = static_cast<unsigned>(after - text), share = ((held + team - 1) / team + 15) / 16 * 16;
    const char *mine = text + least(held, share * thread_in_block()), *stop = text + least(held, share * (thread_in_block() + 1));
    const unsigned long long newlines = sum(newlines_in(mine, stop));
    const char *reach = stop == after ? end : stop + least<long long>(job->length, end - stop);
    const bool prints = sum(mine < stop && find(job->needle, job->length, mine, reach) != nullptr) != 0;

    const unsigned long long before = worker.pass_on(newlines, prints);
    if (prints) {
        worker.print_lines(text, after, end, before);
    }
    if (thread_in_block() == 0) {
        if (error != 0) {
            fprintf(gpufs_stderr(worker.fs), "grep: %s: error %d\n", worker.name, static_cast<int>(-error));
        } else if (unit.is_last && bytes > piece) {
            fprintf(gpufs_stderr(worker.fs), "grep: %s: longer than stat(2) said; searched up to byte %lld\n", worker.name, offset + piece);
        }
        if (error != 0 || (unit.is_last && bytes > piece)) {
            atomicExch(&worker.job->troubles, 1u);
        }
        if (file >= 0) {
            close(worker.fs, static_cast<int>(file));
        }
    }
}

// What the kernel does.
__device__ inline void search_all(gpufs::Session fs, Job *job) {
    char *text = job->memory + block() * job->block_bytes() + lead, *out = text + job->piece + longest;
    for (;;) {
        const auto unit = static_cast<unsigned>(from_first(thread_in_block() == 0 ? atomicAdd(&job->next, 1u) : 0));
        if (unit >= job->count) {
            return;
        }
        const unsigned *start = job->starts + job->units[unit].file;
        Worker worker = {fs, job, job->names + start[0], start[1] - start[0] - 1, unit, 0, out, 0, false};
        search(worker, job->units[unit], text);
    }
}

// The files as units, and what the kernel needs for them.
struct Plan {
    std::string names;
    std::vector<unsigned> starts;
    std::vector<Unit> units;
    unsigned piece = least_piece, blocks = 0;
};

// Divides the files for up to `blocks` blocks, about four pieces each. With fewer pieces some blocks have no work at the end; each piece costs a wait
// for its turn.
inline Plan divide(int files, char **names, unsigned blocks) {
    Plan plan;
    std::vector<unsigned long long> sizes;
    unsigned long long total = 0;
    for (int file = 0; file < files; ++file) {
        plan.starts.push_back(static_cast<unsigned>(plan.names.size()));
        plan.names.append(names[file]).push_back('\0');
        // A file whose length is unknown, or a directory, is one piece: the block that opens or reads it reports the error.
        struct stat status = {};
        const bool is_file = stat(names[file], &status) == 0 && S_ISREG(status.st_mode);
        sizes.push_back(is_file ? static_cast<unsigned long long>(status.st_size) : 0);
        total += sizes.back();
    }
    plan.starts.push_back(static_cast<unsigned>(plan.names.size()));
    const unsigned long long wanted = total / (4ull * blocks) / step * step;
    plan.piece = static_cast<unsigned>(wanted < least_piece ? least_piece : least<unsigned long long>(wanted, most_piece));
    for (int file = 0; file < files; ++file) {
        unsigned long long offset = 0;
        do {
            const bool is_last = sizes[file] - offset <= plan.piece;
            plan.units.push_back(Unit{static_cast<unsigned>(file), offset == 0, is_last, offset});
            offset += plan.piece;
        } while (offset < sizes[file]);
    }
    plan.blocks = static_cast<unsigned>(least<size_t>(blocks, plan.units.size()));
    return plan;
}

// Fits the plan into the `available` bytes of the GPU's memory, with fewer blocks if need be. Ends the program where it does not fit.
inline void fit(Plan &plan, Job &job, unsigned long long available) {
    job.count = static_cast<unsigned>(plan.units.size());
    job.piece = plan.piece;
    // A line takes at most a name, a number, a piece, and what it has in the next one.
    job.output = 2 * plan.piece;
    static_assert(2 * least_piece >= GPUFS_PATH_BYTES + 32 + least_piece + longest, "a line fits");
    const unsigned long long tables = plan.names.size() + plan.starts.size() * sizeof(unsigned) + plan.units.size() * (sizeof(Unit) + sizeof(Record));
    const unsigned long long limit = least(memory_max, available), least_bytes = tables + job.block_bytes();
    if (least_bytes > limit || plan.units.size() != job.count) {
        errx(2, "%zu files in %zu pieces take %llu MiB of the GPU's memory, and grep takes at most %llu MiB: name fewer at a time",
             plan.starts.size() - 1, plan.units.size(), (least_bytes >> 20) + 1, limit >> 20);
    }
    plan.blocks = static_cast<unsigned>(least<unsigned long long>(plan.blocks, (limit - tables) / job.block_bytes()));
}

inline gpufs_options options() {
    gpufs_options options = {};
    options.size = sizeof options;
    // One thread of the system copies from the page cache at a fraction of the speed of the bus.
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    options.rings = static_cast<uint32_t>(cores >= 16 ? 8 : cores >= 2 ? cores / 2 : 1);
    return options;
}

} // namespace grep

#endif
