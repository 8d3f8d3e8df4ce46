/* getopt, getopt_long, basename, dirname: what each call says. */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#undef basename
#include <libgen.h>

static void each(int argc, char **argv, const char *letters, const struct option *names) {
    optind = 0;
    opterr = 0;
    printf("%s:", letters);
    for (int got, index = -1;; index = -1) {
        got = names != NULL ? getopt_long(argc, argv, letters, names, &index) : getopt(argc, argv, letters);
        if (got == -1) {
            break;
        }
        printf(" %d", got);
        if (optarg != NULL) {
            printf("=%s", optarg);
        }
        if (got == '?' || got == ':') {
            printf("(%d)", optopt);
        }
        if (index >= 0) {
            printf("[%d]", index);
        }
    }
    printf(" |");
    while (optind < argc) {
        printf(" %s", argv[optind++]);
    }
    printf("\n");
}

int main(void) {
    int flag = 0;
    const struct option names[] = {{"all", no_argument, NULL, 'a'},      {"block", required_argument, NULL, 1000},
                                   {"blink", optional_argument, NULL, 7}, {"set", no_argument, &flag, 42},
                                   {NULL, 0, NULL, 0}};
    char *lines[][9] = {{"p", "-a", "-bvalue", "-b", "next", "x", "-c"},
                        {"p", "-abc", "--", "-a", "y"},
                        {"p", "-xa", "-b"},
                        {"p", "-", "-a"},
                        {"p", "-o", "-oset", "-ao", "w"},
                        {"p", "--all", "--block=7", "--block", "8", "--blink", "--blink=1", "rest"},
                        {"p", "--blo", "9", "--bl", "--set", "--all=1"},
                        {"p", "--nothing", "--se", "-a", "--block"},
                        {"p"}};
    for (size_t at = 0; at < sizeof lines / sizeof lines[0]; ++at) {
        int argc = 0;
        while (argc < 9 && lines[at][argc] != NULL) {
            ++argc;
        }
        char *argv[10] = {NULL};
        memcpy(argv, lines[at], (size_t)argc * sizeof argv[0]);
        each(argc, argv, "+ab:co::", NULL);
        each(argc, argv, "+:ab:c", NULL);
        each(argc, argv, "+ab:", names);
        each(argc, argv, "+:ab:", names);
    }
    printf("flag %d\n", flag);
    const char *paths[] = {"/usr/lib", "/usr/", "usr", "/", ".", "..", "", "a//b//", "/a", "a/b/c"};
    for (size_t at = 0; at < sizeof paths / sizeof paths[0]; ++at) {
        char one[16], other[16];
        strcpy(one, paths[at]);
        strcpy(other, paths[at]);
        printf("%s: %s %s\n", paths[at], dirname(one), basename(other));
    }
    printf("%s %s\n", dirname(NULL), basename(NULL));
    return 0;
}
