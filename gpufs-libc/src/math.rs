//! `<math.h>` (C11 7.12): the functions of the crate `libm`, which are musl's. `long double` is `double` on a GPU. None sets `errno` or raises
//! exceptions of floating point.

/// Defines C functions of numbers by functions of `libm`.
macro_rules! functions {
    ($($name:ident = $function:path: ($($argument:ident: $type:ty),*) -> $result:ty;)*) => { $(
        #[doc = concat!("`", stringify!($name), "(3)`.")]
        #[cfg_attr(any(target_arch = "nvptx64", target_arch = "amdgpu"), unsafe(no_mangle))]
        #[must_use]
        pub extern "C" fn $name($($argument: $type),*) -> $result {
            $function($($argument),*)
        }
    )* };
}

functions! {
    acos = libm::acos: (x: f64) -> f64;
    acosf = libm::acosf: (x: f32) -> f32;
    acosh = libm::acosh: (x: f64) -> f64;
    acoshf = libm::acoshf: (x: f32) -> f32;
    asin = libm::asin: (x: f64) -> f64;
    asinf = libm::asinf: (x: f32) -> f32;
    asinh = libm::asinh: (x: f64) -> f64;
    asinhf = libm::asinhf: (x: f32) -> f32;
    atan = libm::atan: (x: f64) -> f64;
    atanf = libm::atanf: (x: f32) -> f32;
    atanh = libm::atanh: (x: f64) -> f64;
    atanhf = libm::atanhf: (x: f32) -> f32;
    cbrt = libm::cbrt: (x: f64) -> f64;
    cbrtf = libm::cbrtf: (x: f32) -> f32;
    ceil = libm::ceil: (x: f64) -> f64;
    ceilf = libm::ceilf: (x: f32) -> f32;
    cos = libm::cos: (x: f64) -> f64;
    cosf = libm::cosf: (x: f32) -> f32;
    cosh = libm::cosh: (x: f64) -> f64;
    coshf = libm::coshf: (x: f32) -> f32;
    erf = libm::erf: (x: f64) -> f64;
    erff = libm::erff: (x: f32) -> f32;
    erfc = libm::erfc: (x: f64) -> f64;
    erfcf = libm::erfcf: (x: f32) -> f32;
    exp = libm::exp: (x: f64) -> f64;
    expf = libm::expf: (x: f32) -> f32;
    exp10 = libm::exp10: (x: f64) -> f64;
    exp10f = libm::exp10f: (x: f32) -> f32;
    exp2 = libm::exp2: (x: f64) -> f64;
    exp2f = libm::exp2f: (x: f32) -> f32;
    expm1 = libm::expm1: (x: f64) -> f64;
    expm1f = libm::expm1f: (x: f32) -> f32;
    fabs = libm::fabs: (x: f64) -> f64;
    fabsf = libm::fabsf: (x: f32) -> f32;
    floor = libm::floor: (x: f64) -> f64;
    floorf = libm::floorf: (x: f32) -> f32;
    lgamma = libm::lgamma: (x: f64) -> f64;
    lgammaf = libm::lgammaf: (x: f32) -> f32;
    log = libm::log: (x: f64) -> f64;
    logf = libm::logf: (x: f32) -> f32;
    log10 = libm::log10: (x: f64) -> f64;
    log10f = libm::log10f: (x: f32) -> f32;
    log1p = libm::log1p: (x: f64) -> f64;
    log1pf = libm::log1pf: (x: f32) -> f32;
    log2 = libm::log2: (x: f64) -> f64;
    log2f = libm::log2f: (x: f32) -> f32;
    rint = libm::rint: (x: f64) -> f64;
    rintf = libm::rintf: (x: f32) -> f32;
    round = libm::round: (x: f64) -> f64;
    roundf = libm::roundf: (x: f32) -> f32;
    roundeven = libm::roundeven: (x: f64) -> f64;
    roundevenf = libm::roundevenf: (x: f32) -> f32;
    sin = libm::sin: (x: f64) -> f64;
    sinf = libm::sinf: (x: f32) -> f32;
    sinh = libm::sinh: (x: f64) -> f64;
    sinhf = libm::sinhf: (x: f32) -> f32;
    sqrt = libm::sqrt: (x: f64) -> f64;
    sqrtf = libm::sqrtf: (x: f32) -> f32;
    tan = libm::tan: (x: f64) -> f64;
    tanf = libm::tanf: (x: f32) -> f32;
    tanh = libm::tanh: (x: f64) -> f64;
    tanhf = libm::tanhf: (x: f32) -> f32;
    tgamma = libm::tgamma: (x: f64) -> f64;
    tgammaf = libm::tgammaf: (x: f32) -> f32;
    trunc = libm::trunc: (x: f64) -> f64;
    truncf = libm::truncf: (x: f32) -> f32;
    atan2 = libm::atan2: (x: f64, y: f64) -> f64;
    atan2f = libm::atan2f: (x: f32, y: f32) -> f32;
    copysign = libm::copysign: (x: f64, y: f64) -> f64;
    copysignf = libm::copysignf: (x: f32, y: f32) -> f32;
    fdim = libm::fdim: (x: f64, y: f64) -> f64;
    fdimf = libm::fdimf: (x: f32, y: f32) -> f32;
    fmax = libm::fmax: (x: f64, y: f64) -> f64;
    fmaxf = libm::fmaxf: (x: f32, y: f32) -> f32;
    fmin = libm::fmin: (x: f64, y: f64) -> f64;
    fminf = libm::fminf: (x: f32, y: f32) -> f32;
    fmod = libm::fmod: (x: f64, y: f64) -> f64;
    fmodf = libm::fmodf: (x: f32, y: f32) -> f32;
    hypot = libm::hypot: (x: f64, y: f64) -> f64;
    hypotf = libm::hypotf: (x: f32, y: f32) -> f32;
    nextafter = libm::nextafter: (x: f64, y: f64) -> f64;
    nextafterf = libm::nextafterf: (x: f32, y: f32) -> f32;
    pow = libm::pow: (x: f64, y: f64) -> f64;
    powf = libm::powf: (x: f32, y: f32) -> f32;
    remainder = libm::remainder: (x: f64, y: f64) -> f64;
    remainderf = libm::remainderf: (x: f32, y: f32) -> f32;
    fma = libm::fma: (x: f64, y: f64, z: f64) -> f64;
    fmaf = libm::fmaf: (x: f32, y: f32, z: f32) -> f32;
    ldexp = libm::ldexp: (x: f64, power: i32) -> f64;
    ldexpf = libm::ldexpf: (x: f32, power: i32) -> f32;
    scalbn = libm::scalbn: (x: f64, power: i32) -> f64;
    scalbnf = libm::scalbnf: (x: f32, power: i32) -> f32;
    j0 = libm::j0: (x: f64) -> f64;
    j1 = libm::j1: (x: f64) -> f64;
    y0 = libm::y0: (x: f64) -> f64;
    y1 = libm::y1: (x: f64) -> f64;
    ilogb = libm::ilogb: (x: f64) -> i32;
    ilogbf = libm::ilogbf: (x: f32) -> i32;
}

