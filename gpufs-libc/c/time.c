/* <time.h> (C11 7.27): the time of day, which is the host's, and the calendar in UTC. */
#include "program.h"
#include <errno.h>
#include <gpufs/service.h>
#include <string.h>
#include <time.h>

/* Nanoseconds of the GPU's clock. */
static uint64_t clock_ns(void) {
#if defined(__NVPTX__)
    uint64_t now;
    __asm__ volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
#else
    /* A constant rate of 100 MHz. */
    return __builtin_readsteadycounter() * 10;
#endif
}

/* The host's clock, which also gives files their times: one may be compared with the other. */
time_t time(time_t *into) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        now.tv_sec = -1;
    }
    if (into != NULL) {
        *into = now.tv_sec;
    }
    return now.tv_sec;
}

/* The time since the first call. */
clock_t clock(void) {
    static uint64_t first_ns;
    uint64_t now = clock_ns();
    if (first_ns == 0) {
        first_ns = now;
    }
    return (clock_t)((now - first_ns) / 1000);
}

double difftime(time_t later, time_t earlier) { return (double)(later - earlier); }

int clock_gettime(clockid_t clock, struct timespec *into) {
    return gpufs_clock_gettime(gpufs_raw_used_session(), clock, (gpufs_timespec *)into);
}

int nanosleep(const struct timespec *duration, struct timespec *left) {
    (void)left;
    return gpufs_nanosleep(gpufs_raw_used_session(), (const gpufs_timespec *)duration);
}

static int is_leap(int64_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

/* Days before a year that begins in March, of 400-year cycles that begin in year 0. */
static int64_t days_before(int64_t year, int month, int64_t day) {
    int64_t shifted = month <= 2 ? year - 1 : year;
    int64_t cycle = (shifted >= 0 ? shifted : shifted - 399) / 400;
    int64_t of_cycle = shifted - cycle * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return cycle * 146097 + of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year - 719468;
}

struct tm *gmtime_r(const time_t *restrict time, struct tm *restrict into) {
    int64_t days = *time / 86400, seconds = *time % 86400;
    if (seconds < 0) {
        seconds += 86400;
        --days;
    }
    int64_t shifted = days + 719468;
    int64_t cycle = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t of_cycle = shifted - cycle * 146097;
    int64_t year = (of_cycle - of_cycle / 1460 + of_cycle / 36524 - of_cycle / 146096) / 365;
    int64_t of_year = of_cycle - (365 * year + year / 4 - year / 100);
    int64_t march = (5 * of_year + 2) / 153;
    memset(into, 0, sizeof *into);
    into->tm_mday = (int)(of_year - (153 * march + 2) / 5 + 1);
    into->tm_mon = (int)(march < 10 ? march + 2 : march - 10);
    int64_t calendar = year + cycle * 400 + (into->tm_mon < 2);
    into->tm_year = (int)(calendar - 1900);
    into->tm_yday = (int)(days - days_before(calendar, 1, 1));
    into->tm_wday = (int)(((days + 4) % 7 + 7) % 7);
    into->tm_hour = (int)(seconds / 3600);
    into->tm_min = (int)(seconds / 60 % 60);
    into->tm_sec = (int)(seconds % 60);
    into->tm_zone = "UTC";
    return into;
}

struct tm *gmtime(const time_t *time) {
    static struct tm result;
    return gmtime_r(time, &result);
}
/* A GPU knows no time zone: UTC. */
struct tm *localtime_r(const time_t *restrict time, struct tm *restrict into) { return gmtime_r(time, into); }
struct tm *localtime(const time_t *time) { return gmtime(time); }

time_t timegm(struct tm *parts) {
    int64_t year = parts->tm_year + INT64_C(1900) + parts->tm_mon / 12;
    int month = parts->tm_mon % 12;
    if (month < 0) {
        month += 12;
        --year;
    }
    time_t seconds = days_before(year, month + 1, 1) * 86400 + (parts->tm_mday - INT64_C(1)) * 86400 +
                     parts->tm_hour * INT64_C(3600) + parts->tm_min * INT64_C(60) + parts->tm_sec;
    gmtime_r(&seconds, parts);
    return seconds;
}
time_t mktime(struct tm *parts) { return timegm(parts); }

static const char *const days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                     "July",    "August",   "September", "October", "November", "December"};

/* Text that grows in the caller's memory. */
struct text {
    char *at;
    size_t room;
    int is_full;
};

static void put(struct text *text, const char *string, size_t most) {
    for (; most != 0 && *string != 0; --most, ++string) {
        if (text->room <= 1) {
            text->is_full = 1;
            return;
        }
        *text->at++ = *string;
        --text->room;
    }
}

static void put_number(struct text *text, int64_t value, int width, char pad) {
    char digits[24];
    char *digit = digits + sizeof digits;
    *--digit = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        *--digit = (char)('0' + rest % 10);
        rest /= 10;
        --width;
    } while (rest != 0 || (width > 0 && pad == '0'));
    for (; width > 0; --width) {
        *--digit = pad;
    }
    if (value < 0) {
        *--digit = '-';
    }
    put(text, digit, SIZE_MAX);
}

static void put_time(struct text *text, const char *format, const struct tm *parts);

