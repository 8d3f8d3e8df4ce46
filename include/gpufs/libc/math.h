/* C11 7.12, on a GPU. No function sets errno. long double is double. */
#ifndef GPUFS_LIBC_MATH_H
#define GPUFS_LIBC_MATH_H
typedef float float_t;
typedef double double_t;
#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#define HUGE_VALL __builtin_huge_vall()
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define FP_NAN 0
#define FP_INFINITE 1
#define FP_ZERO 2
#define FP_SUBNORMAL 3
#define FP_NORMAL 4
#define FP_ILOGB0 (-2147483647)
#define FP_ILOGBNAN 2147483647
#define MATH_ERRNO 1
#define MATH_ERREXCEPT 2
#define math_errhandling 0
#define fpclassify(x) __builtin_fpclassify(FP_NAN, FP_INFINITE, FP_NORMAL, FP_SUBNORMAL, FP_ZERO, x)
#define isfinite(x) __builtin_isfinite(x)
#define isinf(x) __builtin_isinf_sign(x)
#define isnan(x) __builtin_isnan(x)
#define isnormal(x) __builtin_isnormal(x)
#define signbit(x) __builtin_signbit(x)
#define isgreater(x, y) __builtin_isgreater(x, y)
#define isgreaterequal(x, y) __builtin_isgreaterequal(x, y)
#define isless(x, y) __builtin_isless(x, y)
#define islessequal(x, y) __builtin_islessequal(x, y)
#define islessgreater(x, y) __builtin_islessgreater(x, y)
#define isunordered(x, y) __builtin_isunordered(x, y)
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
double acos(double x);
float acosf(float x);
double acosh(double x);
float acoshf(float x);
double asin(double x);
float asinf(float x);
double asinh(double x);
float asinhf(float x);
double atan(double x);
float atanf(float x);
double atanh(double x);
float atanhf(float x);
double cbrt(double x);
float cbrtf(float x);
double ceil(double x);
float ceilf(float x);
double cos(double x);
float cosf(float x);
double cosh(double x);
float coshf(float x);
double erf(double x);
float erff(float x);
double erfc(double x);
float erfcf(float x);
double exp(double x);
float expf(float x);
double exp10(double x);
float exp10f(float x);
double exp2(double x);
float exp2f(float x);
double expm1(double x);
float expm1f(float x);
double fabs(double x);
float fabsf(float x);
double floor(double x);
float floorf(float x);
double lgamma(double x);
float lgammaf(float x);
double log(double x);
float logf(float x);
double log10(double x);
float log10f(float x);
double log1p(double x);
float log1pf(float x);
double log2(double x);
float log2f(float x);
double rint(double x);
float rintf(float x);
double round(double x);
float roundf(float x);
double roundeven(double x);
float roundevenf(float x);
double sin(double x);
float sinf(float x);
double sinh(double x);
float sinhf(float x);
double sqrt(double x);
float sqrtf(float x);
double tan(double x);
float tanf(float x);
double tanh(double x);
float tanhf(float x);
double tgamma(double x);
float tgammaf(float x);
double trunc(double x);
float truncf(float x);
double atan2(double x, double y);
float atan2f(float x, float y);
double copysign(double x, double y);
float copysignf(float x, float y);
double fdim(double x, double y);
float fdimf(float x, float y);
double fmax(double x, double y);
float fmaxf(float x, float y);
double fmin(double x, double y);
float fminf(float x, float y);
double fmod(double x, double y);
float fmodf(float x, float y);
double hypot(double x, double y);
float hypotf(float x, float y);
double nextafter(double x, double y);
float nextafterf(float x, float y);
double pow(double x, double y);
float powf(float x, float y);
double remainder(double x, double y);
float remainderf(float x, float y);
double fma(double x, double y, double z);
float fmaf(float x, float y, float z);
double frexp(double x, int *power);
float frexpf(float x, int *power);
int ilogb(double x);
int ilogbf(float x);
double ldexp(double x, int power);
float ldexpf(float x, int power);
double modf(double x, double *whole);
float modff(float x, float *whole);
double scalbn(double x, int power);
float scalbnf(float x, int power);
double j0(double x);
double j1(double x);
double y0(double x);
double y1(double x);
static __inline__ double nearbyint(double x) { return rint(x); }
static __inline__ float nearbyintf(float x) { return rintf(x); }
static __inline__ long lrint(double x) { return (long)rint(x); }
static __inline__ long lrintf(float x) { return (long)rintf(x); }
static __inline__ long long llrint(double x) { return (long long)rint(x); }
static __inline__ long lround(double x) { return (long)round(x); }
static __inline__ long lroundf(float x) { return (long)roundf(x); }
static __inline__ long long llround(double x) { return (long long)round(x); }
static __inline__ double logb(double x) { return x == 0 ? -HUGE_VAL : isinf(x) ? HUGE_VAL : isnan(x) ? x : ilogb(x); }
static __inline__ double scalbln(double x, long power) {
    return scalbn(x, power > 100000 ? 100000 : power < -100000 ? -100000 : (int)power);
}
static __inline__ double nan(const char *tag) { return (void)tag, __builtin_nan(""); }
static __inline__ long double acosl(long double x) { return acos((double)x); }
static __inline__ long double acoshl(long double x) { return acosh((double)x); }
static __inline__ long double asinl(long double x) { return asin((double)x); }
static __inline__ long double asinhl(long double x) { return asinh((double)x); }
static __inline__ long double atanl(long double x) { return atan((double)x); }
static __inline__ long double atanhl(long double x) { return atanh((double)x); }
static __inline__ long double cbrtl(long double x) { return cbrt((double)x); }
static __inline__ long double ceill(long double x) { return ceil((double)x); }
static __inline__ long double cosl(long double x) { return cos((double)x); }
static __inline__ long double coshl(long double x) { return cosh((double)x); }
static __inline__ long double erfl(long double x) { return erf((double)x); }
static __inline__ long double erfcl(long double x) { return erfc((double)x); }
static __inline__ long double expl(long double x) { return exp((double)x); }
static __inline__ long double exp2l(long double x) { return exp2((double)x); }
static __inline__ long double expm1l(long double x) { return expm1((double)x); }
static __inline__ long double fabsl(long double x) { return fabs((double)x); }
static __inline__ long double floorl(long double x) { return floor((double)x); }
static __inline__ long double lgammal(long double x) { return lgamma((double)x); }
static __inline__ long double logl(long double x) { return log((double)x); }
static __inline__ long double log10l(long double x) { return log10((double)x); }
static __inline__ long double log1pl(long double x) { return log1p((double)x); }
static __inline__ long double log2l(long double x) { return log2((double)x); }
static __inline__ long double rintl(long double x) { return rint((double)x); }
static __inline__ long double roundl(long double x) { return round((double)x); }
static __inline__ long double sinl(long double x) { return sin((double)x); }
static __inline__ long double sinhl(long double x) { return sinh((double)x); }
static __inline__ long double sqrtl(long double x) { return sqrt((double)x); }
static __inline__ long double tanl(long double x) { return tan((double)x); }
static __inline__ long double tanhl(long double x) { return tanh((double)x); }
static __inline__ long double tgammal(long double x) { return tgamma((double)x); }
static __inline__ long double truncl(long double x) { return trunc((double)x); }
static __inline__ long double atan2l(long double x, long double y) { return atan2((double)x, (double)y); }
static __inline__ long double copysignl(long double x, long double y) { return copysign((double)x, (double)y); }
static __inline__ long double fdiml(long double x, long double y) { return fdim((double)x, (double)y); }
static __inline__ long double fmaxl(long double x, long double y) { return fmax((double)x, (double)y); }
static __inline__ long double fminl(long double x, long double y) { return fmin((double)x, (double)y); }
static __inline__ long double fmodl(long double x, long double y) { return fmod((double)x, (double)y); }
static __inline__ long double hypotl(long double x, long double y) { return hypot((double)x, (double)y); }
static __inline__ long double nextafterl(long double x, long double y) { return nextafter((double)x, (double)y); }
static __inline__ long double powl(long double x, long double y) { return pow((double)x, (double)y); }
static __inline__ long double remainderl(long double x, long double y) { return remainder((double)x, (double)y); }
static __inline__ long double ldexpl(long double x, int power) { return ldexp((double)x, power); }
static __inline__ long double frexpl(long double x, int *power) { return frexp((double)x, power); }
static __inline__ long double modfl(long double x, long double *whole) {
    double part, rest = modf((double)x, &part);
    *whole = part;
    return rest;
}
#endif
