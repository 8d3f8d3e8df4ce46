/* malloc and its family (C11 7.22.3) in the memory that the host gave to the program (gpufs run --heap).
 *
 * A block has one of a row of sizes, and four between a power of two and the next. A freed block waits in the list of its
 * size for the next request of that size; freed neighbours do not become one. When the memory is used up, a larger block
 * serves a smaller request. When there is none, malloc returns null with ENOMEM.
 */
#include "program.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Sizes from 16 bytes to 2^63. */
#define SIZES 240u
/* Marks a block that is allocated, and one that is freed. */
#define ALLOCATED 0x67707566u
#define FREED 0x66726565u
/* Marks what stands in front of an aligned address within a block: how many bytes behind the block's own it is. */
#define ALIGNED 0x616c6967u

/* In front of each block. */
struct header {
    uint32_t mark;
    uint32_t size; /* its place in the row of sizes */
    uint64_t bytes; /* what was asked for */
};

/* A freed block: the next of its size. */
struct freed {
    struct header header;
    struct freed *next;
};

static struct freed *freed[SIZES];
/* Bytes of the heap that blocks have taken, in address order. */
static uint64_t taken;

/* The place of the smallest size that holds `bytes`: below 64 bytes steps of 16, above them four to a power of two. */
static uint32_t place_of(uint64_t bytes) {
    if (bytes <= 64) {
        return bytes == 0 ? 0 : (uint32_t)((bytes - 1) / 16);
    }
    uint32_t power = 63u - (uint32_t)__builtin_clzll(bytes - 1);
    return 4 * (power - 5) + (uint32_t)((bytes - 1) >> (power - 2) & 3);
}

static uint64_t bytes_of(uint32_t place) {
    if (place < 4) {
        return 16u * (place + 1);
    }
    uint32_t power = place / 4 + 5;
    return (UINT64_C(1) << power) + ((uint64_t)(place % 4 + 1) << (power - 2));
}

static void *use(struct header *block, uint32_t place, uint64_t bytes) {
    block->mark = ALLOCATED;
    block->size = place;
    block->bytes = bytes;
    return block + 1;
}

void *malloc(size_t bytes) {
    if (bytes <= INT64_MAX / 2) {
        uint32_t place = place_of(bytes);
        if (freed[place] != NULL) {
            struct freed *block = freed[place];
            freed[place] = block->next;
            return use(&block->header, place, bytes);
        }
        uint64_t whole = sizeof(struct header) + bytes_of(place);
        if (whole <= gpufs_program_->heap_bytes - taken) {
            struct header *block = (struct header *)(gpufs_program_->heap + taken);
            taken += whole;
            return use(block, place, bytes);
        }
        for (uint32_t larger = place + 1; larger < SIZES; ++larger) {
            if (freed[larger] != NULL) {
                struct freed *block = freed[larger];
                freed[larger] = block->next;
                return use(&block->header, larger, bytes);
            }
        }
    }
    gpufs_libc_errno_(ENOMEM);
    return NULL;
}

void *calloc(size_t items, size_t bytes) {
    size_t whole;
    if (__builtin_mul_overflow(items, bytes, &whole)) {
        gpufs_libc_errno_(ENOMEM);
        return NULL;
    }
    void *block = malloc(whole);
    return block == NULL ? NULL : memset(block, 0, whole);
}

/* The header of a block that malloc returned. */
static struct header *header_of(void *block) {
    struct header *header = (struct header *)block - 1;
    if ((char *)header < gpufs_program_->heap || (char *)header >= gpufs_program_->heap + taken ||
        ((uintptr_t)block & 15) != 0) {
        gpufs_die_("free or realloc of a pointer that malloc did not return\n");
    }
    if (header->mark == ALIGNED && header->bytes < taken) {
        return header_of((char *)block - header->bytes);
    }
    if (header->mark != ALLOCATED) {
        gpufs_die_(header->mark == FREED ? "free or realloc of a block that was freed before\n"
                                         : "free or realloc: the heap is corrupt in front of this block\n");
    }
    return header;
}

void free(void *block) {
    if (block != NULL) {
        struct freed *gone = (struct freed *)header_of(block);
        gone->header.mark = FREED;
        gone->next = freed[gone->header.size];
        freed[gone->header.size] = gone;
    }
}

void *realloc(void *block, size_t bytes) {
    if (block == NULL) {
        return malloc(bytes);
    }
    struct header *header = header_of(block);
    uint64_t room = bytes_of(header->size), before = (uint64_t)((char *)block - (char *)(header + 1));
    if (before != 0) {
        /* An aligned address: what is moved need not be aligned so. */
        void *other = malloc(bytes);
        if (other != NULL) {
            memcpy(other, block, header->bytes - before < bytes ? header->bytes - before : bytes);
            free(block);
        }
        return other;
    }
    if (bytes <= room && (bytes > room / 2 || room <= 64)) {
        header->bytes = bytes;
        return block;
    }
    void *moved = malloc(bytes);
    if (moved == NULL && bytes <= room) {
        return block;
    }
    if (moved != NULL) {
        memcpy(moved, block, header->bytes < bytes ? header->bytes : bytes);
        free(block);
    }
    return moved;
}

void *reallocarray(void *block, size_t items, size_t bytes) {
    size_t whole;
    if (__builtin_mul_overflow(items, bytes, &whole)) {
        gpufs_libc_errno_(ENOMEM);
        return NULL;
    }
    return realloc(block, whole);
}

/* Blocks are aligned to 16 bytes. For more, an address within a larger block, with a header of its own. */
void *aligned_alloc(size_t alignment, size_t bytes) {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
        gpufs_libc_errno_(EINVAL);
        return NULL;
    }
    if (alignment <= 16) {
        return malloc(bytes);
    }
    if (bytes > INT64_MAX / 4 || alignment > INT64_MAX / 4) {
        gpufs_libc_errno_(ENOMEM);
        return NULL;
    }
    char *block = malloc(bytes + alignment);
    if (block == NULL) {
        return NULL;
    }
    uint64_t before = (0 - (uintptr_t)block) & (alignment - 1);
    if (before != 0) {
        struct header *header = (struct header *)(block + before) - 1;
        header->mark = ALIGNED;
        header->bytes = before;
    }
    return block + before;
}

void *memalign(size_t alignment, size_t bytes) { return aligned_alloc(alignment, bytes); }

int posix_memalign(void **into, size_t alignment, size_t bytes) {
    int before = errno;
    void *block = alignment % sizeof(void *) == 0 ? aligned_alloc(alignment, bytes) : NULL;
    gpufs_libc_errno_(before);
    if (block == NULL) {
        return alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0 ? EINVAL : ENOMEM;
    }
    *into = block;
    return 0;
}