/* The week and its year after ISO 8601. */
static int iso_week(const struct tm *parts, int64_t *year) {
    int weekday = (parts->tm_wday + 6) % 7;
    int week = (parts->tm_yday - weekday + 10) / 7;
    *year = parts->tm_year + INT64_C(1900);
    if (week < 1) {
        --*year;
        int day = parts->tm_yday + (is_leap(*year) ? 366 : 365);
        return (day - weekday + 10) / 7;
    }
    if (week == 53 && parts->tm_yday - weekday + 3 >= (is_leap(*year) ? 366 : 365)) {
        ++*year;
        return 1;
    }
    return week;
}

static void put_part(struct text *text, char letter, const struct tm *parts) {
    int64_t year = parts->tm_year + INT64_C(1900), of_week;
    int hour = parts->tm_hour % 12 == 0 ? 12 : parts->tm_hour % 12;
    const char *day = (unsigned)parts->tm_wday < 7 ? days[parts->tm_wday] : "?";
    const char *month = (unsigned)parts->tm_mon < 12 ? months[parts->tm_mon] : "?";
    char same[3] = {'%', letter, 0};
    switch (letter) {
    case 'a': put(text, day, 3); break;
    case 'A': put(text, day, SIZE_MAX); break;
    case 'b': case 'h': put(text, month, 3); break;
    case 'B': put(text, month, SIZE_MAX); break;
    case 'c': put_time(text, "%a %b %e %H:%M:%S %Y", parts); break;
    case 'C': put_number(text, year / 100, 2, '0'); break;
    case 'd': put_number(text, parts->tm_mday, 2, '0'); break;
    case 'D': case 'x': put_time(text, "%m/%d/%y", parts); break;
    case 'e': put_number(text, parts->tm_mday, 2, ' '); break;
    case 'F': put_time(text, "%Y-%m-%d", parts); break;
    case 'g': iso_week(parts, &of_week); put_number(text, of_week % 100, 2, '0'); break;
    case 'G': iso_week(parts, &of_week); put_number(text, of_week, 1, '0'); break;
    case 'H': put_number(text, parts->tm_hour, 2, '0'); break;
    case 'I': put_number(text, hour, 2, '0'); break;
    case 'j': put_number(text, parts->tm_yday + 1, 3, '0'); break;
    case 'k': put_number(text, parts->tm_hour, 2, ' '); break;
    case 'm': put_number(text, parts->tm_mon + 1, 2, '0'); break;
    case 'M': put_number(text, parts->tm_min, 2, '0'); break;
    case 'n': put(text, "\n", 1); break;
    case 'p': put(text, parts->tm_hour < 12 ? "AM" : "PM", 2); break;
    case 'r': put_time(text, "%I:%M:%S %p", parts); break;
    case 'R': put_time(text, "%H:%M", parts); break;
    case 's': { struct tm copy = *parts; put_number(text, timegm(&copy), 1, '0'); break; }
    case 'S': put_number(text, parts->tm_sec, 2, '0'); break;
    case 't': put(text, "\t", 1); break;
    case 'T': case 'X': put_time(text, "%H:%M:%S", parts); break;
    case 'u': put_number(text, parts->tm_wday == 0 ? 7 : parts->tm_wday, 1, '0'); break;
    case 'U': put_number(text, (parts->tm_yday + 7 - parts->tm_wday) / 7, 2, '0'); break;
    case 'V': put_number(text, iso_week(parts, &of_week), 2, '0'); break;
    case 'w': put_number(text, parts->tm_wday, 1, '0'); break;
    case 'W': put_number(text, (parts->tm_yday + 7 - (parts->tm_wday + 6) % 7) / 7, 2, '0'); break;
    case 'y': put_number(text, ((year % 100) + 100) % 100, 2, '0'); break;
    case 'Y': put_number(text, year, 1, '0'); break;
    case 'z': put(text, "+0000", 5); break;
    case 'Z': put(text, "UTC", 3); break;
    case '%': put(text, "%", 1); break;
    default: put(text, same, 2); break;
    }
}

static void put_time(struct text *text, const char *format, const struct tm *parts) {
    for (; *format != 0; ++format) {
        if (*format != '%' || format[1] == 0) {
            put(text, format, 1);
            continue;
        }
        ++format;
        if ((*format == 'E' || *format == 'O') && format[1] != 0) {
            ++format;
        }
        put_part(text, *format, parts);
    }
}

size_t strftime(char *restrict into, size_t bytes, const char *restrict format, const struct tm *restrict parts) {
    struct text text = {into, bytes, bytes == 0};
    put_time(&text, format, parts);
    if (text.is_full) {
        return 0;
    }
    *text.at = 0;
    return (size_t)(text.at - into);
}

char *asctime_r(const struct tm *restrict parts, char *restrict into) {
    return strftime(into, 26, "%a %b %e %H:%M:%S %Y\n", parts) != 0 ? into : NULL;
}
char *asctime(const struct tm *parts) {
    static char result[26];
    return asctime_r(parts, result);
}
int timespec_get(struct timespec *into, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, into) == 0 ? base : 0;
}

char *ctime_r(const time_t *restrict time, char *restrict into) {
    struct tm parts;
    return asctime_r(gmtime_r(time, &parts), into);
}
char *ctime(const time_t *time) { return asctime(localtime(time)); }
