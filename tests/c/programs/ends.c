/* The ways in which a program ends. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    printf("printed before");
    switch (argc > 1 ? argv[1][0] : 'r') {
    case 'a': abort();
    case 's': assert(argc == 1);
        break;
    case 'f': *(volatile int *)(size_t)(argc * 4) = 1;
        break;
    case 'q': _Exit(5);
    case 'e': exit(-1);
    }
    return 0;
}
