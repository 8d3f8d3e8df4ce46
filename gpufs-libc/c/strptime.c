/* strptime(3): the calendar read, in the locale "C" and in UTC. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* What a text has said that is no field of struct tm by itself. */
struct said {
    int century, year, is_afternoon, has_half, epoch, day_of_year, has_date;
};

static const char *fill(const char *text, const char *format, struct tm *into, struct said *said);

/* A number of at most `digits` digits from `least` to `most`, less `less`; null where there is none. A digit that would make
 * it larger than `most` is no part of it. */
static const char *number(const char *text, int digits, int least, int most, int less, int *into) {
    int value = 0, count = 0;
    text += strspn(text, " \t\n\v\f\r");
    while (count < digits && (count == 0 || value * 10 <= most) && isdigit((unsigned char)text[count])) {
        value = value * 10 + text[count++] - '0';
    }
    if (count == 0 || value < least || value > most) {
        return NULL;
    }
    *into = value - less;
    return text + count;
}

/* One of the names that strftime prints, whole or as three letters. */
static const char *name(const char *text, const char *format, int count, int *into) {
    for (int at = 0; at < count; ++at) {
        struct tm parts = {0};
        char whole[16];
        parts.tm_mon = parts.tm_wday = at;
        size_t length = strftime(whole, sizeof whole, format, &parts);
        if (strncasecmp(text, whole, length) == 0 || strncasecmp(text, whole, length = 3) == 0) {
            *into = at;
            return text + length;
        }
    }
    return NULL;
}

static const char *part(const char *text, char letter, struct tm *into, struct said *said) {
    int unused;
    switch (letter) {
    case 'a': case 'A': return name(text, "%A", 7, &into->tm_wday);
    case 'b': case 'B': case 'h': said->has_date = 1; return name(text, "%B", 12, &into->tm_mon);
    case 'c': return fill(text, "%a %b %e %H:%M:%S %Y", into, said);
    case 'C': return number(text, 2, 0, 99, 0, &said->century);
    case 'd': case 'e': said->has_date = 1; return number(text, 2, 1, 31, 0, &into->tm_mday);
    case 'D': case 'x': return fill(text, "%m/%d/%y", into, said);
    case 'F': return fill(text, "%Y-%m-%d", into, said);
    case 'H': case 'k': said->has_half = 0; return number(text, 2, 0, 23, 0, &into->tm_hour);
    case 'I': case 'l': said->has_half = 1; return number(text, 2, 1, 12, 0, &into->tm_hour);
    case 'j': said->day_of_year = 1; return number(text, 3, 1, 366, 1, &into->tm_yday);
    case 'm': said->has_date = 1; return number(text, 2, 1, 12, 1, &into->tm_mon);
    case 'M': return number(text, 2, 0, 59, 0, &into->tm_min);
    case 'n': case 't': return text + strspn(text, " \t\n\v\f\r");
    case 'p':
        if (strncasecmp(text, "am", 2) != 0 && strncasecmp(text, "pm", 2) != 0) {
            return NULL;
        }
        said->is_afternoon = (text[0] | 32) == 'p';
        return text + 2;
    case 'r': return fill(text, "%I:%M:%S %p", into, said);
    case 'R': return fill(text, "%H:%M", into, said);
    case 's': {
        char *end;
        time_t seconds = strtoll(text, &end, 10);
        if (!isdigit((unsigned char)*text)) {
            return NULL;
        }
        said->epoch = 1;
        gmtime_r(&seconds, into);
        return end;
    }
    case 'S': return number(text, 2, 0, 60, 0, &into->tm_sec);
    case 'T': case 'X': return fill(text, "%H:%M:%S", into, said);
    case 'u':
        text = number(text, 1, 1, 7, 0, &into->tm_wday);
        into->tm_wday %= 7;
        return text;
    case 'U': case 'V': case 'W': return number(text, 2, 0, 53, 0, &unused);
    case 'w': return number(text, 1, 0, 6, 0, &into->tm_wday);
    case 'y': return number(text, 2, 0, 99, 0, &said->year);
    case 'Y': said->year = said->century = -1; return number(text, 4, 0, 9999, 1900, &into->tm_year);
    case 'z': {
        int value = 0, digits = 0, is_west;
        text += strspn(text, " \t\n\v\f\r");
        if (*text == 'Z') {
            into->tm_gmtoff = 0;
            return text + 1;
        }
        is_west = *text == '-';
        if (!is_west && *text != '+') {
            return NULL;
        }
        /* Hours, or hours and minutes with a colon between them or without. */
        for (++text; digits < 4 && isdigit((unsigned char)*text); ++digits) {
            value = value * 10 + *text++ - '0';
            text += digits == 1 && *text == ':' && isdigit((unsigned char)text[1]);
        }
        value *= digits == 2 ? 100 : 1;
        if ((digits != 2 && digits != 4) || value % 100 >= 60) {
            return NULL;
        }
        into->tm_gmtoff = (value / 100 * 60L + value % 100) * (is_west ? -60 : 60);
        return text;
    }
    case '%': return *text == '%' ? text + 1 : NULL;
    default: return NULL;
    }
}

static const char *fill(const char *text, const char *format, struct tm *into, struct said *said) {
    for (; *format != 0 && text != NULL; ++format) {
        if (isspace((unsigned char)*format)) {
            text += strspn(text, " \t\n\v\f\r");
        } else if (*format != '%') {
            text = *text == *format ? text + 1 : NULL;
        } else {
            ++format;
            format += *format == 'E' || *format == 'O';
            text = *format == 0 ? NULL : part(text, *format, into, said);
        }
    }
    return text;
}

char *strptime(const char *restrict text, const char *restrict format, struct tm *restrict into) {
    struct said said = {-1, -1, -1, 0, 0, 0, 0};
    int day = into->tm_mday, month = into->tm_mon, year = into->tm_year;
    const char *end = fill(text, format, into, &said);
    if (end == NULL) {
        return NULL;
    }
    if (said.has_half) {
        into->tm_hour = into->tm_hour % 12 + (said.is_afternoon == 1 ? 12 : 0);
    }
    if (said.year >= 0) {
        into->tm_year = said.year + (said.century >= 0 ? said.century * 100 - 1900 : said.year < 69 ? 100 : 0);
    } else if (said.century >= 0) {
        into->tm_year = said.century * 100 - 1900 + (into->tm_year + 1900) % 100;
    }
    if (said.day_of_year && !said.has_date && !said.epoch) {
        struct tm found = {.tm_mday = into->tm_yday + 1, .tm_year = into->tm_year};
        (void)timegm(&found);
        into->tm_mon = found.tm_mon;
        into->tm_mday = found.tm_mday;
    }
    /* A day of a month that the text gives has a place in its week and its year. */
    if (!said.epoch && (day != into->tm_mday || month != into->tm_mon || year != into->tm_year)) {
        struct tm found = {.tm_mday = into->tm_mday, .tm_mon = into->tm_mon, .tm_year = into->tm_year};
        if (found.tm_mday > 0) {
            (void)timegm(&found);
            into->tm_wday = found.tm_wday;
            into->tm_yday = found.tm_yday;
        }
    }
    return (char *)end;
}
