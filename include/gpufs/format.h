/* Formats and their arguments: packing the arguments into an array with their types, and checking them against the
 * format.
 *
 * When a format is checked:
 *
 *   always       at run time. A format or an argument that does not fit is EINVAL, and nothing is printed. So is a
 *                format without a NUL within GPUFS_FORMAT_BYTES, 4,096
 *   C++20        by the compiler, if the format is a literal: fprintf(out, "%d\n", 1.5) is an error
 *   C++14, 17    the same with the macro gpufs_fprintf(out, "%d\n", 1.5); with clang, the plain name warns (-Wformat)
 *   C11          by the compiler, with the macro: gpufs_fprintf(out, "%d\n", 1.5) is a warning (-Wformat)
 *
 * (Before C++20 a function cannot see that its argument is a literal, and a macro named fprintf would break
 * std::fprintf.)
 *
 * Arguments that no conversion uses are evaluated and ignored (C11 7.21.6.1, 2), in every language and at run time.
 * Compilers warn of them where they can: in C11, with the macros in C++ (-Wdeprecated-declarations), and clang also
 * with the plain names in C++20 (-Wuser-defined-warnings).
 *
 * Which arguments fit: any integer fits %d i u o x X b B c C lc and `*`, and is converted as the length modifier says.
 * Floating-point numbers fit %f e g a and their capitals. char pointers fit %s, wchar_t pointers %ls and %S. Pointers
 * fit %p. Pointers to integers fit %n if the length modifier is theirs: int * %n, long * %ln, signed char * %hhn. %m
 * takes none: it prints errno. Arguments may be numbered, all or none: %2$*1$d. A format takes at most 16 arguments
 * from a macro or a template, GPUFS_VARIADIC_ARGUMENTS from `...` and va_list. Wide characters are printed as UTF-8;
 * EILSEQ for what is none. L takes a double: on a GPU long double is double.
 */
#ifndef GPUFS_FORMAT_H
#define GPUFS_FORMAT_H

#include <gpufs/gpufs.h>

#ifdef __cplusplus

#include <gpufs/format_check.h>

