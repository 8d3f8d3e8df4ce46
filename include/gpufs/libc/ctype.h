/* C11 7.4 in the locale "C", on a GPU. */
#ifndef GPUFS_LIBC_CTYPE_H
#define GPUFS_LIBC_CTYPE_H
int isalnum(int byte);
int isalpha(int byte);
int isascii(int byte);
int isblank(int byte);
int iscntrl(int byte);
int isdigit(int byte);
int isgraph(int byte);
int islower(int byte);
int isprint(int byte);
int ispunct(int byte);
int isspace(int byte);
int isupper(int byte);
int isxdigit(int byte);
int toascii(int byte);
int tolower(int byte);
int toupper(int byte);
#endif
