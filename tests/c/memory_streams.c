/* Streams on memory, from C on CPU lanes: right use, each wrong one, and random sequences beside the C library's own
 * fmemopen and open_memstream. */
#include "check.h"

#include <errno.h>
#include <stdint.h>
#include <wchar.h>

#include <gpufs/file.h>
#include <gpufs/host.h>
#include <gpufs/stdio.h>

static void right(gpufs_session *fs, void *argument) {
    char memory[12] = "0123456789A", line[16];
    gpufs_file *file = gpufs_fmemopen(fs, memory, sizeof memory, "w");
    (void)argument;
    /* The text is in the memory after a flush, not before. */
    CHECK(file != NULL && gpufs_fprintf(file, "%d", 17) == 2 && memcmp(memory, "01", 2) == 0);
    CHECK(gpufs_fflush(file) == 0 && memcmp(memory, "17\0003456789A", 12) == 0);
    /* A seek of the opener's flushes, too. */
    CHECK(gpufs_fputs("ab", file) == 0 && gpufs_fseek(file, 1, SEEK_SET) == 0 && strcmp(memory, "17ab") == 0);
    CHECK(gpufs_fputc('x', file) == 'x' && gpufs_fclose(file) == 0 && strcmp(memory, "1xab") == 0);
    CHECK_FAILS(gpufs_fclose(file), EOF, EBADF);
    /* Read and append what is there. */
    file = gpufs_fmemopen(fs, memory, sizeof memory, "a+");
    CHECK(file != NULL && gpufs_ftell(file) == 4 && gpufs_fputs("!", file) == 0 && gpufs_fseek(file, 0, SEEK_SET) == 0);
    CHECK(gpufs_fgets(line, sizeof line, file) == line && strcmp(line, "1xab!") == 0 && gpufs_fclose(file) == 0);
    /* All of it, the NUL as well. */
    file = gpufs_fmemopen(fs, memory, sizeof memory, "r");
    CHECK(file != NULL && gpufs_fread(line, 1, sizeof line, file) == 12 && memcmp(line, memory, 12) == 0);
    CHECK(gpufs_feof(file) && gpufs_fclose(file) == 0);
    /* Memory of its own. */
    file = gpufs_fmemopen(fs, NULL, 8, "w+");
    CHECK(file != NULL && gpufs_fputs("12345", file) == 0 && gpufs_fseek(file, 2, SEEK_SET) == 0);
    CHECK(gpufs_fgetc(file) == '3' && gpufs_fclose(file) == 0);
    file = gpufs_fmemopen(fs, NULL, 8, "r");
    CHECK(file != NULL && gpufs_fread(line, 1, sizeof line, file) == 8 && line[7] == 0 && gpufs_fclose(file) == 0);
    /* A text that grows. */
    char *text = NULL;
    size_t size = 99;
    file = gpufs_open_memstream(fs, &text, &size);
    CHECK(file != NULL && gpufs_fputs("hello", file) == 0 && gpufs_fflush(file) == 0 && size == 5 && strcmp(text, "hello") == 0);
    for (int i = 0; i < 1000; i++) CHECK(gpufs_fprintf(file, " %d", i) > 0);
    CHECK(gpufs_fflush(file) == 0 && size == 5 + 3890 && strlen(text) == size && memcmp(text + size - 4, " 999", 4) == 0);
    CHECK(gpufs_fseek(file, 0, SEEK_SET) == 0 && gpufs_fputc('J', file) == 'J' && gpufs_fclose(file) == 0);
    CHECK(size == 1 && memcmp(text, "Jello 0", 7) == 0);
    GPUFS_FREE(text);
    CHECK_FAILS(gpufs_fclose(file), EOF, EBADF);
    text = NULL;
    file = gpufs_open_memstream(fs, &text, &size);
    CHECK(file != NULL && gpufs_fclose(file) == 0 && size == 0 && text != NULL && *text == 0);
    GPUFS_FREE(text);
    /* Beyond the end, from the end, and without writing there. */
    file = gpufs_open_memstream(fs, &text, &size);
    CHECK(file != NULL && gpufs_fputs("abc", file) == 0 && gpufs_fseek(file, 6, SEEK_SET) == 0 && gpufs_fflush(file) == 0);
    CHECK(size == 3 && strcmp(text, "abc") == 0 && gpufs_ftell(file) == 6 && gpufs_fputs("g", file) == 0);
    CHECK(gpufs_fflush(file) == 0 && size == 7 && memcmp(text, "abc\0\0\0g", 8) == 0);
    CHECK(gpufs_fseek(file, -1, SEEK_END) == 0 && gpufs_fflush(file) == 0 && size == 6 && gpufs_fputs("HI", file) == 0);
    CHECK(gpufs_fclose(file) == 0 && size == 8 && memcmp(text, "abc\0\0\0HI", 9) == 0);
    GPUFS_FREE(text);
    /* Of wide characters. */
    wchar_t *wide = NULL;
    file = gpufs_open_wmemstream(fs, &wide, &size);
    CHECK(file != NULL && gpufs_fprintf(file, "%lc\xc3\xa4%s", (unsigned)L'w', "x") == 4 && gpufs_fflush(file) == 0);
    CHECK(size == 3 && wmemcmp(wide, L"w\u00e4x", 4) == 0);
    for (int i = 0; i < 1000; i++) CHECK(gpufs_fputs("\xf0\x9f\x98\x80", file) == 0);
    CHECK(gpufs_fseek(file, 0, SEEK_SET) == 0 && gpufs_fputc('W', file) == 'W' && gpufs_fclose(file) == 0);
    CHECK(size == 1 && wide[0] == L'W' && wide[2] == L'x' && wide[1002] == (wchar_t)0x1f600 && wide[1003] == 0);
    GPUFS_FREE(wide);
    file = gpufs_open_wmemstream(fs, &wide, &size);
    CHECK(file != NULL && gpufs_fputc(0xff, file) == 0xff);
    CHECK_FAILS(gpufs_fflush(file), EOF, EILSEQ);
    CHECK_FAILS(gpufs_fclose(file), EOF, EILSEQ);
    GPUFS_FREE(wide);
}

