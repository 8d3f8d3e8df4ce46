/* The main of a test program of glibc: do_test, or what it names instead. */
#include "all.h"

#ifndef TEST_FUNCTION
#define TEST_FUNCTION do_test
#endif

int main(int argc, char **argv) {
    int status;
    (void)argc;
    (void)argv;
#ifdef PREPARE
    PREPARE(argc, argv);
#endif
#ifdef TEST_FUNCTION_ARGV
    status = TEST_FUNCTION_ARGV(argc, argv);
#else
    status = TEST_FUNCTION();
#endif
#ifdef EXPECTED_STATUS
    status = status != EXPECTED_STATUS;
#endif
#ifdef CLEANUP_HANDLER
    CLEANUP_HANDLER();
#endif
    return support_report_failure(status);
}
