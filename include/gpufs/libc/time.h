/* C11 7.27, on a GPU: the host's time of day, continued by the GPU's clock. Local time is UTC. */
#ifndef GPUFS_LIBC_TIME_H
#define GPUFS_LIBC_TIME_H
#include <stddef.h>
#include <sys/types.h>
#define CLOCKS_PER_SEC 1000000L
struct tm {
    int tm_sec;
    int tm_min;
    int tm_hour;
    int tm_mday;
    int tm_mon;
    int tm_year;
    int tm_wday;
    int tm_yday;
    int tm_isdst;
    long tm_gmtoff;
    const char *tm_zone;
};
struct timespec {
    time_t tv_sec;
    long tv_nsec;
};
#define CLOCK_REALTIME 0
#define CLOCK_MONOTONIC 1
#define CLOCK_PROCESS_CPUTIME_ID 2
#define CLOCK_BOOTTIME 7
#define TIME_UTC 1
typedef int clockid_t;
/* The host's clocks, read between the call and its return. */
int clock_gettime(clockid_t clock, struct timespec *into);
/* By the GPU's clock. No signal ends it: `left` is not touched. */
int nanosleep(const struct timespec *duration, struct timespec *left);
time_t time(time_t *into);
/* Of the GPU, since the first call of time or clock. */
clock_t clock(void);
double difftime(time_t later, time_t earlier);
time_t mktime(struct tm *parts);
time_t timegm(struct tm *parts);
struct tm *gmtime(const time_t *time);
struct tm *gmtime_r(const time_t *__restrict time, struct tm *__restrict into);
struct tm *localtime(const time_t *time);
struct tm *localtime_r(const time_t *__restrict time, struct tm *__restrict into);
size_t strftime(char *__restrict into, size_t bytes, const char *__restrict format, const struct tm *__restrict parts);
char *asctime(const struct tm *parts);
char *asctime_r(const struct tm *__restrict parts, char *__restrict into);
char *ctime(const time_t *time);
char *ctime_r(const time_t *__restrict time, char *__restrict into);
/* Reads what strftime writes; null where the text does not fit. */
char *strptime(const char *__restrict text, const char *__restrict format, struct tm *__restrict into);
/* TIME_UTC: the host's time of day; 0 for another base. */
int timespec_get(struct timespec *into, int base);
static __inline__ void tzset(void) {}
#endif