static void wrong(gpufs_session *fs, void *argument) {
    char memory[8] = "0123456", *text = NULL;
    size_t size;
    (void)argument;
    CHECK_FAILS(gpufs_fmemopen(NULL, memory, 8, "r"), NULL, EINVAL);
    CHECK_FAILS(gpufs_fmemopen(fs, memory, 8, "q"), NULL, EINVAL);
    CHECK_FAILS(gpufs_fmemopen(fs, memory, 8, ""), NULL, EINVAL);
    CHECK_FAILS(gpufs_fmemopen(fs, memory, 8, NULL), NULL, EFAULT);
    CHECK_FAILS(gpufs_fmemopen(fs, memory, (size_t)-1, "r"), NULL, EINVAL);
    gpufs_file *file = gpufs_fmemopen(fs, memory, 8, "r");
    CHECK_FAILS(gpufs_fputc('x', file), EOF, EBADF);
    CHECK_FAILS(gpufs_fileno(file), -1, EBADF);
    CHECK_FAILS(gpufs_fseek(file, 9, SEEK_SET), -1, EINVAL);
    CHECK_FAILS(gpufs_fseek(file, -1, SEEK_SET), -1, EINVAL);
    CHECK(gpufs_fseek(file, 8, SEEK_SET) == 0 && gpufs_fgetc(file) == EOF && gpufs_fclose(file) == 0);
    file = gpufs_fmemopen(fs, memory, 8, "w");
    CHECK_FAILS(gpufs_fgetc(file), EOF, EBADF);
    CHECK(gpufs_fputs("more than fits", file) == 0);
    CHECK_FAILS(gpufs_fflush(file), EOF, ENOSPC);
    CHECK(gpufs_ferror(file) && memcmp(memory, "more th\0", 8) == 0 && gpufs_fclose(file) == 0);
    file = gpufs_fmemopen(fs, memory, 8, "a");
    CHECK(gpufs_fputs("xyz", file) == 0);
    CHECK_FAILS(gpufs_fclose(file), EOF, ENOSPC);
    CHECK(memcmp(memory, "more thx", 8) == 0);
    /* No bytes at all. */
    file = gpufs_fmemopen(fs, memory, 0, "r");
    CHECK(file != NULL && gpufs_fgetc(file) == EOF && gpufs_feof(file) && gpufs_fclose(file) == 0);
    file = gpufs_fmemopen(fs, NULL, 0, "w");
    CHECK(file != NULL && gpufs_fputc('x', file) == 'x');
    CHECK_FAILS(gpufs_fclose(file), EOF, ENOSPC);
    CHECK_FAILS(gpufs_open_memstream(NULL, &text, &size), NULL, EINVAL);
    CHECK_FAILS(gpufs_open_memstream(fs, NULL, &size), NULL, EINVAL);
    CHECK_FAILS(gpufs_open_memstream(fs, &text, NULL), NULL, EINVAL);
    CHECK_FAILS(gpufs_open_wmemstream(fs, NULL, &size), NULL, EINVAL);
    file = gpufs_open_memstream(fs, &text, &size);
    CHECK_FAILS(gpufs_fgetc(file), EOF, EBADF);
    CHECK_FAILS(gpufs_fileno(file), -1, EBADF);
    CHECK_FAILS(gpufs_fseek(file, -1, SEEK_SET), -1, EINVAL);
    CHECK(gpufs_fclose(file) == 0 && size == 0);
    GPUFS_FREE(text);
}