namespace gpufs {
namespace detail {

GPUFS_BOTH inline uint64_t bits_of(double value) {
    uint64_t bits;
#if GPUFS_RTC_
    bits = (uint64_t)__double_as_longlong(value);
#else
    __builtin_memcpy(&bits, &value, sizeof bits);
#endif
    return bits;
}
GPUFS_BOTH inline gpufs_argument plain(uint32_t kind, uint64_t bits) {
    gpufs_argument argument = {kind, 0, bits};
    return argument;
}

template <uint32_t K>
struct Kind {
    static constexpr uint32_t value = K;
};

/* One overload for each type that can be printed. Smaller types are promoted, as in C. The second function gives the
 * kind at compile time. */
#define GPUFS_PRINTABLE_(type, kind, bits)                                                     \
    GPUFS_BOTH inline gpufs_argument argument(type value) { return plain(kind, (bits)); }      \
    GPUFS_BOTH Kind<kind> kind_of(type);
GPUFS_PRINTABLE_(int, GPUFS_ARGUMENT_SIGNED, static_cast<uint64_t>(static_cast<int64_t>(value)))
GPUFS_PRINTABLE_(long, GPUFS_ARGUMENT_SIGNED, static_cast<uint64_t>(value))
GPUFS_PRINTABLE_(long long, GPUFS_ARGUMENT_SIGNED, static_cast<uint64_t>(value))
GPUFS_PRINTABLE_(unsigned, GPUFS_ARGUMENT_UNSIGNED, value)
GPUFS_PRINTABLE_(unsigned long, GPUFS_ARGUMENT_UNSIGNED, value)
GPUFS_PRINTABLE_(unsigned long long, GPUFS_ARGUMENT_UNSIGNED, value)
GPUFS_PRINTABLE_(double, GPUFS_ARGUMENT_DOUBLE, bits_of(value))
#if !GPUFS_ON_DEVICE
GPUFS_PRINTABLE_(long double, GPUFS_ARGUMENT_DOUBLE, bits_of(static_cast<double>(value)))
#endif
GPUFS_PRINTABLE_(const char *, GPUFS_ARGUMENT_C_STRING, reinterpret_cast<uint64_t>(value))
GPUFS_PRINTABLE_(const signed char *, GPUFS_ARGUMENT_C_STRING, reinterpret_cast<uint64_t>(value))
GPUFS_PRINTABLE_(const unsigned char *, GPUFS_ARGUMENT_C_STRING, reinterpret_cast<uint64_t>(value))
GPUFS_PRINTABLE_(const volatile void *, GPUFS_ARGUMENT_POINTER, reinterpret_cast<uint64_t>(value))
#undef GPUFS_PRINTABLE_
/* Pointers of which a length says more; the kind at compile time has the length of an integer in its second byte. */
#define GPUFS_PRINTABLE_(type, kind, length)                                          \
    GPUFS_BOTH inline gpufs_argument argument(type value) {                           \
        gpufs_argument argument = {kind, length, reinterpret_cast<uint64_t>(value)};  \
        return argument;                                                              \
    }                                                                                 \
    GPUFS_BOTH Kind<(kind) | ((length) == UINT32_MAX ? 0 : (length) << 8)> kind_of(type);
GPUFS_PRINTABLE_(const wchar_t *, GPUFS_ARGUMENT_WIDE, UINT32_MAX)
GPUFS_PRINTABLE_(signed char *, GPUFS_ARGUMENT_C_STRING, 1)
GPUFS_PRINTABLE_(short *, GPUFS_ARGUMENT_PLACE, 2)
GPUFS_PRINTABLE_(unsigned short *, GPUFS_ARGUMENT_PLACE, 2)
GPUFS_PRINTABLE_(int *, GPUFS_ARGUMENT_PLACE, 4)
GPUFS_PRINTABLE_(unsigned *, GPUFS_ARGUMENT_PLACE, 4)
GPUFS_PRINTABLE_(long *, GPUFS_ARGUMENT_PLACE, 8)
GPUFS_PRINTABLE_(unsigned long *, GPUFS_ARGUMENT_PLACE, 8)
GPUFS_PRINTABLE_(long long *, GPUFS_ARGUMENT_PLACE, 8)
GPUFS_PRINTABLE_(unsigned long long *, GPUFS_ARGUMENT_PLACE, 8)
#undef GPUFS_PRINTABLE_
GPUFS_BOTH inline gpufs_argument argument(decltype(nullptr)) { return plain(GPUFS_ARGUMENT_POINTER, 0); }
GPUFS_BOTH Kind<GPUFS_ARGUMENT_POINTER> kind_of(decltype(nullptr));

template <class T>
GPUFS_BOTH T &&value_of();

/* The types that follow a format. */
template <class... A>
struct Types {};

/* By value, so that an array counts as a pointer. */
template <class... A>
GPUFS_BOTH Types<A...> types_of(const char *, A...);

/* Whether a format fits arguments of these types. */
template <class... A>
GPUFS_BOTH constexpr bool fits(Types<A...>, const char *format) {
    const uint32_t kinds[sizeof...(A) + 1] = {decltype(kind_of(value_of<A>()))::value..., 0};
    Check check = {format, kinds, sizeof...(A), 0, 0, 0};
    return check.run();
}

/* Whether a format that fits uses all of them. The others are evaluated and ignored. */
template <class... A>
GPUFS_BOTH constexpr bool takes_all(Types<A...>, const char *format) {
    const uint32_t kinds[sizeof...(A) + 1] = {decltype(kind_of(value_of<A>()))::value..., 0};
    Check check = {format, kinds, sizeof...(A), 0, 0, 0};
    return !check.run() || check.end >= sizeof...(A);
}

/* The number of bytes before the NUL. Without a NUL in `room` bytes: SIZE_MAX, which the printing functions answer
 * with EINVAL. */
GPUFS_BOTH constexpr size_t length_of(const char *text, size_t room = GPUFS_FORMAT_BYTES) {
    size_t length = 0;
    if (text != nullptr) {
        while (text[length] != '\0') {
            if (++length == room) {
                return SIZE_MAX;
            }
        }
    }
    return length;
}

template <class T>
struct Same {
    using type = T;
};

template <class T>
struct CharPointer {};
template <>
struct CharPointer<char *> {
    using type = int;
};
template <>
struct CharPointer<const char *> {
    using type = int;
};

#if defined(__cpp_consteval)

/* Only clang can warn here. */
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wgcc-compat"
#define GPUFS_WARN_IF_(condition, text) __attribute__((diagnose_if(condition, text, "warning")))
#else
#define GPUFS_WARN_IF_(condition, text)
#endif

/* Not a constant expression: a call of it while the compiler evaluates a format is the error that the programmer
 * sees. (In device code nvcc reports FormatThatFits as undefined, at the line of the call. With `__device__` on the
 * constructor it would report less.) */
GPUFS_BOTH inline void the_format_does_not_fit_the_arguments() {}

/* A format and its length; a literal is checked by the compiler against arguments of the types A. */
template <class... A>
struct FormatThatFits {
    const char *text;
    size_t length;

