/* C11 7.30, on a GPU: classes and cases of Unicode, whatever the locale. */
#ifndef GPUFS_LIBC_WCTYPE_H
#define GPUFS_LIBC_WCTYPE_H
#ifndef WEOF
typedef __WINT_TYPE__ wint_t;
#define WEOF ((wint_t)-1)
#endif
typedef int wctype_t;
typedef int wctrans_t;
int iswalnum(wint_t character);
int iswalpha(wint_t character);
int iswblank(wint_t character);
int iswcntrl(wint_t character);
int iswdigit(wint_t character);
int iswgraph(wint_t character);
int iswlower(wint_t character);
int iswprint(wint_t character);
int iswpunct(wint_t character);
int iswspace(wint_t character);
int iswupper(wint_t character);
int iswxdigit(wint_t character);
wint_t towlower(wint_t character);
wint_t towupper(wint_t character);
wctype_t wctype(const char *name);
int iswctype(wint_t character, wctype_t which);
wctrans_t wctrans(const char *name);
wint_t towctrans(wint_t character, wctrans_t which);
#endif
