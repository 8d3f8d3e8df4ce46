/* getopt(3) and getopt_long(3), on a GPU: operands are moved behind the options, but with POSIXLY_CORRECT or a '+'. */
#ifndef GPUFS_LIBC_GETOPT_H
#define GPUFS_LIBC_GETOPT_H
extern char *optarg;
extern int optind, opterr, optopt;
int getopt(int argc, char *const argv[], const char *options);
struct option {
    const char *name;
    int has_arg;
    int *flag;
    int val;
};
#define no_argument 0
#define required_argument 1
#define optional_argument 2
int getopt_long(int argc, char *const argv[], const char *options, const struct option *names, int *index);
#endif