    template <size_t N>
#if GPUFS_RTC_ /* which has functions of the device alone */
    GPUFS_BOTH
#endif
    consteval FormatThatFits(const char (&literal)[N])
        GPUFS_WARN_IF_(!takes_all(Types<A...>(), literal),
                       "the format has fewer conversions than there are arguments; the others are evaluated and "
                       "ignored")
        : text(literal), length(length_of(literal, N)) {
        if (!fits(Types<A...>(), literal)) {
            the_format_does_not_fit_the_arguments();
        }
    }
    /* Any other is checked when it is printed. */
    template <class P, typename CharPointer<P>::type = 0>
    GPUFS_BOTH constexpr FormatThatFits(const P &pointer) : text(pointer), length(length_of(pointer)) {}
    template <size_t N>
    GPUFS_BOTH constexpr FormatThatFits(char (&array)[N]) : text(array), length(length_of(array, N)) {}
};
#undef GPUFS_WARN_IF_
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
template <class... A>
using FormatFor = typename Same<FormatThatFits<A...>>::type;
#define GPUFS_FORMAT_ATTRIBUTE_(place, first)

#else

struct Format {
    const char *text;
    size_t length;
    GPUFS_BOTH constexpr Format(const char *format) : text(format), length(length_of(format)) {}
};
#if defined(__clang__) && __clang_major__ >= 16
#define GPUFS_FORMAT_ATTRIBUTE_(place, first) __attribute__((format(printf, place, first)))
#else
#define GPUFS_FORMAT_ATTRIBUTE_(place, first)
#endif

#endif

/* The arguments in a row. It has one item more than there are arguments: an array cannot be empty. */
template <size_t N>
struct Row {
    gpufs_argument items[N + 1];
};
template <class... A>
GPUFS_BOTH inline Row<sizeof...(A)> row(A... arguments) {
    return Row<sizeof...(A)>{{argument(arguments)...}};
}

template <bool Fits>
struct Checked {
    static_assert(Fits, "the format does not fit the arguments");
    static constexpr int value = 0;
};
template <bool All>
struct Taken {
    static constexpr int value = 0;
};
template <>
struct Taken<false> {
    [[deprecated("the format has fewer conversions than there are arguments; the others are evaluated and ignored")]]
    static constexpr int value = 0;
};

} /* namespace detail */
} /* namespace gpufs */

#define GPUFS_FIRST_(first, ...) first
/* The result of `check` for a literal format and its arguments; true for any other format. */
#define GPUFS_OF_LITERAL_(check, ...)                                                                                  \
    (__builtin_constant_p(GPUFS_FIRST_(__VA_ARGS__, 0))                                                                \
         ? ::gpufs::detail::check(decltype(::gpufs::detail::types_of(__VA_ARGS__))(), GPUFS_FIRST_(__VA_ARGS__, 0))    \
         : true)
