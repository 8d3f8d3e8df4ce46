/* Memory that ends where a page begins that nothing may touch. On a GPU no page can be guarded: the memory ends with a block
 * of the heap, and a test that reads behind it is not told. */
#ifndef CONFORMANCE_NEXT_TO_FAULT_H
#define CONFORMANCE_NEXT_TO_FAULT_H

#include "all.h"

struct support_next_to_fault {
    char *region_start;
    size_t region_size;
    char *buffer;
    size_t length;
};

#if defined(__NVPTX__) || defined(__AMDGCN__)
SUPPORT struct support_next_to_fault support_next_to_fault_allocate(size_t bytes) {
    char *start = malloc(bytes);
    TEST_VERIFY_EXIT(start != NULL);
    return (struct support_next_to_fault){start, bytes, start, bytes};
}
SUPPORT void support_next_to_fault_free(struct support_next_to_fault *memory) { free(memory->region_start); }
#else
#include <sys/mman.h>
SUPPORT struct support_next_to_fault support_next_to_fault_allocate(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page + page;
    char *start = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TEST_VERIFY_EXIT(start != MAP_FAILED && mprotect(start + whole - page, page, PROT_NONE) == 0);
    return (struct support_next_to_fault){start, whole, start + whole - page - bytes, bytes};
}
SUPPORT void support_next_to_fault_free(struct support_next_to_fault *memory) {
    munmap(memory->region_start, memory->region_size);
}
#endif

#endif
