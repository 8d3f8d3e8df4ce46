/* C11 7.24 in the locale "C", and what POSIX, BSD and GNU add, on a GPU. */
#ifndef GPUFS_LIBC_STRING_H
#define GPUFS_LIBC_STRING_H
#include <stddef.h>
void *memccpy(void *__restrict to, const void *__restrict from, int byte, size_t bytes);
void *memchr(const void *memory, int byte, size_t bytes);
int memcmp(const void *left, const void *right, size_t bytes);
void *memcpy(void *__restrict to, const void *__restrict from, size_t bytes);
void *memmem(const void *memory, size_t bytes, const void *needle, size_t length);
void *memmove(void *to, const void *from, size_t bytes);
void *mempcpy(void *__restrict to, const void *__restrict from, size_t bytes);
void *memrchr(const void *memory, int byte, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
char *stpcpy(char *__restrict to, const char *__restrict from);
char *stpncpy(char *__restrict to, const char *__restrict from, size_t bytes);
char *strcasestr(const char *string, const char *needle);
char *strcat(char *__restrict to, const char *__restrict from);
char *strchr(const char *string, int byte);
char *strchrnul(const char *string, int byte);
int strcmp(const char *left, const char *right);
int strcoll(const char *left, const char *right);
char *strcpy(char *__restrict to, const char *__restrict from);
size_t strcspn(const char *string, const char *refused);
char *strdup(const char *string);
char *strerror(int error);
/* POSIX's form: 0, or ERANGE where the text is cut. */
int strerror_r(int error, char *into, size_t bytes);
char *strsignal(int number);
int strverscmp(const char *left, const char *right);
size_t strlcat(char *__restrict to, const char *__restrict from, size_t bytes);
size_t strlcpy(char *__restrict to, const char *__restrict from, size_t bytes);
size_t strlen(const char *string);
char *strncat(char *__restrict to, const char *__restrict from, size_t most);
int strncmp(const char *left, const char *right, size_t most);
char *strncpy(char *__restrict to, const char *__restrict from, size_t bytes);
char *strndup(const char *string, size_t most);
size_t strnlen(const char *string, size_t most);
char *strpbrk(const char *string, const char *wanted);
char *strrchr(const char *string, int byte);
char *strsep(char **string, const char *separators);
size_t strspn(const char *string, const char *accepted);
char *strstr(const char *string, const char *needle);
char *strtok(char *__restrict string, const char *__restrict separators);
char *strtok_r(char *__restrict string, const char *__restrict separators, char **__restrict rest);
size_t strxfrm(char *__restrict to, const char *__restrict from, size_t bytes);
#include <strings.h>
#endif
