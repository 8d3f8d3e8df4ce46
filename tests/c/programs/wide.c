/* Wide streams: what each call says, and what the file then holds. */
/* Before <stdio.h>, which then declares open_wmemstream, too. */
#include <wchar.h>
#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int through_list(wchar_t *into, size_t count, const wchar_t *format, ...) {
    va_list list;
    int result;
    va_start(list, format);
    result = vswprintf(into, count, format, list);
    va_end(list);
    return result;
}

int main(void) {
    wchar_t line[64], word[32], tight[4];
    wint_t character;
    char bytes[64];
    int number = 0, result;
    double real = 0;
    FILE *file = fopen("wide.txt", "w+");
    if (file == NULL || setlocale(LC_ALL, "C.UTF-8") == NULL) {
        perror("wide.txt");
        return 1;
    }
    printf("orientation %d\n", fwide(file, 1) > 0);
    printf("fputws %d\n", fputws(L"gr\u00fc\u00dfe \u20ac \U0001f600\n", file) >= 0);
    printf("fputwc %d\n", fputwc(L'\u00e4', file) == L'\u00e4' && putwc(L'\n', file) == L'\n');
    printf("fwprintf %d\n", fwprintf(file, L"%d|%5.2f|%ls|%s|%lc|%-6ls|\n", 42, 2.5, L"\u00f6", "plain", L'\u20ac', L"abc"));
    printf("fwprintf %d\n", fwprintf(file, L"17 3.25 word\n"));
    rewind(file);
    printf("fgetws %d\n", fgetws(line, 64, file) == line);
    printf("%zu characters, %x %x %x\n", wcslen(line), (unsigned)line[2], (unsigned)line[6], (unsigned)line[8]);
    character = fgetwc(file);
    printf("fgetwc %x\n", (unsigned)character);
    printf("ungetwc %x\n", (unsigned)ungetwc(character, file));
    printf("getwc %x, then %x\n", (unsigned)getwc(file), (unsigned)fgetwc(file));
    printf("fgetws %d: %zu\n", fgetws(line, 8, file) == line, wcslen(line));
    printf("fgetws %d: %zu\n", fgetws(line, 64, file) == line, wcslen(line));
    result = fwscanf(file, L"%d %lf %ls", &number, &real, word);
    printf("fwscanf %d: %d %g %d\n", result, number, real, wcscmp(word, L"word"));
    printf("end %d", fgetwc(file) == L'\n');
    printf(" %d %d\n", fgetwc(file) == WEOF, feof(file) != 0);
    printf("close %d\n", fclose(file));

    printf("swprintf %d\n", swprintf(line, 64, L"%s-%ls-%c-%04x", "narrow", L"w\u00efde", 'c', 255));
    printf("same %d\n", wcscmp(line, L"narrow-w\u00efde-c-00ff"));
    printf("swprintf %d\n", swprintf(tight, 4, L"%d", 12345) < 0);
    printf("swprintf %d: %zu\n", swprintf(tight, 4, L"%d", 123), wcslen(tight));
    printf("vswprintf %d\n", through_list(line, 64, L"%ls", L"\u00e9t\u00e9"));
    printf("swscanf %d", swscanf(L"5 apples \u00e9", L"%d %ls %31ls", &number, word, line));
    printf(" %d %d %x\n", number, wcscmp(word, L"apples"), (unsigned)line[0]);

    file = fopen("wide.txt", "w+");
    fputs("ok\xff", file);
    fclose(file);
    file = fopen("wide.txt", "r");
    fwide(file, 1);
    printf("%d", fgetwc(file) == L'o');
    printf("%d", fgetwc(file) == L'k');
    errno = 0;
    printf("%d %s %d\n", fgetwc(file) == WEOF, strerror(errno), ferror(file) != 0);
    fclose(file);

    file = fopen("wide.txt", "w");
    fwide(file, 1);
    for (number = 0; number < 300; ++number) {
        fwprintf(file, L"\u00fc%d,", number);
    }
    printf("close %d\n", fclose(file));
    file = fopen("wide.txt", "r");
    for (number = 0; fread(bytes, 1, 50, file) == 50; ++number) {
    }
    printf("%d pieces\n", number);
    fclose(file);
    return remove("wide.txt") != 0;
}
