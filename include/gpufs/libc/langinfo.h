/* nl_langinfo(3) of the locale "C" with UTF-8, on a GPU: the names below, and "" for others. */
#ifndef GPUFS_LIBC_LANGINFO_H
#define GPUFS_LIBC_LANGINFO_H
typedef int nl_item;
#define CODESET 14
#define RADIXCHAR 0x10000
#define THOUSEP 0x10001
#define D_T_FMT 0x20028
#define D_FMT 0x20029
#define T_FMT 0x2002a
#define T_FMT_AMPM 0x2002b
static __inline__ char *nl_langinfo(nl_item item) {
    switch (item) {
    case CODESET: return (char *)"UTF-8";
    case RADIXCHAR: return (char *)".";
    case D_T_FMT: return (char *)"%a %b %e %H:%M:%S %Y";
    case D_FMT: return (char *)"%m/%d/%y";
    case T_FMT: return (char *)"%H:%M:%S";
    case T_FMT_AMPM: return (char *)"%I:%M:%S %p";
    default: return (char *)"";
    }
}
#endif