/* An error if a literal format does not fit its arguments, a warning if it does not use all of them. */
#define GPUFS_CHECK_(...)                                                                                              \
    (static_cast<void>(::gpufs::detail::Checked<GPUFS_OF_LITERAL_(fits, __VA_ARGS__)>::value),                         \
     static_cast<void>(::gpufs::detail::Taken<GPUFS_OF_LITERAL_(takes_all, __VA_ARGS__)>::value))

#else /* C */

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L

static __inline__ gpufs_argument gpufs_argument_signed_(long long value) {
    gpufs_argument argument = {GPUFS_ARGUMENT_SIGNED, 0, (uint64_t)value};
    return argument;
}
static __inline__ gpufs_argument gpufs_argument_unsigned_(unsigned long long value) {
    gpufs_argument argument = {GPUFS_ARGUMENT_UNSIGNED, 0, value};
    return argument;
}
static __inline__ gpufs_argument gpufs_argument_double_(double value) {
    gpufs_argument argument = {GPUFS_ARGUMENT_DOUBLE, 0, 0};
    __builtin_memcpy(&argument.bits, &value, sizeof value);
    return argument;
}
#if GPUFS_ON_DEVICE
#define gpufs_argument_long_double_ gpufs_argument_double_ /* GPUs have no function that takes one */
#else
static __inline__ gpufs_argument gpufs_argument_long_double_(long double value) {
    return gpufs_argument_double_((double)value);
}
#endif
static __inline__ gpufs_argument gpufs_argument_string_(const void *value) {
    gpufs_argument argument = {GPUFS_ARGUMENT_C_STRING, 0, (uint64_t)(uintptr_t)value};
    return argument;
}
static __inline__ gpufs_argument gpufs_argument_pointer_(const volatile void *value) {
    gpufs_argument argument = {GPUFS_ARGUMENT_POINTER, 0, (uint64_t)(uintptr_t)value};
    return argument;
}

/* Pointers to integers. C's wchar_t is int or unsigned: a pointer to either may lead to a wide string. */
#define GPUFS_ARGUMENT_TO_(name, kind, length)                                                   \
    static __inline__ gpufs_argument gpufs_argument_##name##_(const volatile void *value) {          \
        gpufs_argument argument = {kind, length, (uint64_t)(uintptr_t)value};                    \
        return argument;                                                                         \
    }
GPUFS_ARGUMENT_TO_(bytes, GPUFS_ARGUMENT_C_STRING, 1)
GPUFS_ARGUMENT_TO_(short, GPUFS_ARGUMENT_PLACE, 2)
GPUFS_ARGUMENT_TO_(int, GPUFS_ARGUMENT_WIDE_PLACE, 4)
GPUFS_ARGUMENT_TO_(long, GPUFS_ARGUMENT_PLACE, 8)
GPUFS_ARGUMENT_TO_(wide, GPUFS_ARGUMENT_WIDE, UINT32_MAX)
#undef GPUFS_ARGUMENT_TO_

/* One argument. Anything that is not a number goes to a parameter of pointer type, which the compiler checks. */
#define GPUFS_ARGUMENT_(value)                       \
    _Generic((value),                                \
        _Bool: gpufs_argument_unsigned_,             \
        char: gpufs_argument_signed_,                \
        signed char: gpufs_argument_signed_,         \
        unsigned char: gpufs_argument_unsigned_,     \
        short: gpufs_argument_signed_,               \
        unsigned short: gpufs_argument_unsigned_,    \
        int: gpufs_argument_signed_,                 \
        unsigned: gpufs_argument_unsigned_,          \
        long: gpufs_argument_signed_,                \
        unsigned long: gpufs_argument_unsigned_,     \
        long long: gpufs_argument_signed_,           \
        unsigned long long: gpufs_argument_unsigned_, \
        float: gpufs_argument_double_,               \
        double: gpufs_argument_double_,              \
        long double: gpufs_argument_long_double_,    \
        char *: gpufs_argument_string_,              \
        const char *: gpufs_argument_string_,        \
        signed char *: gpufs_argument_bytes_,        \
        const signed char *: gpufs_argument_string_, \
        unsigned char *: gpufs_argument_string_,     \
        const unsigned char *: gpufs_argument_string_, \
        short *: gpufs_argument_short_,              \
        unsigned short *: gpufs_argument_short_,     \
        int *: gpufs_argument_int_,                  \
        unsigned *: gpufs_argument_int_,             \
        long *: gpufs_argument_long_,                \
        unsigned long *: gpufs_argument_long_,       \
        long long *: gpufs_argument_long_,           \
        unsigned long long *: gpufs_argument_long_,  \
        const int *: gpufs_argument_wide_,           \
        const unsigned *: gpufs_argument_wide_,      \
        default: gpufs_argument_pointer_)(value)

