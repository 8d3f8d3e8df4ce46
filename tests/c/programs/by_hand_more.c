/* The other part of by_hand.c: built with -std=c11, which hides these of POSIX. */
#include <stdio.h>
#include <stdlib.h>

int fileno(FILE *);
FILE *fdopen(int, const char *);
FILE *popen(const char *, const char *);
int pclose(FILE *);
long getline(char **, size_t *, FILE *);

int more(void) { return puts("2"); }

int last(void) {
    char *line = NULL;
    size_t room = 0;
    FILE *lines = tmpfile(), *shell;
    fputs("a line\nanother\n", lines);
    rewind(lines);
    printf("%ld ", getline(&line, &room, lines));
    printf("%s", line);
    fclose(lines);
    shell = popen("echo from a shell", "r");
    printf("%ld ", getline(&line, &room, shell));
    printf("%s%d\n", line, pclose(shell));
    free(line);
    fflush(stdout);
    lines = fdopen(fileno(stderr), "w");
    fprintf(lines, "told\n");
    fflush(lines);
    return fileno(stdout) + 41;
}
