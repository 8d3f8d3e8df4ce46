/* Functions that are declared by hand, as C allows where no type of a header is needed (C11 7.1.4), and as programs do with those of POSIX that
 * <stdio.h> hides under -std=c11. by_hand_more.c includes the header. */
int printf(const char *, ...);
int puts(const char *);
int putchar(int);
int sprintf(char *, const char *, ...);
int rename(const char *, const char *);
int unlink(const char *);
int open(const char *, int, ...);
long write(int, const void *, unsigned long);
int close(int);
int more(void);
int last(void);

int main(void) {
    char text[16];
    int file, moved, gone;
    printf("1\n");
    more();
    printf("%d %s %.1f\n", 3, "three", 3.0);
    puts("4");
    putchar('5');
    putchar('\n');
    sprintf(text, "%04d", 6);
    puts(text);
    file = open("by-hand.txt", 01 | 0100, 0600);
    printf("%d %ld ", file >= 0, write(file, "abc", 3));
    printf("%d\n", close(file));
    moved = rename("by-hand.txt", "by-hand-2.txt");
    gone = unlink("by-hand-2.txt");
    printf("%d %d\n", moved, gone);
    return last();
}
