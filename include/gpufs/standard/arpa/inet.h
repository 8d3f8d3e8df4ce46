/* <arpa/inet.h>, where no C library gives it: addresses as text (inet(3), inet_pton(3), inet_ntop(3)). The functions are
 * those of gpufs-libc. */
#ifndef GPUFS_STANDARD_ARPA_INET_H
#define GPUFS_STANDARD_ARPA_INET_H

#include <gpufs/standard/netinet/in.h>

#pragma GCC system_header

#ifdef __cplusplus
extern "C" {
#endif
/* 1; 0 for a text that is no address of the family; -1 with EAFNOSUPPORT. */
int inet_pton(int family, const char *text, void *into);
/* `into`; null with EAFNOSUPPORT, or with ENOSPC where the text does not fit. */
const char *inet_ntop(int family, const void *from, char *into, socklen_t bytes);
/* One to four numbers in C's notation: 1, or 0 for another text. */
int inet_aton(const char *text, struct in_addr *into);
/* The same; INADDR_NONE for another text. */
in_addr_t inet_addr(const char *text);
/* In memory that the next call overwrites. */
char *inet_ntoa(struct in_addr from);
#ifdef __cplusplus
}
#endif

#endif
