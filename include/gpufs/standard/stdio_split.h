/* <stdio.h> of CUDA and HIP files: each name is a macro for a function that is the C library's on the host, and calls
 * gpufs in a kernel. */
#pragma GCC system_header

/* The printf family. In a kernel a format is checked when it is printed. */
#define GPUFS_STANDARD_PRINTING_(name, parameters, host, device)              \
    template <class... A>                                                     \
    GPUFS_BOTH inline int gpufs_standard_##name parameters {                  \
        GPUFS_STANDARD_SIDE_(return host, return gpufs_value_(device));       \
    }
#if GPUFS_ON_DEVICE
#define GPUFS_STANDARD_SIDE_(host, device) device
#else
#define GPUFS_STANDARD_SIDE_(host, device) host
#endif
#define GPUFS_STANDARD_ROW_ \
    format, ::gpufs::detail::length_of(format), ::gpufs::detail::row(arguments...).items, sizeof...(A)
GPUFS_STANDARD_PRINTING_(printf, (const char *format, A... arguments), ::printf(format, arguments...),
                         gpufs_fprintf_arguments(gpufs_stdout(gpufs_used_()), GPUFS_STANDARD_ROW_))
GPUFS_STANDARD_PRINTING_(fprintf, (FILE *file, const char *format, A... arguments),
                         ::fprintf(file, format, arguments...),
                         gpufs_fprintf_arguments(GPUFS_HANDLE_(file), GPUFS_STANDARD_ROW_))
GPUFS_STANDARD_PRINTING_(snprintf, (char *into, size_t bytes, const char *format, A... arguments),
                         ::snprintf(into, bytes, format, arguments...),
                         gpufs_snprintf_arguments(into, bytes, GPUFS_STANDARD_ROW_))
GPUFS_STANDARD_PRINTING_(sprintf, (char *into, const char *format, A... arguments),
                         ::sprintf(into, format, arguments...),
                         gpufs_snprintf_arguments(into, 0x7fffffff, GPUFS_STANDARD_ROW_))

/* The scanf family. */
GPUFS_STANDARD_PRINTING_(scanf, (const char *format, A... arguments), ::scanf(format, arguments...),
                         ::gpufs::fscanf(gpufs_stdin(gpufs_used_()), format, arguments...))
GPUFS_STANDARD_PRINTING_(fscanf, (FILE *file, const char *format, A... arguments),
                         ::fscanf(file, format, arguments...),
                         ::gpufs::fscanf(GPUFS_HANDLE_(file), format, arguments...))
GPUFS_STANDARD_PRINTING_(sscanf, (const char *text, const char *format, A... arguments),
                         ::sscanf(text, format, arguments...), ::gpufs::sscanf(text, format, arguments...))

#undef scanf
#define scanf(...) gpufs_standard_scanf(__VA_ARGS__)
#undef fscanf
#define fscanf(...) gpufs_standard_fscanf(__VA_ARGS__)
#undef sscanf
#define sscanf(...) gpufs_standard_sscanf(__VA_ARGS__)
#undef printf
#define printf(...) gpufs_standard_printf(__VA_ARGS__)
#undef fprintf
#define fprintf(...) gpufs_standard_fprintf(__VA_ARGS__)
#undef snprintf
#define snprintf(...) gpufs_standard_snprintf(__VA_ARGS__)
#undef sprintf
#define sprintf(...) gpufs_standard_sprintf(__VA_ARGS__)
#undef fopen
#define fopen(...) gpufs_standard_fopen(__VA_ARGS__)
#undef fclose
#define fclose(...) gpufs_standard_fclose(__VA_ARGS__)
#undef fflush
#define fflush(...) gpufs_standard_fflush(__VA_ARGS__)
#undef fread
#define fread(...) gpufs_standard_fread(__VA_ARGS__)
#undef fwrite
#define fwrite(...) gpufs_standard_fwrite(__VA_ARGS__)
#undef fgets
#define fgets(...) gpufs_standard_fgets(__VA_ARGS__)
#undef fputs
#define fputs(...) gpufs_standard_fputs(__VA_ARGS__)
#undef puts
#define puts(...) gpufs_standard_puts(__VA_ARGS__)
#undef fgetc
#define fgetc(...) gpufs_standard_fgetc(__VA_ARGS__)
#undef getc
#define getc(...) gpufs_standard_getc(__VA_ARGS__)
#undef getchar
#define getchar(...) gpufs_standard_getchar(__VA_ARGS__)
#undef fputc
#define fputc(...) gpufs_standard_fputc(__VA_ARGS__)
#undef putc
#define putc(...) gpufs_standard_putc(__VA_ARGS__)
#undef putchar
#define putchar(...) gpufs_standard_putchar(__VA_ARGS__)
#undef ungetc
#define ungetc(...) gpufs_standard_ungetc(__VA_ARGS__)
#undef fseek
#define fseek(...) gpufs_standard_fseek(__VA_ARGS__)
#undef ftell
#define ftell(...) gpufs_standard_ftell(__VA_ARGS__)
#undef rewind
#define rewind(...) gpufs_standard_rewind(__VA_ARGS__)
#undef fgetpos
#define fgetpos(...) gpufs_standard_fgetpos(__VA_ARGS__)
#undef fsetpos
#define fsetpos(...) gpufs_standard_fsetpos(__VA_ARGS__)
#undef setvbuf
#define setvbuf(...) gpufs_standard_setvbuf(__VA_ARGS__)
#undef setbuf
#define setbuf(...) gpufs_standard_setbuf(__VA_ARGS__)
#undef feof
#define feof(...) gpufs_standard_feof(__VA_ARGS__)
#undef ferror
#define ferror(...) gpufs_standard_ferror(__VA_ARGS__)
#undef clearerr
#define clearerr(...) gpufs_standard_clearerr(__VA_ARGS__)
#undef fseeko
#define fseeko(...) gpufs_standard_fseeko(__VA_ARGS__)
#undef ftello
#define ftello(...) gpufs_standard_ftello(__VA_ARGS__)
#undef getc_unlocked
#define getc_unlocked(...) gpufs_standard_getc_unlocked(__VA_ARGS__)
#undef getchar_unlocked
#define getchar_unlocked(...) gpufs_standard_getchar_unlocked(__VA_ARGS__)
#undef putc_unlocked
#define putc_unlocked(...) gpufs_standard_putc_unlocked(__VA_ARGS__)
#undef putchar_unlocked
#define putchar_unlocked(...) gpufs_standard_putchar_unlocked(__VA_ARGS__)
