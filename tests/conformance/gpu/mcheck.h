/* Tracing of allocations, which a GPU's C library does not have: a test of leaks tests the rest alone. */
#define mtrace() ((void)0)
