/* Jumps of every kind: out of a depth, through qsort, out of a function that returns a structure, from handler to
 * handler, and with "wild" to nowhere. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf top, inner;

static int deep(int left) {
    if (left == 0) {
        longjmp(top, 7);
    }
    return deep(left - 1) + 1;
}

static int compare(const void *one, const void *other) {
    int left = *(const int *)one, right = *(const int *)other;
    if (left == 13 || right == 13) {
        longjmp(inner, 0);
    }
    return left - right;
}

struct pair {
    long first, second;
};

static struct pair pair_of(int number) {
    if (number > 3) {
        longjmp(inner, number);
    }
    struct pair made = {number, number * 2};
    return made;
}

/* Errors as Lua has them. */
struct handler {
    struct handler *before;
    jmp_buf place;
    int status;
};
static struct handler *handlers;

static void raise_error(int status) {
    handlers->status = status;
    longjmp(handlers->place, 1);
}

static int protect(void (*body)(int *), int *count) {
    struct handler own;
    own.status = 0;
    own.before = handlers;
    handlers = &own;
    if (setjmp(own.place) == 0) {
        body(count);
    }
    handlers = own.before;
    return own.status;
}

static void count_up(int *count) {
    if (++*count % 3 == 0) {
        raise_error(*count);
    }
}

static void count_four(int *count) {
    for (int round = 0; round < 4; ++round) {
        int status = protect(count_up, count);
        if (status != 0) {
            printf("inner %d\n", status);
        }
        if (status > 6) {
            raise_error(100 + status);
        }
    }
}

int main(int argc, char **argv) {
    volatile int times = 0;
    int came = setjmp(top);
    printf("came %d times %d\n", came, times);
    ++times;
    if (came == 0) {
        deep(argc + 20);
    }
    int values[] = {5, 4, 13, 2, 1};
    switch (setjmp(inner)) {
    case 0: qsort(values, 5, sizeof *values, compare); puts("sorted"); break;
    case 1: puts("unlucky"); break;
    default: puts("another"); break;
    }
    for (volatile int round = 0; round < 6; ++round) {
        int brought = setjmp(inner);
        if (brought != 0) {
            printf("brought %d\n", brought);
            continue;
        }
        struct pair made = pair_of(round);
        printf("%ld %ld\n", made.first, made.second);
    }
    int count = 0;
    for (int round = 0; round < 3; ++round) {
        int status = protect(count_four, &count);
        printf("outer %d count %d\n", status, count);
    }
    if (argc > 1 && strcmp(argv[1], "wild") == 0) {
        jmp_buf nowhere;
        memset(nowhere, 0, sizeof nowhere);
        longjmp(nowhere, 1);
    }
    return 3;
}