/* The format and up to 16 arguments, each through GPUFS_ARGUMENT_. */
#define GPUFS_EACH_1_(a) GPUFS_ARGUMENT_(a)
#define GPUFS_EACH_2_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_1_(__VA_ARGS__)
#define GPUFS_EACH_3_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_2_(__VA_ARGS__)
#define GPUFS_EACH_4_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_3_(__VA_ARGS__)
#define GPUFS_EACH_5_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_4_(__VA_ARGS__)
#define GPUFS_EACH_6_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_5_(__VA_ARGS__)
#define GPUFS_EACH_7_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_6_(__VA_ARGS__)
#define GPUFS_EACH_8_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_7_(__VA_ARGS__)
#define GPUFS_EACH_9_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_8_(__VA_ARGS__)
#define GPUFS_EACH_10_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_9_(__VA_ARGS__)
#define GPUFS_EACH_11_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_10_(__VA_ARGS__)
#define GPUFS_EACH_12_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_11_(__VA_ARGS__)
#define GPUFS_EACH_13_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_12_(__VA_ARGS__)
#define GPUFS_EACH_14_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_13_(__VA_ARGS__)
#define GPUFS_EACH_15_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_14_(__VA_ARGS__)
#define GPUFS_EACH_16_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_15_(__VA_ARGS__)
#define GPUFS_EACH_17_(a, ...) GPUFS_ARGUMENT_(a), GPUFS_EACH_16_(__VA_ARGS__)
#define GPUFS_PICK_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, name, ...) name
#define GPUFS_EACH_(...)                                                                                      \
    GPUFS_PICK_(__VA_ARGS__, GPUFS_EACH_17_, GPUFS_EACH_16_, GPUFS_EACH_15_, GPUFS_EACH_14_, GPUFS_EACH_13_,  \
                GPUFS_EACH_12_, GPUFS_EACH_11_, GPUFS_EACH_10_, GPUFS_EACH_9_, GPUFS_EACH_8_, GPUFS_EACH_7_,  \
                GPUFS_EACH_6_, GPUFS_EACH_5_, GPUFS_EACH_4_, GPUFS_EACH_3_, GPUFS_EACH_2_, GPUFS_EACH_1_, 0)  \
    (__VA_ARGS__)

/* The format and its arguments as the last two arguments of gpufs_fprintf_row_ and gpufs_snprintf_row_: an array
 * whose first item is the format, and its length. */
#define GPUFS_PACKED_(...)                               \
    (const gpufs_argument[]){GPUFS_EACH_(__VA_ARGS__)},  \
        GPUFS_PICK_(__VA_ARGS__, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)

/* Never called: its attribute has the compiler check a literal format. */
__attribute__((format(printf, 1, 2))) static __inline__ int gpufs_check_format_(const char *format, ...) {
    (void)format;
    return 0;
}
#define GPUFS_CHECK_(...) ((void)(0 ? gpufs_check_format_(__VA_ARGS__) : 0))

/* The format of a packed row. */
static __inline__ const char *gpufs_format_(const gpufs_argument *row) { return (const char *)(uintptr_t)row->bits; }
/* The number of bytes before the NUL. Without a NUL in GPUFS_FORMAT_BYTES bytes: SIZE_MAX, which the printing
 * functions answer with EINVAL. */
static __inline__ size_t gpufs_length_(const char *text) {
    size_t length = 0;
    if (text != NULL) {
        while (text[length] != '\0') {
            if (++length == GPUFS_FORMAT_BYTES) {
                return SIZE_MAX;
            }
        }
    }
    return length;
}

#endif

#endif

#endif