/* More streams than the session has, and all are there again. */
static void all(gpufs_session *fs, void *argument) {
    static gpufs_file *files[4096];
    char memory[4];
    int count = 0;
    (void)argument;
    for (int round = 0; round < 2; round++) {
        int before = count;
        for (count = 0; count < 4096; count++) {
            errno = 0;
            files[count] = gpufs_fmemopen(fs, memory, 4, "w");
            if (files[count] == NULL) break;
        }
        CHECK(count > 0 && errno == EMFILE && (round == 0 || count == before));
        for (int i = 0; i < count; i++) CHECK(gpufs_fclose(files[i]) == 0);
    }
}

/* splitmix64 */
static uint64_t draw(uint64_t *state) {
    uint64_t mixed = *state += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

#define AGREE(ours, theirs)                                                                                \
    do {                                                                                                   \
        long long our_value = (long long)(ours), their_value = (long long)(theirs);                        \
        if (our_value != their_value) {                                                                    \
            fprintf(stderr, "%s:%d: seed %#llx, mode %s, %d bytes: %s is %lld, the C library has %lld\n%s\n", \
                    __FILE__, __LINE__, (unsigned long long)seed, mode, (int)limit, #ours, our_value,      \
                    their_value, said);                                                                    \
            abort();                                                                                       \
        }                                                                                                  \
    } while (0)

static uint64_t first_seed = 1;

/* fmemopen: each lane compares sequences of its own. */
static void fixed(gpufs_session *fs, void *argument) {
    static const char *const modes[] = {"r", "w", "a", "r+", "w+", "a+", "rb", "w+b", "a+b", "r+b"};
    const int sequences = *(const int *)argument;
    for (int sequence = 0; sequence < sequences; sequence++) {
        const uint64_t seed = first_seed + gpufs_thread() * 1000003u + (uint64_t)sequence;
        uint64_t state = seed;
        const char *mode = modes[draw(&state) % 10];
        const int updates = strchr(mode, '+') != NULL, reads = *mode == 'r' || updates, writes = *mode != 'r' || updates;
        size_t limit = draw(&state) % 40;
        char ours[40], theirs[40], said[1200] = "", *end = said;
        /* Where a seek leaves a gap the stream has zeros, the C library what the memory had. */
        const int gaps = *mode != 'r' && draw(&state) % 2;
        memset(ours, gaps ? 0 : '#', sizeof ours);
        size_t text = limit == 0 || (gaps && *mode == 'w') ? 0 : draw(&state) % (limit + 1);
        for (size_t i = 0; i < text; i++) ours[i] = (char)(draw(&state) % 16 == 0 ? 0 : 'a' + i % 26);
        if (text < limit) ours[text] = 0;
        if (gaps) memset(ours + strnlen(ours, limit), 0, sizeof ours - strnlen(ours, limit));
        memcpy(theirs, ours, sizeof ours);
        /* Of the C library's own memory only the first byte is known. */
        const int own = draw(&state) % 8 == 0 && *mode == 'w' && !gaps;
        gpufs_file *our_file = gpufs_fmemopen(fs, own ? NULL : ours, limit, mode);
        FILE *their_file = fmemopen(own ? NULL : theirs, limit, mode);
        CHECK(our_file != NULL && their_file != NULL);
        AGREE(gpufs_ftell(our_file), ftell(their_file));
        /* With a buffer, the C library writes at wrong places after seeks within what it has read. Without one, its write fails
         * where ours does with the next flush. */
        if (updates) CHECK(setvbuf(their_file, NULL, _IONBF, 0) == 0);
        int last = 0, failed = 0; /* 1: read, 2: wrote */
        for (int step = 0; step < 14; step++) {
            char our_text[48], their_text[48];
            int kind = (int)(draw(&state) % 8), amount = (int)(draw(&state) % (limit + 4));
            if (kind < 3 && writes) {
                size_t bytes = draw(&state) % (limit / 2 + 3);
                for (size_t i = 0; i < bytes; i++) our_text[i] = (char)(draw(&state) % 12 == 0 ? 0 : 'A' + (step + (int)i) % 26);
                if (last == 1) {
                    AGREE(gpufs_fseek(our_file, 0, SEEK_CUR), fseek(their_file, 0, SEEK_CUR));
                }
                end += sprintf(end, "write %d; ", (int)bytes);
                size_t written = fwrite(our_text, 1, bytes, their_file);
                AGREE(gpufs_fwrite(our_text, 1, bytes, our_file), updates ? bytes : written);
                if (written < bytes) {
                    AGREE(gpufs_fflush(our_file) != 0, 1);
                    failed = 1;
                    break;
                }
                last = 2;
            } else if (kind < 5 && reads) {
                if (last == 2) {
                    failed = fseek(their_file, 0, SEEK_CUR) != 0;
                    end += sprintf(end, "seek here; ");
                    AGREE(gpufs_fseek(our_file, 0, SEEK_CUR) != 0, failed);
                    if (failed) break;
                }
                size_t got = fread(their_text, 1, (size_t)amount, their_file);
                end += sprintf(end, "read %d; ", amount);
                AGREE(gpufs_fread(our_text, 1, (size_t)amount, our_file), got);
                AGREE(memcmp(our_text, their_text, got), 0);
                AGREE(gpufs_feof(our_file) != 0, feof(their_file) != 0);
                last = 1;
            } else if (kind == 5) {
                end += sprintf(end, "flush; ");
                failed = fflush(their_file) != 0;
                AGREE(gpufs_fflush(our_file) != 0, failed);
                if (failed) break;
                if (!own) AGREE(memcmp(ours, theirs, limit), 0);
                last = 0;
            } else if (kind == 6) {
                int whence = (int)(draw(&state) % 3);
                /* Not over the end, unless gaps are alike. */
                long offset = whence == SEEK_SET ? amount : -(long)(draw(&state) % 4);
                if (!gaps && *mode != 'r' && whence == SEEK_SET) offset = 0;
                end += sprintf(end, "seek %ld from %d; ", offset, whence);
                failed = fseek(their_file, offset, whence) != 0;
                AGREE(gpufs_fseek(our_file, offset, whence) != 0, failed);
                if (failed) break;
                last = 0;
            } else {
                end += sprintf(end, "tell; ");
                AGREE(gpufs_ftell(our_file), ftell(their_file));
            }
        }
        end += sprintf(end, "close; ");
        failed |= gpufs_fclose(our_file) != 0;
        (void)fclose(their_file);
        /* Where not all fits, what the last byte is depends in the C library on what was dropped. */
        if (!own && !failed) AGREE(memcmp(ours, theirs, limit), 0);
        if (!own && failed && limit > 0 && *mode != 'a') AGREE(memcmp(ours, theirs, limit - 1), 0);
    }
}

/* open_memstream: likewise. The C library's SEEK_END is where the stream stands. */
static void growing(gpufs_session *fs, void *argument) {
    static const char *const mode = "open_memstream";
    const int sequences = *(const int *)argument;
    for (int sequence = 0; sequence < sequences; sequence++) {
        const uint64_t seed = first_seed + gpufs_thread() * 1000003u + (uint64_t)sequence;
        uint64_t state = seed;
        size_t limit = draw(&state) % 4 == 0 ? 3000 : 40, our_size, their_size;
        char *our_text = NULL, *their_text = NULL, said[1200] = "", *end = said, bytes[3000];
        gpufs_file *our_file = gpufs_open_memstream(fs, &our_text, &our_size);
        FILE *their_file = open_memstream(&their_text, &their_size);
        CHECK(our_file != NULL && their_file != NULL);
        for (int step = 0; step < 14; step++) {
            int kind = (int)(draw(&state) % 8);
            if (kind < 4) {
                size_t count = draw(&state) % limit;
                for (size_t i = 0; i < count; i++) bytes[i] = (char)(draw(&state) % 12 == 0 ? 0 : 'A' + (step + (int)i) % 26);
                end += sprintf(end, "write %d; ", (int)count);
                AGREE(gpufs_fwrite(bytes, 1, count, our_file), fwrite(bytes, 1, count, their_file));
            } else if (kind == 4) {
                end += sprintf(end, "flush; ");
                AGREE(gpufs_fflush(our_file), fflush(their_file));
                AGREE(our_size, their_size);
                AGREE(memcmp(our_text, their_text, our_size), 0);
            } else if (kind < 7) {
                CHECK(fseek(their_file, 0, SEEK_CUR) == 0);
                long at = ftell(their_file);
                long to = (long)(draw(&state) % (uint64_t)(at + 1));
                end += sprintf(end, "seek %ld; ", to);
                AGREE(gpufs_fseek(our_file, to, SEEK_SET), fseek(their_file, to, SEEK_SET));
            } else {
                end += sprintf(end, "tell; ");
                AGREE(gpufs_ftell(our_file), ftell(their_file));
            }
        }
        end += sprintf(end, "close; ");
        AGREE(gpufs_fclose(our_file), fclose(their_file));
        AGREE(our_size, their_size);
        AGREE(memcmp(our_text, their_text, our_size), 0);
        free(our_text);
        free(their_text);
    }
}

int main(void) {
    const char *seed = getenv("GPUFS_SEED");
    int sequences = 300;
    if (seed != NULL) first_seed = strtoull(seed, NULL, 0);
    gpufs_host *host = gpufs_host_open(GPUFS_CPU, 0, NULL);
    CHECK(host != NULL);
    CHECK(gpufs_host_launch(host, 1, 1, right, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 2, 48, right, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, wrong, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 1, 1, all, NULL) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 2, 32, fixed, &sequences) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_launch(host, 2, 32, growing, &sequences) == 0 && gpufs_host_synchronize(host) == 0);
    CHECK(gpufs_host_close(host) == 0);
    return 0;
}