/// Defines `frexp` and `modf`, which store their second result.
macro_rules! pairs {
    ($($name:ident = $function:path: $type:ty => $second:ty;)*) => { $(
        #[doc = concat!("`", stringify!($name), "(3)`.")]
        ///
        /// # Safety
        /// `second` may be written.
        #[cfg_attr(any(target_arch = "nvptx64", target_arch = "amdgpu"), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(x: $type, second: *mut $second) -> $type {
            let (result, stored) = $function(x);
            // SAFETY:
            // - writable, by this function's contract; C aligns it
            unsafe { second.write(stored) };
            result
        }
    )* };
}

pairs! {
    frexp = libm::frexp: f64 => i32;
    frexpf = libm::frexpf: f32 => i32;
    modf = libm::modf: f64 => f64;
    modff = libm::modff: f32 => f32;
}

#[cfg(test)]
mod tests {
    /// Each function beside the system's, over the same numbers: the results differ by at most two units of the last place.
    macro_rules! beside {
        ($($name:ident),*) => { $( {
            unsafe extern "C" {
                safe fn $name(x: f64) -> f64;
            }
            for step in -4000..4000 {
                let x = f64::from(step) / 97.0;
                let (ours, system) = (super::$name(x), $name(x));
                let near = ours == system
                    || (ours.is_nan() && system.is_nan())
                    || (ours.is_sign_positive() == system.is_sign_positive()
                        && ours.to_bits().abs_diff(system.to_bits()) <= 2);
                assert!(near, "{}({x}): {ours} and {system}", stringify!($name));
            }
        } )* };
    }

    #[test]
    fn functions_are_beside_the_systems() {
        beside!(
            acos, asin, atan, cbrt, ceil, cos, cosh, exp, exp2, expm1, floor, log, log10, log1p, log2, rint
        );
        beside!(round, sin, sinh, sqrt, tan, tanh, trunc, asinh, acosh, atanh, erf);
    }

    #[test]
    fn results_in_two_parts() {
        let (mut power, mut whole) = (0, 0.0);
        // SAFETY:
        // - a number of this function's
        assert_eq!(unsafe { super::frexp(12.0, &raw mut power) }, 0.75);
        // SAFETY:
        // - a number of this function's
        assert_eq!(unsafe { super::modf(-3.25, &raw mut whole) }, -0.25);
        assert_eq!((power, whole), (4, -3.0));
    }
}
